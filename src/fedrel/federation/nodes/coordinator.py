"""The coordinator's node: the parent of the network process, of the bridge to FLARE, and of the run at work.

It passes signed messages between them, keeps the list of members, restarts processes that die, and writes the audit
trail. It has no network itself. After a crash it continues from the status files of the runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.federation.channel import Blob, ClosedError, Message
from fedrel.federation.https import messages
from fedrel.federation.kits.kit import MEMBERS, Kit
from fedrel.federation.nodes.admins import Admins
from fedrel.federation.nodes.audit import Audit
from fedrel.federation.nodes.processes import Child, Heard, Log, Pauses, ending_signals, hear, only_one
from fedrel.federation.nodes.relay import BRIDGE, Relay
from fedrel.federation.nodes.run_queue import RunQueue
from fedrel.federation.nodes.status import Status
from fedrel.federation.signing import ForgedError, Verifier
from fedrel.util.files import private_folder

SERVER = "fedrel.federation.https.server"
_TICK = 0.5


@dataclass
class Connected:
    """A connected platform."""

    session: str  # of its process; drawn by it
    address: str
    version: str
    since: float = field(default_factory=time.time)
    relayed: bool = False  # by another carrier than our own


@dataclass
class CoordinatorNode:
    """The coordinator's node; `run` runs it in the foreground."""

    kit: Kit
    data: Path
    runs: Path
    say: Callable[[str], None]
    each: Callable[[], None] = lambda: None  # called a few times a second
    relay: Relay | None = None  # another carrier, in addition to our own
    server: Child | None = None
    bridge: Child | None = None
    here: dict[str, Connected] = field(default_factory=dict)
    there: dict[str, Connected] = field(default_factory=dict)  # platforms that the other carrier could also reach
    not_before: dict[str, float] = field(default_factory=lambda: {"server": 0.0, "bridge": 0.0})
    bridge_pauses: Pauses = field(default_factory=Pauses)
    pauses: Pauses = field(default_factory=Pauses)
    members_stamp: object = None
    roles: Mapping[str, str] = field(default_factory=dict)  # of the members that are not revoked
    listening: bool = False

    def __post_init__(self) -> None:
        self.folder = self.kit.folder.absolute()
        self.audit = Audit(self.folder)
        self.queue = RunQueue(self.runs, self._start_run, self.say, self.audit)
        self.admins = Admins(self.queue, Verifier.of(self.kit))

    def run(self) -> None:
        """Runs the node until SIGINT or SIGTERM. Raises UserError if another node uses the kit or the runs folder, or
        the port cannot be opened.
        """
        taken = f"{self.kit.folder}: a node with this kit is already running; stop it first"
        self.runs.mkdir(parents=True, exist_ok=True)
        shared = f"{self.runs}: another coordinator uses this folder; stop it first"
        with (
            only_one(self.folder / ".node.lock", taken),
            only_one(self.runs / ".coordinator.lock", shared),
            ending_signals() as ended,
        ):
            self.log = Log(self.folder)
            self.spool = private_folder(self.folder / "spool")
            self.audit.write("node started", pid=os.getpid())
            try:
                while not ended():
                    self._keep_server()
                    self._keep_bridge()
                    self._keep_members()
                    if self.listening or self.queue.process is not None:
                        self.queue.keep()
                    self._hear()
                    self.each()
            finally:
                for child in (self.queue.process, self.bridge, self.server):
                    if child is not None:
                        child.end(gracefully=child is not self.queue.process)
                self.audit.write("node ended")

    # -- the network process ----------------------------------------------------------------------------------

    def _keep_server(self) -> None:
        if self.server is None and time.monotonic() >= self.not_before["server"]:
            told = {
                "port": self.kit.port,
                "tls": str(self.folder / "tls"),
                "spool": str(private_folder(self.spool / "server")),
                "federation": self.kit.federation,
            }
            self.server = Child.start("server", SERVER, told, self.log)
            self.members_stamp = None

    def _server_ended(self) -> None:
        assert self.server is not None
        pause = self.pauses.after(self.server)
        self.server.reap()
        self.say(f"the network process ended unexpectedly ({self.server.how}); restarting in {pause:g} s")
        self.audit.write("server ended", how=self.server.how)
        self.server, self.listening = None, False
        self.not_before["server"] = time.monotonic() + pause
        for name in [name for name, it in self.here.items() if not it.relayed]:
            self._gone(name, messages.SERVER_ENDED)

    def _keep_members(self) -> None:
        """Reads the list of members when it has changed, and passes it on at once."""
        path = self.folder / MEMBERS
        stamp = None
        with contextlib.suppress(OSError):
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self.members_stamp or self.server is None or (self.relay is not None and self.bridge is None):
            return
        try:
            members = self.kit.members()
        except UserError as error:
            self.say(str(error))  # perhaps half-written; it is read again after the next change
            self.members_stamp = stamp
            return
        first, self.members_stamp = self.members_stamp is None, stamp
        known = self.roles = {party.name: party.role for party in members if not party.revoked}
        revoked = [party.name for party in members if party.revoked]
        lists = Blob.of(json.dumps({"members": known, "revoked": revoked}).encode())  # may be long
        for send in (self._to_server, self._to_bridge):
            send({"do": "members"}, lists)
        self.audit.write("members", members=known, revoked=revoked)
        if not first:
            self.say(f"members changed: {', '.join(known)}" + (f"; revoked: {', '.join(revoked)}" if revoked else ""))

    def _to_server(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        if self.server is not None:
            try:
                self.server.channel.send(header, payload)
            except ClosedError:
                self._server_ended()

    def _from_server(self, message: Message) -> None:
        header = message.header
        name = str(header.get("name", ""))
        match header["do"]:
            case "listening":
                self.listening = True
                self._confined("the network process", header["problems"])
                self.say(f"listening on port {self.kit.port}")
            case "failed":
                raise UserError(f"{header['why']}; is a coordinator already running?")
            case "here":
                self._joined(name, Connected(header["session"], header["address"], header["version"]))
            case "gone" if name in self.here and not self.here[name].relayed:
                self._gone(name, header["why"])
            case "reply" | "delivered":
                self.queue.send(header, message.payload)
            case "refused":
                self.audit.write("refused", **{key: header[key] for key in ("name", "address", "why")})
                self.say(f"refused {name or header['address']}: {header['why']}")
            case "command" if message.payload is not None:
                self._command(header, message.payload)
            case "certificate":
                self.audit.write("certificate renewed")
                self.say("a renewed certificate is in use")
            case "full":
                self.audit.write("disk full", why=header["why"])
                self.say(f"no space to store a reply: {header['why']}")

    def _joined(self, name: str, it: Connected) -> None:
        self.here[name] = it
        self.audit.write("connected", name=name, address=it.address, version=it.version)
        self.say(f"{name} connected" + (f" via {it.address}" if it.relayed else ""))
        self.queue.send({"do": "here", "name": name, "session": it.session})

    def _gone(self, name: str, why: str) -> None:
        if (found := self.here.pop(name, None)) is not None:
            self.audit.write("disconnected", name=name, why=why)
            self.say(f"{name} disconnected: {why}")
            # Unlike our own server, another carrier keeps no request for a platform that comes back.
            lost = found.relayed and why != messages.REVOKED
            self.queue.send({"do": "gone", "name": name, "why": messages.SERVER_ENDED if lost else why})
        if name in self.there and why != messages.REVOKED:
            self._joined(name, self.there[name])

    def _confined(self, who: str, problems: list[str]) -> None:
        self.audit.write("confined", who=who, problems=problems)
        for problem in problems:
            self.say(f"{who} is not fully confined: {problem}")

    # -- another carrier --------------------------------------------------------------------------------------

    def _keep_bridge(self) -> None:
        if self.relay is not None and self.bridge is None and time.monotonic() >= self.not_before["bridge"]:
            told = self.relay.told("coordinator", self.kit.name, private_folder(self.spool / "bridge"))
            self.bridge = Child.start("bridge", BRIDGE, told, self.log)
            self.members_stamp = None

    def _bridge_ended(self) -> None:
        assert self.bridge is not None
        pause = self.bridge_pauses.after(self.bridge)
        self.bridge.reap()
        self.say(f"the bridge to FLARE ended unexpectedly ({self.bridge.how}); restarting in {pause:g} s")
        self.audit.write("bridge ended", how=self.bridge.how)
        self.bridge = None
        self.not_before["bridge"] = time.monotonic() + pause
        for name in list(self.there):
            self._not_there(name, "the coordinator's bridge to FLARE ended")

    def _to_bridge(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        if self.bridge is not None:
            try:
                self.bridge.channel.send(header, payload)
            except ClosedError:
                self._bridge_ended()

    def _from_bridge(self, message: Message) -> None:
        """Handles a message from the bridge. It does not replace a platform that is connected over HTTPS, which has
        shown a certificate of this federation.
        """
        header = message.header
        name = str(header.get("name", ""))
        match header["do"]:
            case "here":
                address, version = str(header["address"]), str(header["version"])
                it = self.there[name] = Connected(str(header["session"]), address, version, relayed=True)
                if name not in self.here or self.here[name].relayed:
                    self._joined(name, it)
            case "gone":
                self._not_there(name, str(header["why"]))
            case "reply" | "delivered" if name in self.here and self.here[name].relayed:
                self.queue.send(header, message.payload)
            case "refused":
                self._from_server(message)
            case "confined":
                self._confined("the bridge to FLARE", header["problems"])
            case "relay":
                self.audit.write("relay", here=header["here"] is True, why=str(header["why"]))
                self.say("a FLARE job is connected" if header["here"] else str(header["why"]))
            case "failed":
                raise UserError(str(header["why"]))

    def _not_there(self, name: str, why: str) -> None:
        found = self.there.pop(name, None)
        if found is not None and self.here.get(name) is found:
            self._gone(name, why)

    # -- the run at work --------------------------------------------------------------------------------------

    def _start_run(self, status: Status) -> Child:
        writable = [self.runs, private_folder(self.spool / "run")]
        told = {
            "kit": str(self.folder),
            "run": status.run,
            "data": str(self.data),
            "runs": str(self.runs),
            "spool": str(self.spool / "run"),
            "here": {name: it.session for name, it in self.here.items()},
        }
        return Child.confined("conductor", f"run {status.run}", told, writable, self.log)

    def _from_run(self, message: Message) -> None:
        self.queue.hear(message)
        header = message.header
        match header["do"]:
            case "ask" | "drop":
                if (found := self.here.get(header["to"])) is not None and found.relayed:
                    self._to_bridge(header, message.payload)
                else:
                    self._to_server(header, message.payload)  # which keeps it for a platform that is briefly away
            case "confined":
                self._confined("the run's process", header["problems"])

    # -- admins -----------------------------------------------------------------------------------------------

    def _command(self, header: dict[str, Any], payload: Blob) -> None:
        number, name, path = header["id"], str(header["name"]), header["path"]
        try:
            content = bytes(payload.read(messages.MOST_COMMAND))
            answer = self._look(name) if path == messages.STATUS else self.admins.obey(name, path, content)
            status = 200
        except (UserError, ForgedError, ValueError, RecursionError) as error:
            answer, status = {"why": str(error)}, 400
            self.audit.write("refused", name=name, address=header["address"], why=f"{path}: {error}")
        if path != messages.STATUS and status == 200:
            self.audit.write("command", name=name, address=header["address"], path=path, run=answer["run"])
        self._to_server({"do": "answer", "id": number, "status": status}, Blob.of(json.dumps(answer).encode()))

    def _look(self, name: str) -> dict[str, Any]:
        connected = {
            name: {"address": it.address, "version": it.version, "since": it.since} for name, it in self.here.items()
        }
        return {**self.admins.look(self.roles.get(name, "")), "connected": connected}

    # -- all children -----------------------------------------------------------------------------------------

    def _hear(self) -> None:
        before = time.monotonic()
        children: list[Heard] = [
            (self.server, self._from_server, self._server_ended),
            (self.bridge, self._from_bridge, self._bridge_ended),
            (self.queue.process, self._from_run, self.queue.ended),
        ]
        hear(children, _TICK, lambda who: self.audit.write("invalid message", who=who))
        if time.monotonic() - before > 10 * _TICK:
            self.queue.beat = time.monotonic()  # the whole machine was suspended, not just the run
