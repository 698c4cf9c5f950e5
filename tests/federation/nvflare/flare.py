"""A FLARE federation as an organisation may already run it: created and started with NVFlare's own tools."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from nvflare.lighter.constants import PropKey, ProvisionMode
from nvflare.lighter.ctx import ProvisionContext
from nvflare.lighter.entity import Participant, Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder

from fedrel.federation.nvflare import job, site
from tests.deployment import free_port
from tests.processes import descendants

ADMIN = "lead@fedrel.org"
CLIENT = "nvflare.private.fed.app.client.client_train"
SERVER = "nvflare.private.fed.app.server.server_train"
GUARD = "fedrel.federation.nvflare.guard"
_COMMAND = """
import json, sys
from nvflare.fuel.flare_api.flare_api import new_secure_session
user, kit, what, *more = sys.argv[1:]
session = new_secure_session(user, kit)
answers = {
    "clients": lambda: sorted(client.name for client in session.get_system_info().client_info),
    "submit": lambda: session.submit_job(*more),
    "abort": lambda: session.abort_job(*more),
    "status": lambda: session.get_job_meta(*more)["status"],
}
try:
    print(json.dumps(answers[what]()))
finally:
    session.close()
"""


class Flare:
    """A server and clients. `user`: the ID of the user they run as; None: ours."""

    def __init__(self, folder: Path, clients: tuple[str, ...], *, user: int | None = None, guarded: bool = False):
        self.folder, self.clients, self.user, self.guarded = folder, clients, user, guarded
        self.only: set[str] | None = None  # which of them are guarded; None: all
        self.port = free_port()
        self.sockets: dict[str, Path] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {key: value for key, value in os.environ.items() if key != "FEDREL_RELAY"}
        self.python = sys.executable
        folder.mkdir(parents=True)
        if user is not None and not _open_to_others(Path(sys.executable).resolve()):
            self._copy_python()
        self.kits = self._provision()

    def _provision(self) -> Path:
        ports = {PropKey.FED_LEARN_PORT: self.port, PropKey.ADMIN_PORT: self.port}
        server = {**ports, PropKey.DEFAULT_HOST: "localhost", PropKey.HOST_NAMES: ["127.0.0.1"]}
        participants = [
            Participant("server", "server", "org", server),
            *(Participant("client", name, "org", {}) for name in self.clients),
            Participant("admin", ADMIN, "org", {PropKey.ROLE: "project_admin"}),
        ]
        project = Project("flare", "", participants)
        context = ProvisionContext(str(self.folder), project)
        context.set_provision_mode(ProvisionMode.NORMAL)
        context.set_logger(logging.getLogger(__name__))
        builders = [WorkspaceBuilder(), StaticFileBuilder(config_folder="config", scheme="tcp"), CertBuilder()]
        for builder in builders:
            builder.initialize(project, context)
        for builder in builders:
            builder.build(project, context)
        for builder in reversed(builders):
            builder.finalize(project, context)
        made = Path(context.get_result_location())
        # FLARE keeps jobs in a folder that all federations of a machine share, unless told otherwise.
        settings = made / "server" / "local" / "resources.json.default"
        settings.write_text(settings.read_text().replace("/tmp/nvflare", str(made / "server" / "store")))
        return made

    def _copy_python(self) -> None:
        """Copies the interpreter: another user cannot start one in a private home directory."""
        base, there = Path(sys.base_prefix), self.folder.parent / "python"
        unwanted = shutil.ignore_patterns("site-packages", "test", "__pycache__", "config-*", "idlelib", "*.a")
        shutil.copytree(base / "lib", there / "lib", ignore=unwanted, symlinks=True)
        (there / "bin").mkdir()
        shutil.copy(Path(sys.executable).resolve(), there / "bin" / "python3")
        self.python = str(there / "bin" / "python3")
        paths = [path for path in sys.path if path and not path.startswith(str(base))]
        self.environment |= {"PYTHONHOME": str(there), "PYTHONPATH": os.pathsep.join(paths)}
        self.environment |= {"LD_LIBRARY_PATH": str(there / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}

    def relay(self, name: str, path: Path) -> None:
        """Tells a site where its node listens."""
        site.furnish(self.kits / name, path)

    def __enter__(self) -> Flare:
        if self.user is not None:
            for path in [self.folder, *self.folder.rglob("*")]:
                os.chown(path, self.user, self.user)
        for name in ("server", *self.clients):
            self.start(name)
        return self

    def start(self, name: str) -> None:
        kind = "server" if name == "server" else "client"
        guarded = self.guarded and (self.only is None or name in self.only)
        module = [GUARD, kind] if guarded else [SERVER if name == "server" else CLIENT]
        kit = self.kits / name
        command = [self.python, "-u", "-m", *module, *self.arguments(name)]
        temporary = kit / "tmp"
        temporary.mkdir(exist_ok=True)
        if self.user is not None:
            os.chown(temporary, self.user, self.user)
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=kit,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
                env={**self.environment, "TMPDIR": str(temporary), "HOME": str(kit)},
            )

    def arguments(self, name: str) -> list[str]:
        """The command-line arguments of FLARE's programs."""
        kind = "server" if name == "server" else "client"
        settings = ["secure_train=true", *([f"uid={name}"] if kind == "client" else [])]
        where = ["-m", str(self.kits / name), "-s", f"fed_{kind}.json"]
        return [*where, "--set", *settings, "org=org", "config_folder=config"]

    def attack(self, name: str, tries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers when this client, which must not be running, sends all these messages."""
        command = [self.python, "-m", "tests.federation.nvflare.rogue", *self.arguments(name)]
        done = subprocess.run(
            command, input=json.dumps(tries), capture_output=True, text=True, timeout=300, env=self.environment
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{self.story()}"
        found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        return found

    def refusals(self) -> list[dict[str, Any]]:
        """The refusals that the guards recorded."""
        return [json.loads(line) for log in self.kits.glob("*/guard.jsonl") for line in log.read_text().splitlines()]

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            children = list(descendants(process.pid))
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)
            for pid in [process.pid, *children]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait(10)

    def ask(self, *what: str) -> Any:
        """Sends a command as an admin of the FLARE federation."""
        command = [self.python, "-c", _COMMAND, ADMIN, str(self.kits / ADMIN), *what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=self.environment)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.story()}"
        return json.loads(done.stdout.splitlines()[-1])

    def wait_for_clients(self, seconds: float = 60.0) -> None:
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(AssertionError):
                if self.ask("clients") == sorted(self.clients):
                    return
            assert time.monotonic() < until, self.story()
            time.sleep(1.0)

    def submit(self) -> str:
        folder = self.folder / f"job-{time.monotonic_ns()}"
        job.write(folder)
        return str(self.ask("submit", str(folder)))

    def story(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {log.name}\n" + "\n".join(log.read_text().splitlines()[-40:]) for log in logs)


def _open_to_others(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)
