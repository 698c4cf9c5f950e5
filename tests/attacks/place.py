"""The federation that is attacked: real nodes on loopback, and their audit trails."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

from fedrel.federation.https.session import connect
from fedrel.federation.kits import provisioning
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes import audit
from tests.attacks.wire import Answer, Wire, context, until
from tests.deployment import FEDREL, Deployment

TINY = ("method.name=fedavg", "training.rounds=1", "extractor.filters=8", "engine.min_platforms=1")


class Place(Deployment):
    """Kits: coordinator, p0, p1, p2, admin, second (another admin), viewer."""

    def __init__(self, folder: Path, world: Path, platforms: tuple[str, ...] = ("p0", "p1", "p2")) -> None:
        super().__init__(folder, world, platforms)
        provisioning.add(self.kits, "viewer", "viewer")
        provisioning.add(self.kits, "second", "admin")
        self.port = open_kit(self.kits / "admin").port

    def listen(self) -> Place:
        """Starts the coordinator's node and waits until it answers."""
        self.start("coordinator")
        assert until(self.answers, 60.0), self.story()
        return self

    def tls(self, name: str) -> Path:
        return self.kits / name / "tls"

    def wire(self, name: str, source: str = "", timeout: float = 10.0) -> Wire:
        return Wire(self.port, context(self.tls(name)), source, timeout)

    def ask(self, name: str, method: str, path: str, body: bytes = b"", *headers: str, **more: Any) -> Answer:
        with self.wire(name) as wire:
            self.last_source = wire.source
            return wire.ask(method, path, body, *headers, **more)

    def look(self) -> dict[str, Any]:
        with connect(open_kit(self.kits / "admin")) as session:
            return session.look()

    def answers(self) -> bool:
        try:
            self.look()
            return True
        except Exception:
            return False

    def still_works(self, seconds: float = 2.0) -> None:
        """An honest client gets an answer soon, from the same processes as before."""
        begun = time.monotonic()
        self.look()
        took = time.monotonic() - begun
        assert took < seconds, f"{took:.1f} s for a status"
        assert self.nodes["coordinator"].poll() is None, self.story()

    def trail(self, name: str = "coordinator") -> list[dict[str, Any]]:
        return list(audit.read(self.kits / name))

    def named(self, source: str, *words: str, seconds: float = 15.0) -> dict[str, Any]:
        """The line of the coordinator's audit trail about a connection from this address."""

        def found() -> dict[str, Any] | None:
            mine = (it for it in self.trail() if it.get("address") == source)
            return next((it for it in mine if all(word in json.dumps(it) for word in words)), None)

        line = until(found, seconds)
        assert line, f"nothing about {source} {words} in the audit trail: {self.trail()[-5:]}"
        return line

    def failure(self, run: str, *words: str, seconds: float = 60.0) -> dict[str, Any]:
        """The line of the audit trail about a platform's refused reply."""

        def found() -> dict[str, Any] | None:
            mine = (it for it in self.trail() if it["event"] == "failure" and it["run"] == run)
            return next((it for it in mine if all(word in it["why"] for word in words)), None)

        line = until(found, seconds)
        assert line, f"no failure {words} in the audit trail: {self.trail()[-9:]}\n{self.story()}"
        return line

    def cli(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [FEDREL, *(str(it) for it in arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def children(self) -> dict[str, int]:
        return self.processes("coordinator")


def refused_tls(port: int, secured: ssl.SSLContext, source: str) -> str:
    """Why a connection gets no answer; fails if it does. With TLS 1.3 the client finishes its handshake first, and
    learns of the refusal when it reads.
    """
    try:
        with Wire(port, secured, source) as wire:
            wire.socket.sendall(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
            content = wire.socket.recv(100)
    except (OSError, ssl.SSLError) as error:
        return str(error) or type(error).__name__
    assert not content, content
    return "closed"
