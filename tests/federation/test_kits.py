"""Kits of a federation: who has which secret, what a kit allows, and who is refused."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.utils.format_check import name_check
from nvflare.apis.workspace import Workspace
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.fuel.f3.drivers.net_utils import get_ssl_context
from nvflare.fuel.sec.authz import AuthzContext, Person
from nvflare.fuel.utils.config_factory import ConfigFactory
from nvflare.lighter.utils import Identity, generate_cert, generate_keys, load_private_key_file
from nvflare.lighter.utils import serialize_cert as pem
from nvflare.lighter.utils import serialize_pri_key as key_pem
from nvflare.private.fed.server.client_manager import ClientManager
from nvflare.security.security import FLAuthorizer

from fedrel.errors import UserError
from fedrel.federation.engines.nvflare import hardening, provisioning
from fedrel.federation.engines.nvflare.kits import Kit, Party, open_kit
from fedrel.federation.engines.nvflare.storage import KitStorage
from fedrel.privacy.policy import Policy

PLATFORMS = ("a", "b", "st-Mary_2")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "federation"
    provisioning.new(folder, host="localhost", port=8999, platforms=PLATFORMS)
    return folder


@pytest.fixture
def federation(made, tmp_path) -> Path:
    """A copy that a test may change, in another place than it was made."""
    return Path(shutil.copytree(made, tmp_path / "elsewhere" / "copy"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    folder = tmp_path_factory.mktemp("other") / "federation"
    provisioning.new(folder, host="localhost", port=8999, platforms=["a"])
    return folder


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


# ----------------------------------------------------------------------------------------- who has which secret


def test_a_kit_for_every_party(made):
    assert {path.name for path in made.iterdir()} == {"ca", "coordinator", "admin", *PLATFORMS}
    assert open_kit(made / "a") == Kit(made / "a", "a", "platform", "localhost", 8999)
    assert open_kit(made / "coordinator").role == "coordinator"
    assert open_kit(made / "coordinator").keeper().user == "keeper@fedrel.local"
    assert open_kit(made / "admin").user == "admin@fedrel.local"


def test_platforms_share_a_key_that_nobody_else_has(made, other):
    (key,) = {open_kit(made / name).blinding_key() for name in PLATFORMS}
    assert len(key) == 32 and key != open_kit(other / "a").blinding_key()
    for party in ("coordinator", "admin", "ca"):
        assert not [path for path, content in files(made / party).items() if key in content]
    for party in ("coordinator", "admin", "coordinator/keeper"):
        with pytest.raises(UserError, match="has no blinding key; only platforms share it"):
            open_kit(made / party).blinding_key()


def test_every_private_key_lies_in_one_place(made):
    keys = {path: content for path, content in files(made).items() if b"PRIVATE KEY" in content}
    assert {str(path) for path in keys} == {
        *(f"{name}/startup/client.key" for name in (*PLATFORMS, "admin", "coordinator/keeper")),
        *("coordinator/startup/server.key", "ca/rootCA.key"),
    }
    assert len(set(keys.values())) == len(keys)


def test_kits_are_private_and_name_no_place(made):
    for path in made.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert not [path for path, content in files(made).items() if str(made).encode() in content]


def test_a_kit_holds_nothing_that_starts_a_node_past_our_checks(made):
    assert {path.suffix for path in files(made)} <= {".json", ".default", ".crt", ".key", ".pem", ".txt", ".toml"}


def test_a_platform_finds_a_policy_to_fill_in(made):
    assert Policy.read(made / "a/local/policy.toml") == Policy.read(made / "b/local/policy.toml")
    assert not list((made / "coordinator").rglob("policy.toml"))


def test_two_federations_have_nothing_in_common(made, other):
    assert provisioning.read(made).id != provisioning.read(other).id
    assert (made / "ca/rootCA.pem").read_bytes() != (other / "ca/rootCA.pem").read_bytes()


# ------------------------------------------------------------------------------------------- what a kit allows


def may(kit: Path, role: str, right: str) -> bool:
    policy = json.loads((kit / "local" / "authorization.json").read_text())
    person = Person("x@fedrel.local", "fedrel", role)
    allowed, _ = FLAuthorizer("fedrel", policy).authorize(AuthzContext(right, person, person))
    return bool(allowed)


@pytest.mark.parametrize("role", ["lead", "member", "project_admin", "org_admin", "", "anything"])
@pytest.mark.parametrize("kit", ["coordinator", "a"])
def test_nobody_brings_code_or_looks_into_files(made, kit, role):
    for right in ("byoc", "server-predeployed-flwr", "cat", "ls", "grep", "clone_job"):
        assert not may(made / kit, role, right)
    for right in ("configure_job_log", "configure_site_log"):  # a logging configuration can call any function
        assert not may(made / kit, role, right)


def test_a_lead_starts_and_stops_runs_a_member_looks_and_others_do_nothing(made):
    start = ("submit_job", "abort_job", "app_command", "download_job", "disable_client", "shutdown")
    look = ("list_jobs", "get_job_meta", "check_status")
    for right in (*start, *look):
        assert may(made / "coordinator", "lead", right)
        assert may(made / "coordinator", "member", right) == (right in look)
        assert not may(made / "coordinator", "", right)


def test_a_platform_can_be_asked_to_train_but_not_be_shut_down_or_made_to_show_errors(made):
    for right in ("submit_job", "abort_job", "check_status"):
        assert may(made / "a", "lead", right)
    for right in ("shutdown", "restart", "report_env", "sys_info", "show_errors", "call", "download_job"):
        assert not may(made / "a", "lead", right)


@pytest.mark.parametrize(
    ("kit", "own"), [("coordinator", "coordinator.Coordinator"), ("a", "platform.Platform"), ("b", "platform.Platform")]
)
def test_a_job_names_our_class_and_no_other(made, kit, own):
    workspace = Workspace(str(made / kit))

    def ask(path: str) -> None:
        ComponentPathAuthorizer().authorize_component_config({"path": path}, workspace=workspace)

    ours = "fedrel.federation.engines.nvflare."
    ask(ours + own)
    ask("nvflare.app_common.logging.job_log_streamer.JobLogStreamer")  # NVFlare puts it into every job
    strangers = ["nvflare.app_common.workflows.fedavg.FedAvg", "subprocess.Popen", ours + "kits.Kit", ours + own + "2"]
    for path in strangers:
        with pytest.raises(UnsafeComponentError, match="not in allow_list"):
            ask(path)


def test_logs_stay_at_home_and_jobs_in_the_kit(made, tmp_path, monkeypatch):
    site = json.loads((made / "a/local/resources.json").read_text())
    assert site["allow_log_streaming"] is False
    server = json.loads((made / "coordinator/local/resources.json").read_text())
    assert server["servers"][0]["heart_beat_timeout"] == 30
    assert "/tmp" not in json.dumps([site, server])
    monkeypatch.chdir(tmp_path)
    (store,) = (part["args"] for part in server["components"] if part["id"] == "job_store")
    (manager,) = (part["args"] for part in server["components"] if part["id"] == "job_manager")
    KitStorage(**store).create_object(manager["uri_root"] + "/job", b"content", {"name": "job"})
    assert (tmp_path / "store/jobs/job/data").read_bytes() == b"content"


def test_a_job_cannot_bring_settings_of_its_own(federation):
    kit = open_kit(federation / "a")
    names = ("comm_config.json", "resources.json", "fed_client.json")
    for folder in ("0-job/app/config", "z-job/app/config"):
        (kit.folder / folder).mkdir(parents=True)
        for name in names:
            (kit.folder / folder / name).write_text('{"comm_driver_path": "0-job/app/config"}')
    environment = kit.environment()
    for name in names:
        _, found = ConfigFactory.search_config_format(name, [str(kit.folder)])
        assert "comm_driver_path" not in Path(found).read_text()
    assert Path(environment["TMPDIR"]).is_relative_to(kit.folder)
    assert kit.environment() == environment  # again, at the next start


# ------------------------------------------------------------------------------------------------ opening kits


def test_a_folder_that_is_no_kit(tmp_path):
    with pytest.raises(UserError, match=r"no kit of a federation \(no kit.json in it\)"):
        open_kit(tmp_path)


@pytest.mark.parametrize("entry", ["{}", '{"format": 2}', "[]", '{"format": 1, "name": "a", "role": "queen"}', "{"])
def test_a_kit_of_another_version_or_broken(federation, entry):
    (federation / "a/kit.json").write_text(entry)
    with pytest.raises(UserError, match=r"kit\.json: not "):
        open_kit(federation / "a")


def test_the_clock_and_the_certificate(federation):
    certify(federation, federation / "a", since=timedelta(days=-9), until=timedelta(days=-2))
    day = datetime.now(UTC) - timedelta(days=2)
    with pytest.raises(UserError, match=f"client.crt: expired on {day:%Y-%m-%d} .*federation renew"):
        open_kit(federation / "a")
    assert open_kit(federation / "a", dates=False).name == "a"
    certify(federation, federation / "a", since=timedelta(days=2), until=timedelta(days=9))
    with pytest.raises(UserError, match=r"client.crt: valid from .* UTC on, and the clock says"):
        open_kit(federation / "a")


def test_a_clock_that_is_a_little_slow_is_no_reason_to_refuse(made):
    since = open_kit(made / "a").certificate.not_valid_before_utc
    assert timedelta(minutes=59) < datetime.now(UTC) - since


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["client.crt", "client.key"], "client.crt: the certificate of b, and this is the kit of a"),
        (["client.key"], "client.key: not the key of client.crt"),
    ],
)
def test_a_kit_put_together_from_two(federation, names, sentence):
    for name in names:
        shutil.copy(federation / "b/startup" / name, federation / "a/startup" / name)
    with pytest.raises(UserError, match=sentence):
        open_kit(federation / "a")


def test_a_certificate_of_another_federation(federation, other):
    for name in ("client.crt", "client.key"):
        shutil.copy(other / "a/startup" / name, federation / "a/startup" / name)
    with pytest.raises(UserError, match="a certificate of another federation"):
        open_kit(federation / "a")


@pytest.mark.parametrize("name", ["startup/client.crt", "startup/client.key", "startup/rootCA.pem"])
def test_a_kit_with_a_hole(federation, name):
    (federation / "a" / name).write_text("torn")
    with pytest.raises(UserError, match=r": not a (certificate|private key); copy the kit again"):
        open_kit(federation / "a")
    (federation / "a" / name).unlink()
    with pytest.raises(UserError, match=f"{name}: No such file or directory; the kit is not complete"):
        open_kit(federation / "a")


def test_a_blinding_key_that_is_gone_or_cut(federation):
    (federation / "a/local/blinding.key").write_bytes(b"short")
    with pytest.raises(UserError, match="5 bytes where 32 were expected"):
        open_kit(federation / "a").blinding_key()
    (federation / "a/local/blinding.key").unlink()
    with pytest.raises(UserError, match="copy the key from another platform's kit, not by way of the coordinator"):
        open_kit(federation / "a").blinding_key()


# ------------------------------------------------------------------------------------------ TLS as NVFlare does it


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


@pytest.mark.parametrize("name", [*PLATFORMS, "admin", "coordinator/keeper"])
def test_the_coordinator_and_its_parties_know_each_other(made, name):
    handshake(context(made / "coordinator", server=True), context(made / name, server=False))


def test_a_certificate_of_another_authority_is_refused(made, other):
    stranger = context(made / "a", server=False, identity=other / "a")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed"):
        handshake(context(made / "coordinator", server=True), stranger)


def test_a_coordinator_of_another_federation_is_refused(made, other):
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context(other / "coordinator", server=True), context(made / "a", server=False))


def test_no_certificate_is_refused(made):
    nobody = ssl.create_default_context(cafile=made / "ca/rootCA.pem")
    nobody.check_hostname = False
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        handshake(context(made / "coordinator", server=True), nobody)


def test_an_expired_certificate_is_refused(federation):
    certify(federation, federation / "a", since=timedelta(days=-9), until=timedelta(days=-2))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake(context(federation / "coordinator", server=True), context(federation / "a", server=False))


def test_a_platform_cannot_pose_as_the_coordinator(made):
    impostor = context(made / "b", server=True)
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        handshake(impostor, context(made / "a", server=False))


def test_openssl_trusts_this_federation_alone(made, monkeypatch):
    for name, value in hardening.trusted(made / "a").items():
        monkeypatch.setenv(name, value)
    assert ssl.create_default_context().cert_store_stats()["x509_ca"] == 1


# ---------------------------------------------------------------------------------------- add, renew, revoke


def test_a_new_platform_gets_the_key_that_the_others_share(federation):
    kit = open_kit(provisioning.add(federation, "late", "platform"))
    assert kit == Kit(federation / "late", "late", "platform", "localhost", 8999)
    assert kit.blinding_key() == open_kit(federation / "a").blinding_key()
    handshake(context(federation / "coordinator", server=True), context(kit.folder, server=False))
    assert "late" in [party.name for party in open_kit(federation / "coordinator").members()]
    assert not list(federation.glob(".*"))


def test_the_shared_key_comes_from_a_platform_or_not_at_all(federation, tmp_path):
    for name in PLATFORMS:
        (federation / name).rename(tmp_path / name)
    before = files(federation)
    with pytest.raises(UserError, match=r"only platforms have the blinding key; .* --key-from KIT"):
        provisioning.add(federation, "late", "platform")
    with pytest.raises(UserError, match="has no blinding key; only platforms share it"):
        provisioning.add(federation, "late", "platform", federation / "admin")
    assert files(federation) == before
    provisioning.add(federation, "late", "platform", tmp_path / "b")
    assert open_kit(federation / "late").blinding_key() == open_kit(tmp_path / "b").blinding_key()


def test_a_viewer_may_only_look_and_has_no_blinding_key(federation):
    kit = open_kit(provisioning.add(federation, "eve", "viewer"))
    assert "member" in str(kit.certificate.subject) and kit.role == "admin"
    assert not (kit.folder / "local/blinding.key").exists()


def test_names_are_given_once(federation):
    for name in ("a", "A", "admin", "ADMIN"):
        with pytest.raises(UserError, match=r"somebody has this name already|a meaning of its own"):
            provisioning.add(federation, name, "admin")
    (federation / "b2").mkdir()
    with pytest.raises(UserError, match="b2: already there"):
        provisioning.add(federation, "b2", "platform")


def test_a_renewed_certificate_is_for_the_same_key_and_nothing_else_changes(federation):
    (federation / "a/local/policy.toml").write_text('[methods]\nallow = ["feded"]\n')
    certify(federation, federation / "a", since=timedelta(days=-9), until=timedelta(days=-2))
    shutil.copy(federation / "a/startup/client.crt", federation / "ca/issued/a.crt")
    before, key = files(federation / "a"), open_kit(federation / "a", dates=False).certificate.public_key()
    assert provisioning.renew(federation, ["a"]) == {"a": federation / "a/startup/client.crt"}
    after = files(federation / "a")
    assert {path for path in after if after[path] != before.get(path)} == {Path("startup/client.crt")}
    certificate = open_kit(federation / "a").certificate
    assert certificate.public_key() == key
    assert certificate.not_valid_after_utc - datetime.now(UTC) > timedelta(days=364)
    handshake(context(federation / "coordinator", server=True), context(federation / "a", server=False))


def test_a_certificate_is_renewed_without_its_kit(federation, tmp_path):
    shutil.move(federation / "b", tmp_path / "b")
    (path,) = provisioning.renew(federation, ["b"]).values()
    assert files(federation / "b").keys() == {Path("startup/client.crt")}
    shutil.copy(path, tmp_path / "b/startup/client.crt")
    assert open_kit(tmp_path / "b").name == "b"


def test_everybody_is_renewed_but_who_was_shut_out(federation):
    provisioning.revoke(federation, "b")
    assert list(provisioning.renew(federation)) == ["coordinator", "keeper", "a", "st-Mary_2", "admin"]
    assert list(provisioning.renew(federation, ["coordinator"])) == ["coordinator", "keeper"]
    with pytest.raises(UserError, match="b was shut out; add it again under another name"):
        provisioning.renew(federation, ["b"])
    with pytest.raises(UserError, match="nobody is called z; there is coordinator, keeper, a, b"):
        provisioning.renew(federation, ["z"])


def test_no_certificate_outlives_the_authority(federation):
    about = json.loads((federation / "ca/federation.json").read_text())
    (federation / "ca/federation.json").write_text(json.dumps({**about, "days": 99_999}))
    provisioning.renew(federation, ["a"])
    root = x509.load_pem_x509_certificate((federation / "ca/rootCA.pem").read_bytes())
    assert open_kit(federation / "a").certificate.not_valid_after_utc == root.not_valid_after_utc


def test_who_is_shut_out_is_refused_by_the_server_by_name(federation):
    provisioning.revoke(federation, "b")
    provisioning.revoke(federation, "admin")
    server = ClientManager()
    server.set_disabled_clients_file(str(federation / "coordinator/disabled_clients.json"))
    assert server.is_client_disabled("b") and server.is_client_disabled("admin@fedrel.local")
    assert not server.is_client_disabled("a") and not server.is_client_disabled("keeper@fedrel.local")
    gone = [party for party in open_kit(federation / "coordinator").members() if party.revoked]
    assert [(party.name, party.role) for party in gone] == [("b", "platform"), ("admin", "admin")]
    with pytest.raises(UserError, match="b was shut out on 20"):
        provisioning.revoke(federation, "b")
    with pytest.raises(UserError, match="coordinator cannot be shut out of its own federation"):
        provisioning.revoke(federation, "coordinator")
    with pytest.raises(UserError, match="somebody has this name already"):
        provisioning.add(federation, "b", "admin")


def test_without_the_authority_s_key_nobody_is_let_in(federation):
    (federation / "ca/rootCA.key").unlink()
    before = files(federation)
    with pytest.raises(UserError, match="only who has this key can give out certificates"):
        provisioning.add(federation, "late", "platform")
    assert files(federation) == before


# ----------------------------------------------------------------------------------------------------- names


@given(st.text(max_size=60) | st.from_regex(r"[A-Za-z0-9_.-]{1,50}", fullmatch=True))
def test_a_name_that_we_accept_nvflare_accepts(name):
    try:
        provisioning.check_name(name, "platform", {})
    except UserError:
        return
    invalid, why = name_check(name, "client")
    assert not invalid, why
    assert Path(name).name == name and name.casefold() not in ("ca", "server", "coordinator", "admin", "keeper")


@given(st.sampled_from(["coordinator", "platform", "admin", "viewer"]), st.datetimes(), st.none() | st.datetimes())
def test_a_party_survives_its_file(role, until, revoked):
    party = Party("x", role, until.replace(tzinfo=UTC), revoked.replace(tzinfo=UTC) if revoked else None)
    assert Party.from_json(json.loads(json.dumps(party.as_json()))) == party


# ------------------------------------------------------------------------------------------------ real processes

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


def ask(kit: Path, *what: object, user: str | None = None):
    arguments = [user or open_kit(kit).user, kit.absolute(), *what]
    command = [sys.executable, "-c", ASK, *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.5)
    return found


@contextmanager
def running(kit: Kit):
    """A party's process, and all that it starts; what it says lies in said.txt."""
    with (kit.folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            kit.command(), env=kit.environment(), stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def said(kit: Path) -> str:
    return (kit / "said.txt").read_text()


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


def ended(federation: Path, job: Path):
    number = ask(federation / "admin", "submit", job)
    found = wait_for(lambda: [meta for meta in [ask(federation / "admin", "meta", number)] if "FINISHED" in str(meta)])
    return found[0]


@pytest.mark.slow
def test_real_processes_let_their_own_in_and_nobody_else(tmp_path, other):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    federation, marker, driver = tmp_path / "federation", tmp_path / "code-ran", tmp_path / "driver"
    provisioning.new(federation, host="localhost", port=port, platforms=["a", "b"])
    provisioning.add(federation, "eve", "viewer")
    posing, outside, late, guest = (tmp_path / name for name in ("posing", "outside", "late", "guest"))
    for kit in (posing, outside, late):
        shutil.copytree(federation / "a", kit)
    shutil.copytree(federation / "admin", guest)
    for name in ("client.crt", "client.key"):
        shutil.copy(federation / "b/startup" / name, posing / "startup")
        shutil.copy(other / "a/startup" / name, outside / "startup")
        shutil.copy(federation / "a/startup" / name, guest / "startup")
    certify(federation, late, since=timedelta(days=-9), until=timedelta(days=-2))
    driver.mkdir()
    (driver / "code_driver.py").write_text(f"open({str(marker)!r}, 'w')")
    a, b = open_kit(federation / "a"), open_kit(federation / "b")
    with running(open_kit(federation / "coordinator")), running(a), running(b) as second:
        wait_for(lambda: ask(federation / "admin", "clients") == ["a", "b"])
        assert ask(federation / "coordinator/keeper", "clients") == ["a", "b"]
        assert a.greet() == "TLSv1.3"

        with pytest.raises(UserError, match=r"refuses the certificate of a: .*EXPIRED"):
            Kit(late, "a", "platform", "localhost", port).greet()
        with pytest.raises(UserError, match=r"refuses the certificate of a: .*UNKNOWN_CA"):
            Kit(outside, "a", "platform", "localhost", port).greet()
        with socket.create_connection(("localhost", port), timeout=10) as plain, suppress(ConnectionResetError):
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert plain.recv(100) == b""

        with running(Kit(posing, "a", "platform", "localhost", port)):
            wait_for(lambda: "authenticated as 'b' but claimed endpoint 'a'" in said(federation / "coordinator"))

        job = a_job(tmp_path / "theirs", comm_config=json.dumps({"comm_driver_path": str(driver)}))
        assert ask(federation / "eve", "submit", job) == {"refused": "AuthorizationError"}
        assert ask(guest, "submit", job, user="a") == {"refused": "AuthorizationError"}
        assert ended(federation, job)["status"] == "FINISHED:ABNORMAL"
        assert "is not in allow_list" in said(federation / "a") + said(federation / "b")
        (a_job(tmp_path / "code") / "app/custom").mkdir()
        (tmp_path / "code/app/custom/code.py").write_text("")
        assert "BYOC not permitted" in str(ended(federation, tmp_path / "code")["job_deploy_detail"])
        assert not marker.exists()
        assert second.poll() is None

    provisioning.revoke(federation, "b")
    with running(open_kit(federation / "coordinator")), running(a), running(b) as shut_out:
        wait_for(lambda: ask(federation / "admin", "clients") == ["a"])
        assert shut_out.wait(60) == 101
        assert "registration rejected: Client 'b' is disabled" in said(federation / "b")
        assert ask(federation / "admin", "clients") == ["a"]
