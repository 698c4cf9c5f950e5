"""A real federation on loopback: a coordinator and platforms as separate processes, over mutual TLS."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedrel.federation.kits import provisioning
from tests.processes import descendants

INJECTED = Path(__file__).parent / "faults" / "injected"
FEDREL = str(Path(sys.executable).with_name("fedrel"))


class Deployment:
    """Starts and stops the nodes, and finds each of their processes by its parent, so that a test can kill it."""

    def __init__(self, folder: Path, world: Path, platforms: tuple[str, ...] = ("p0", "p1", "p2")) -> None:
        self.folder, self.world, self.platforms = folder, world, platforms
        self.runs = folder / "runs"
        self.kits = folder / "kits"
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.environments: dict[str, dict[str, str]] = {}  # of a party's processes, in addition to our own
        self.prefixes: dict[str, list[str]] = {}  # of a party's command
        provisioning.new(self.kits, host="localhost", port=free_port(), platforms=list(platforms))

    def __enter__(self) -> Deployment:
        for name in ("coordinator", *self.platforms):
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.terminate()
        for node in self.nodes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.wait(40)
            for pid in [node.pid, *descendants(node.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            node.wait()

    def start(self, name: str, *more: str) -> None:
        self.start_at(name, self.kits / name, *more)

    def start_at(self, name: str, kit: Path, *more: str) -> None:
        coordinator = name == "coordinator"
        command = [*self.prefixes.get(name, []), FEDREL, name if coordinator else "platform", "start", str(kit)]
        command += ["--data", str(self.world / name), *(["--runs", str(self.runs)] if coordinator else []), *more]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.nodes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self.environments.get(name, {})},
            )

    def inject(self, name: str, **environment: str) -> None:
        """Injects the faults of tests/faults/injected into a party's processes."""
        paths = [str(INJECTED), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        self.environments[name] = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment}

    def submit(self, *arguments: str, kit: str = "admin", check: bool = True) -> subprocess.CompletedProcess[str]:
        """`fedrel submit`; the experiment is the world's own."""
        command = [FEDREL, "submit", str(self.kits / kit), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
        assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.story()}"
        return done

    def train(self, run: str, *settings: str) -> dict[str, Any]:
        """Submits a run, waits for its end and returns the result."""
        given = [part for setting in settings for part in ("--set", setting)]
        done = self.submit(str(self.world / "experiment.toml"), *given, "--name", run, "--follow", "--json")
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def wait_until_connected(self, seconds: float = 60.0) -> None:
        """Waits until all platforms are connected: a run that needs few of them would begin without the others."""
        until = time.monotonic() + seconds
        while set(self.look()["connected"]) != set(self.platforms):
            assert time.monotonic() < until, self.story()

    def submit_stop(self, run: str) -> None:
        command = [FEDREL, "stop", str(self.kits / "admin"), run]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, f"{done.stderr}\n{self.story()}"

    def look(self) -> dict[str, Any]:
        """`fedrel status`."""
        command = [FEDREL, "status", str(self.kits / "admin"), "--json"]
        found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
        return found

    def status(self, run: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.runs / f"{run}.status.json").read_text())
            return found
        except (OSError, ValueError):
            return {"state": "unknown", "round": -1, "doing": "", "platforms": {}}

    def wait(self, run: str, wanted: Callable[[dict[str, Any]], bool], seconds: float = 120.0) -> dict[str, Any]:
        """Waits until the run's status is as wanted, and returns it."""
        until = time.monotonic() + seconds
        while not wanted(status := self.status(run)):
            assert time.monotonic() < until, f"{status}\n{self.story()}"
            time.sleep(0.05)
        return status

    def processes(self, name: str) -> dict[str, int]:
        """The pids of a party's processes: `node`, `network`, `run` (at the coordinator), `worker` (on a platform)."""
        found = {"node": self.nodes[name].pid}
        for pid in descendants(self.nodes[name].pid):
            line = command_line(pid)
            for kind, mark in (
                ("worker", "nodes.confined worker"),
                ("run", "nodes.confined conductor"),
                ("network", "https.server"),
                ("network", "https.transport"),
            ):
                if mark in line:
                    found[kind] = pid
                    break
        return found

    def kill(self, name: str, kind: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.processes(name)[kind], number)

    def story(self) -> str:
        """The end of all logs, for a failed test."""
        logs = [*self.folder.glob("*.log"), *self.kits.glob("*/node.log")]
        return "\n".join(f"== {log.name} of {log.parent.name}\n{_end_of(log)}" for log in sorted(logs))


def _end_of(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-25:])


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
