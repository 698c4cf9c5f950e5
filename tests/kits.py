"""What tests do with kits: look into them, give them other certificates, shake hands, and ask a coordinator."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nvflare.fuel.f3.drivers.net_utils import get_ssl_context
from nvflare.lighter.utils import Identity, generate_cert, generate_keys, load_private_key_file
from nvflare.lighter.utils import serialize_cert as pem
from nvflare.lighter.utils import serialize_pri_key as key_pem

from fedrel.federation.engines.nvflare import provisioning
from fedrel.federation.engines.nvflare.kits import open_kit

PLATFORMS = ("a", "b", "st-Mary_2")
ASK = """
import json, sys
from pathlib import Path
from nvflare.fuel.flare_api.flare_api import new_secure_session
from fedrel.federation.engines.nvflare.hardening import pin_session_settings
user, kit, what, *more = sys.argv[1:]
pin_session_settings(Path(kit))
session = new_secure_session(user, kit)
answers = {
    "clients": lambda: sorted(client.name for client in session.get_system_info().client_info),
    "submit": lambda: session.submit_job(*more),
    "meta": lambda: session.get_job_meta(*more),
}
try:
    print(json.dumps(answers[what]()))
except Exception as error:
    print(json.dumps({"refused": type(error).__name__}))
session.close()
"""


def files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def certify(federation: Path, kit: Path, *, since: timedelta, until: timedelta) -> None:
    """Gives a platform's kit a certificate of other dates."""
    authority = load_private_key_file(federation / "ca" / "rootCA.key")
    name = provisioning.read(federation).id
    key, public = generate_keys()
    now = datetime.now(UTC)
    certificate = generate_cert(
        Identity("a", "fedrel"),
        Identity(name),
        authority,
        public,
        not_valid_before=now + since,
        not_valid_after=now + until,
    )
    (kit / "startup" / "client.crt").write_bytes(pem(certificate))
    (kit / "startup" / "client.key").write_bytes(key_pem(key))


def context(kit: Path, *, server: bool, identity: Path | None = None) -> ssl.SSLContext:
    """NVFlare's own, from a kit; with the certificate of `identity`, if that is another."""
    startup = (identity or kit) / "startup"
    kind = "server" if (startup / "server.crt").exists() else "client"
    role = "server" if server else "client"
    parameters = {
        **{"scheme": "stcp", "connection_security": "mtls", "ca_cert": str(kit / "startup/rootCA.pem")},
        **{f"{role}_cert": str(startup / f"{kind}.crt"), f"{role}_key": str(startup / f"{kind}.key")},
    }
    found = get_ssl_context(parameters, ssl_server=server)
    assert isinstance(found, ssl.SSLContext)
    return found


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """In memory: no sockets, no clock."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    two = client.wrap_bio(to_client, to_server)
    for side in (two, one, two, one, two):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    two.write(b"hello")
    assert one.read() == b"hello"


def ask(kit: Path, *what: object, user: str | None = None) -> Any:
    arguments = [user or open_kit(kit).user, kit.absolute(), *what]
    command = [sys.executable, "-c", ASK, *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr


def a_job(folder: Path, **more: str) -> Path:
    """A job with NVFlare's own classes, which a kit refuses, and more files in its configuration."""
    config = folder / "app/config"
    config.mkdir(parents=True)
    meta = {"name": folder.name, "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}
    (folder / "meta.json").write_text(json.dumps(meta))
    workflow = {"id": "w", "path": "nvflare.app_common.workflows.fedavg.FedAvg"}
    executor = {"tasks": ["t"], "executor": {"path": "nvflare.app_common.np.np_trainer.NPTrainer"}}
    (config / "config_fed_server.json").write_text(json.dumps({"format_version": 2, "workflows": [workflow]}))
    (config / "config_fed_client.json").write_text(json.dumps({"format_version": 2, "executors": [executor]}))
    for name, content in more.items():
        (config / f"{name}.json").write_text(content)
    return folder
