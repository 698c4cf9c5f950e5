"""A node's bridge to FLARE: the process that talks to the relay, a FLARE job on the same machine, over a Unix socket.

Towards the node it behaves like the network process. It has no network: it opens the socket first, and then gives up
the right to create others. The kernel names the user of each connection, and payloads are copied before they are passed
on, because any member of the FLARE federation may have compromised the relay.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import stat
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrel.federation.channel import Blob, Channel, ClosedError, Message, started
from fedrel.federation.https.messages import REVOKED
from fedrel.sandbox import Limits, confine, python_paths
from fedrel.version import installed_version

SOCKET = "relay.sock"
MOST_REQUEST = 16 * 2**30  # bytes of a request's payload
_MOST_MEMBERS = 64 * 2**20  # bytes of the list of members
_STUCK = 10.0  # seconds within which the relay must accept a message
_OFTEN = 10.0  # seconds in which the same unknown user is reported once
_TICK = 0.5
_NAME = 100  # characters


class InvalidError(Exception):
    """The relay sent something that is not a message of a relay."""


@dataclass
class Bridge:
    """What both sides share. There is one relay at a time; a new one replaces the old."""

    node: Channel
    listener: socket.socket
    told: dict[str, Any]
    relay: Channel | None = None
    ended: bool = False
    strangers: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.users, self.spool = set(self.told["users"]), Path(self.told["spool"])

    def run(self) -> None:
        """Passes messages between node and relay until the node ends."""
        with contextlib.suppress(ClosedError):
            self.lost("no FLARE job is connected")
            while not self.ended:
                self._turn()
        if self.relay is not None:
            self.relay.close()

    def _turn(self) -> None:
        ends: dict[int, Callable[[], None]] = {self.listener.fileno(): self._accept, self.node.fileno(): self._node}
        if self.relay is not None:
            ends[self.relay.fileno()] = self._relay
        for descriptor in select.select(list(ends), [], [], _TICK)[0]:
            if descriptor == -1 or (ends[descriptor] == self._relay and self.relay is None):
                continue
            ends[descriptor]()

    # -- the relay ----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user not in self.users:
            connection.close()
            if time.monotonic() - self.strangers.get(user, -_OFTEN) >= _OFTEN:
                self.strangers[user] = time.monotonic()
                self.stranger(f"a process of user {user} connected to the relay's socket; see --relay-user")
            return
        if self.relay is not None:
            self._hang_up("another FLARE job has connected")
        connection.settimeout(_STUCK)
        self.relay = Channel(connection)
        self.welcome()

    def _relay(self) -> None:
        assert self.relay is not None
        try:
            message = self.relay.receive(0.0)
            if message is not None:
                self.from_relay(message)
        except ClosedError as error:
            self._hang_up(f"the FLARE job has gone ({error})")
        except (InvalidError, OSError, KeyError, TypeError, ValueError) as error:
            self._hang_up(f"the FLARE job sent an invalid message ({error})")

    def to_relay(self, header: dict[str, Any], payload: Blob | None = None) -> bool:
        """Sends a message. Returns whether the relay accepted it."""
        if self.relay is None:
            return False
        try:
            # A copy: with the open file, the relay could change a payload that others are still to receive.
            self.relay.send(header, None if payload is None else self.copy(payload, len(payload)))
        except (ClosedError, OSError) as error:
            self._hang_up(f"the FLARE job does not accept messages ({error})")
            return False
        return True

    def _hang_up(self, why: str) -> None:
        if self.relay is not None:
            self.relay.close()
            self.relay = None
            self.lost(why)

    def copy(self, payload: Blob, most: int) -> Blob:
        """A copy that the other end cannot change. Raises InvalidError if the payload is larger than `most` bytes, is
        not a regular file, or shrinks meanwhile.
        """
        if not stat.S_ISREG(os.fstat(payload.descriptor).st_mode) or len(payload) > most:
            raise InvalidError(f"{len(payload):,} bytes where at most {most:,} were expected")
        size, place = len(payload), 0
        made = Blob.make(size, self.spool)
        while place < size:
            piece = payload.piece(place)[: size - place]
            if not piece:
                raise InvalidError("the payload shrank while it was being read")
            made.write(piece)
            place += len(piece)
        return made

    # -- the node -----------------------------------------------------------------------------------------------

    def _node(self) -> None:
        message = self.node.receive(0.0)
        if message is None:
            return
        if message.header["do"] == "end":
            self.ended = True
        else:
            self.from_node(message)

    # -- what each side does ------------------------------------------------------------------------------------

    def welcome(self) -> None:
        """Called when a relay has connected."""

    def lost(self, why: str) -> None:
        """Called when there is no relay, or no longer one."""

    def stranger(self, why: str) -> None:
        """Called when a process of another user has tried to connect."""

    def from_relay(self, message: Message) -> None:
        """Handles a message from the relay. Raises InvalidError if it is not one."""
        raise NotImplementedError

    def from_node(self, message: Message) -> None:
        """Handles a message from the node."""
        raise NotImplementedError


@dataclass
class PlatformSide(Bridge):
    """The bridge on a platform: requests come from the relay, replies go to it."""

    session: str = field(default_factory=lambda: secrets.token_hex(16))
    request: int | None = None  # the request whose reply the relay awaits
    state: str = ""

    def welcome(self) -> None:
        self.to_relay(
            {"do": "hello", "name": self.told["name"], "session": self.session, "version": installed_version()}
        )

    def lost(self, why: str) -> None:
        self.request = None
        self._say(why)

    def stranger(self, why: str) -> None:
        self.node.send({"do": "refused", "why": why})

    def from_relay(self, message: Message) -> None:
        match message.header:
            case {"do": "request", "id": int(number), "head": dict(head)} if message.payload is not None:
                self.request = number
                payload = self.copy(message.payload, MOST_REQUEST)
                self.node.send({"do": "request", "id": number, "head": head}, payload)
            case {"do": "state", "state": str(state)}:
                self._say(state[:_NAME])
            case _:
                raise InvalidError("not a message of a platform's relay")

    def from_node(self, message: Message) -> None:
        header = message.header
        if header["do"] != "reply":
            return
        wanted = header["id"] == self.request
        if wanted and self.to_relay({key: header[key] for key in ("do", "id", "head")}, message.payload):
            self.request = None
        else:
            why = "a reply to a request that is no longer pending"
            self.node.send({"do": "unwanted", "id": header["id"], "why": why})

    def _say(self, state: str) -> None:
        if state != self.state:
            self.state = state
            self.node.send({"do": "state", "state": state})


@dataclass
class CoordinatorSide(Bridge):
    """The bridge at the coordinator: sends requests, and reports which platforms are connected. Names that are not
    members' are refused.
    """

    platforms: set[str] = field(default_factory=set)
    here: set[str] = field(default_factory=set)
    waiting: dict[str, tuple[int, int]] = field(default_factory=dict)  # platform: request, maximum bytes of its reply

    def lost(self, why: str) -> None:
        for name in sorted(self.here):
            self._gone(name, why)
        self.node.send({"do": "relay", "here": False, "why": why})

    def welcome(self) -> None:
        self.node.send({"do": "relay", "here": True, "why": ""})

    def stranger(self, why: str) -> None:
        self._refuse("", why)

    def _refuse(self, name: str, why: str) -> None:
        self.node.send({"do": "refused", "name": name, "address": "FLARE", "why": why})

    def _gone(self, name: str, why: str) -> None:
        self.waiting.pop(name, None)
        if name in self.here:
            self.here.remove(name)
            self.node.send({"do": "gone", "name": name, "why": why})

    def from_node(self, message: Message) -> None:
        header = message.header
        match header["do"]:
            case "members" if message.payload is not None:
                members = json.loads(message.payload.read(_MOST_MEMBERS))["members"]
                self.platforms = {name for name, role in members.items() if role == "platform"}
                for name in sorted(self.here - self.platforms):
                    self._gone(name, REVOKED)
            case "ask" if message.payload is not None:
                name = header["to"]
                self.waiting[name] = (header["id"], header["most"])
                self.to_relay({key: header[key] for key in ("do", "id", "to", "head", "most")}, message.payload)
            case "drop":
                self.waiting.pop(header["to"], None)
                self.to_relay({key: header[key] for key in ("do", "id", "to")})

    def from_relay(self, message: Message) -> None:
        match message.header:
            case {"do": "here", "name": str(name), "session": str(session), "address": str(site), "version": str(it)}:
                self._here(name[:_NAME], session[:_NAME], site[:_NAME], it[:_NAME])
            case {"do": "gone", "name": str(name), "why": str(why)}:
                self._gone(name, why[:_NAME])
            case {"do": "delivered", "name": str(name), "id": int(number)}:
                if self._waited_for(name, number):
                    self.node.send({"do": "delivered", "name": name, "id": number})
            case {"do": "reply", "name": str(name), "id": int(number), "head": dict(head)}:
                if self._waited_for(name, number):
                    self._reply(name, number, head, message.payload)
            case {"do": "refused", "name": str(name), "why": str(why)}:
                self._refuse(name[:_NAME], why[: 2 * _NAME])
            case _:
                raise InvalidError("not a message of the coordinator's relay")

    def _here(self, name: str, session: str, site: str, version: str) -> None:
        if name not in self.platforms:
            self._refuse(name, "no platform with this name is in the coordinator's list of members")
            return
        self.here.add(name)
        header = {"name": name, "session": session, "address": f"FLARE site {site}", "version": version}
        self.node.send({"do": "here", **header})

    def _waited_for(self, name: str, number: int) -> bool:
        return self.waiting.get(name, (-1, 0))[0] == number

    def _reply(self, name: str, number: int, head: dict[str, Any], payload: Blob | None) -> None:
        most = self.waiting.pop(name)[1]
        if payload is not None and len(payload) > most:
            head, payload = {"refused": f"{len(payload):,} bytes where at most {most:,} were expected"}, None
        own = None if payload is None else self.copy(payload, most)
        self.node.send({"do": "reply", "name": name, "id": number, "head": head}, own)


def listen(folder: Path, *, own: bool) -> socket.socket:
    """The listening socket. `own`: only processes of this user can reach it; otherwise all can, and `Bridge` checks
    their user.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700 if own else 0o711)
    path = folder / SOCKET
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    path.chmod(0o600 if own else 0o666)
    listener.listen(8)
    return listener


def main() -> None:
    """`python -m fedrel.federation.nvflare.bridge DESCRIPTOR`: started by a node."""
    node, told = started("`fedrel platform start --carrier nvflare`")
    try:
        listener = listen(Path(told["relay"]), own=told["own"])
    except OSError as error:
        node.send({"do": "failed", "why": f"{told['relay']}: {error.strerror or error}"})
        return
    with listener:
        spool = Path(told["spool"])
        protection = confine(Limits(read=(*python_paths(), spool), write=(spool,), network="none", programs=False))
        node.send({"do": "confined", "problems": list(protection.problems)})
        side = PlatformSide if told["side"] == "platform" else CoordinatorSide
        side(node, listener, told).run()


if __name__ == "__main__":
    main()
