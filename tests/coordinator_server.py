"""The coordinator's network process on its own: the test plays its node, and receives all its messages."""

from __future__ import annotations

import json
import socket
import ssl
import time
from pathlib import Path
from typing import Any

from fedrel.federation.channel import Blob, Message
from fedrel.federation.https import messages
from fedrel.federation.https.client import Answer, Fetched, Link
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.coordinator import SERVER
from fedrel.federation.nodes.processes import Child, Log
from fedrel.util.files import private_folder

SESSION = "0123456789abcdef" * 2


class CoordinatorServer:
    def __init__(self, kits: Path, folder: Path) -> None:
        self.kits, self.folder = kits, folder
        self.kit = open_kit(kits / "coordinator")
        self.past: list[Message] = []
        self.links: list[Link] = []

    def __enter__(self) -> CoordinatorServer:
        told = {
            "port": self.kit.port,
            "tls": str(self.kit.folder / "tls"),
            "spool": str(private_folder(self.folder / "spool")),
            "federation": self.kit.federation,
        }
        self.log = Log(private_folder(self.folder / "log"))
        self.child = Child.start("server", SERVER, told, self.log)
        self.hear("listening")
        self.tell_members()
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self.child.end()
        self.log._handler.close()

    def tell_members(self) -> None:
        members = self.kit.members()
        known = {party.name: party.role for party in members if not party.revoked}
        revoked = [party.name for party in members if party.revoked]
        self.child.channel.send({"do": "members"}, Blob.of(json.dumps({"members": known, "revoked": revoked}).encode()))
        time.sleep(0.1)

    def hear(self, do: str, seconds: float = 10.0, **about: Any) -> Message:
        """The next message of this kind; others are kept for later calls."""
        until = time.monotonic() + seconds
        while True:
            for number, message in enumerate(self.past):
                if message.header["do"] == do and about.items() <= message.header.items():
                    return self.past.pop(number)
            found = self.child.channel.receive(until - time.monotonic())
            assert found is not None, f"no {do}; {[it.header for it in self.past]}"
            self.past.append(found)

    def link(self, kit: Path | str) -> Link:
        folder = self.kits / kit if isinstance(kit, str) else kit
        self.links.append(Link("localhost", self.kit.port, folder / "tls"))
        return self.links[-1]

    def hang_up(self) -> None:
        while self.links:
            self.links.pop().close()

    def ask(self, name: str, number: int, payload: bytes = b"question", most: int = 100) -> None:
        header = {"do": "ask", "id": number, "to": name, "head": {"n": number}, "most": most}
        self.child.channel.send(header, Blob.of(payload))

    def poll(self, link: Link, have: int = 0, session: str = SESSION) -> Fetched | Answer:
        return link.poll(session, have, "1.0", private_folder(self.folder / "fetched"))

    def serial(self) -> int:
        """The serial number of the certificate that the server presents."""
        context = ssl.create_default_context(cafile=self.kit.folder / "tls/ca.pem")
        context.load_cert_chain(self.kits / "admin/tls/node.crt", self.kits / "admin/tls/node.key")
        return serial_shown(self.kit.port, context)


def serial_shown(port: int, context: ssl.SSLContext) -> int:
    with (
        socket.create_connection(("localhost", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        return int(str(secure.getpeercert()["serialNumber"]), 16)  # type: ignore[index]


def why(answer: object) -> str:
    assert isinstance(answer, Answer)
    return f"{answer.status} {json.loads(answer.content)['why']}"


__all__ = ["SESSION", "CoordinatorServer", "messages", "serial_shown", "why"]
