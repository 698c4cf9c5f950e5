"""The coordinator's node: a queue of runs, one process for the run at work, and one process with the network.

It passes signed messages between the two, keeps the list of members, starts what dies, and writes the audit trail. It
has no network itself. What it must know after a crash lies in the status files of the runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.federation.channel import Blob, ClosedError, Message
from fedrel.federation.https import messages
from fedrel.federation.kits.kit import MEMBERS, Kit
from fedrel.federation.nodes.audit import Audit
from fedrel.federation.nodes.processes import Child, Heard, Log, Pauses, ending_signals, hear, only_one
from fedrel.federation.nodes.relay import BRIDGE, Relay
from fedrel.federation.nodes.status import ENDED, QUEUED, Status, read_status, status_file, status_files, write_status
from fedrel.federation.signing import Command, Envelope, ForgedError, Verifier
from fedrel.util.files import private_folder, run_folder, run_name

SERVER = "fedrel.federation.https.server"
NO_ROOM = 75  # the exit code of a run that waits for room on the disk
_TICK = 0.5
_TRIES = 5  # of a run, without a new round
_STUCK = 60.0  # seconds without a sign of life
_ROOM = 5.0  # seconds between looks at a full disk
_CHALLENGE = 120.0  # seconds that an admin has to use one
_MOST_CHALLENGES = 1000
_SHOWN = 20  # runs that have ended
_MOST_EXPERIMENT = 2**18  # characters
_MOST_WAITING = 100  # runs


@dataclass
class Connected:
    session: str
    address: str
    version: str
    since: float = field(default_factory=time.time)
    relayed: bool = False  # by another carrier than our own


@dataclass
class CoordinatorNode:
    kit: Kit
    data: Path
    runs: Path
    say: Callable[[str], None]
    each: Callable[[], None] = lambda: None  # called a few times a second
    relay: Relay | None = None  # another carrier, beside our own
    server: Child | None = None
    bridge: Child | None = None
    conductor: Child | None = None
    run_at_work: str = ""
    here: dict[str, Connected] = field(default_factory=dict)
    there: dict[str, Connected] = field(default_factory=dict)  # whom the other carrier could reach as well
    challenges: dict[str, float] = field(default_factory=dict)
    tries: dict[str, tuple[int, int]] = field(default_factory=dict)  # run: (round, how often it was started there)
    full: str = ""  # why the run at work waits for room
    not_before: dict[str, float] = field(default_factory=lambda: {"server": 0.0, "bridge": 0.0, "conductor": 0.0})
    bridge_pauses: Pauses = field(default_factory=Pauses)
    pauses: Pauses = field(default_factory=Pauses)
    beat: float = 0.0
    members_stamp: object = None
    roles: Mapping[str, str] = field(default_factory=dict)  # of the members that are not shut out
    listening: bool = False

    def __post_init__(self) -> None:
        self.folder = self.kit.folder.absolute()
        self.audit = Audit(self.folder)
        self.verifier = Verifier.of(self.kit)

    def run(self) -> None:
        """Until a signal ends it."""
        taken = f"{self.kit.folder}: a node with this kit is running already; stop it first"
        self.runs.mkdir(parents=True, exist_ok=True)
        shared = f"{self.runs}: another coordinator works in this folder; stop it first"
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
                    self._keep_conductor()
                    self._hear()
                    self.each()
            finally:
                for child in (self.conductor, self.bridge, self.server):
                    if child is not None:
                        child.end(kindly=child is not self.conductor)
                self.audit.write("node ended")

    # -- the process with the network -------------------------------------------------------------------------

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
        self.say(f"the process with the network ended by itself ({self.server.how}); again in {pause:g} s")
        self.audit.write("server ended", how=self.server.how)
        self.server, self.listening = None, False
        self.not_before["server"] = time.monotonic() + pause
        for name in [name for name, it in self.here.items() if not it.relayed]:
            self._gone(name, messages.SERVER_ENDED)

    def _keep_members(self) -> None:
        """A changed list of members counts at once."""
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
            self.say(str(error))  # half a file: the next look may do better
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
            self.say(f"members changed: {', '.join(known)}" + (f"; shut out: {', '.join(revoked)}" if revoked else ""))

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
                self._confined("the process with the network", header["problems"])
                self.say(f"listening on port {self.kit.port}")
            case "failed":
                raise UserError(f"{header['why']}; is a coordinator running already?")
            case "here":
                self._joined(name, Connected(header["session"], header["address"], header["version"]))
            case "gone" if name in self.here and not self.here[name].relayed:
                self._gone(name, header["why"])
            case "reply" | "delivered":
                self._to_conductor(header, message.payload)
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
                self.say(f"no room for a reply: {header['why']}")

    def _joined(self, name: str, it: Connected) -> None:
        self.here[name] = it
        self.audit.write("connected", name=name, address=it.address, version=it.version)
        self.say(f"{name} joined" + (f" by way of the {it.address}" if it.relayed else ""))
        self._to_conductor({"do": "here", "name": name, "session": it.session})

    def _gone(self, name: str, why: str) -> None:
        if (found := self.here.pop(name, None)) is not None:
            self.audit.write("disconnected", name=name, why=why)
            self.say(f"{name} is gone: {why}")
            lost = found.relayed and why != "shut out"  # another carrier keeps no request for whoever comes back
            self._to_conductor({"do": "gone", "name": name, "why": messages.SERVER_ENDED if lost else why})
        if name in self.there and why != "shut out":
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
        self.say(f"the bridge to FLARE ended by itself ({self.bridge.how}); again in {pause:g} s")
        self.audit.write("bridge ended", how=self.bridge.how)
        self.bridge = None
        self.not_before["bridge"] = time.monotonic() + pause
        for name in list(self.there):
            self._not_there(name, "the coordinator's own bridge ended")

    def _to_bridge(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        if self.bridge is not None:
            try:
                self.bridge.channel.send(header, payload)
            except ClosedError:
                self._bridge_ended()

    def _from_bridge(self, message: Message) -> None:
        """Who came by our own transport has shown a certificate of this federation, and is not replaced."""
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
                self._to_conductor(header, message.payload)
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

    # -- runs -------------------------------------------------------------------------------------------------

    def _queue(self) -> list[Status]:
        """Runs that are not over, the one at work first, then in the order in which they came."""
        found = [Status.from_json(it) for path in status_files(self.runs) if (it := read_status(path))]
        waiting = [it for it in found if it.state not in ENDED and status_file(self.runs, it.run).is_file()]
        return sorted(waiting, key=lambda it: (it.run != self.run_at_work, it.state == QUEUED, it.queued, it.run))

    def _keep_conductor(self) -> None:
        if self.conductor is not None:
            self._look_at_the_clock()
            return
        if time.monotonic() < self.not_before["conductor"] or not self.listening:
            return
        self.not_before["conductor"] = time.monotonic() + _TICK
        queue = self._queue()
        if not queue:
            self.run_at_work = ""
            return
        chosen = queue[0]
        round_, tries = self.tries.get(chosen.run, (-1, 0))
        tries = tries + 1 if round_ == chosen.round else 1
        self.tries[chosen.run] = (chosen.round, tries)
        if tries > _TRIES:
            self._end(
                chosen, "failed", f"started {_TRIES} times without getting past round {chosen.round}; see node.log"
            )
            return
        self._start(chosen)

    def _start(self, status: Status) -> None:
        if not status.run_id:
            status.run_id = secrets.token_hex(16)
            if not self._write(status):
                return
        going_on = status.attempt > 0
        self.run_at_work = status.run
        writable = [self.runs, private_folder(self.spool / "run")]
        told = {
            "kit": str(self.folder),
            "run": status.run,
            "data": str(self.data),
            "runs": str(self.runs),
            "spool": str(self.spool / "run"),
            "here": {name: it.session for name, it in self.here.items()},
        }
        self.conductor = Child.confined("conductor", f"run {status.run}", told, writable, self.log)
        self.beat = time.monotonic()
        self.audit.write("run started", run=status.run, attempt=status.attempt + 1, by=status.by)
        self.say(f"{status.run}: goes on after round {status.round}" if going_on else f"{status.run}: starts")

    def _conductor_ended(self) -> None:
        assert self.conductor is not None
        self.conductor.reap()
        how, code = self.conductor.how, self.conductor.process.returncode
        self.conductor = None
        status = Status.from_json(read_status(status_file(self.runs, self.run_at_work)) or {"run": self.run_at_work})
        self.audit.write("run ended" if status.state in ENDED else "run interrupted", run=status.run, how=how)
        if status.state in ENDED:
            self.run_at_work = ""
            self.tries.pop(status.run, None)
        elif code == NO_ROOM:
            self.full = self.full or "no room on the disk"
            self.say(f"{status.run}: {self.full}; it goes on when there is room")
            self.tries.pop(status.run, None)  # that is no failure of the run's
            self.not_before["conductor"] = time.monotonic() + _ROOM
        else:
            self.say(f"{status.run}: its process ended with {how}; it is started again")

    def _look_at_the_clock(self) -> None:
        assert self.conductor is not None
        if time.monotonic() - self.beat > _STUCK:
            self.say(f"{self.run_at_work}: no sign of life for {_STUCK:g} s; its process is ended")
            self.conductor.end(kindly=False)
            self._conductor_ended()

    def _to_conductor(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        if self.conductor is not None:
            with contextlib.suppress(ClosedError):  # noticed where its channel is read
                self.conductor.channel.send(header, payload)

    def _from_conductor(self, message: Message) -> None:
        self.beat = time.monotonic()
        header = message.header
        match header["do"]:
            case "ask" | "drop":
                if (found := self.here.get(header["to"])) is not None and found.relayed:
                    self._to_bridge(header, message.payload)
                else:
                    self._to_server(header, message.payload)  # who is away for a moment finds it on coming back
            case "trouble":
                self.audit.write("trouble", run=self.run_at_work, name=header["name"], why=header["why"])
            case "suspected":
                self.audit.write("out of line", run=self.run_at_work, name=header["name"], why=header["why"])
                self.say(f"{self.run_at_work}: {header['name']} is out of line: {header['why']}")
            case "full":
                self.full = str(header["why"])
            case "saved":
                self.full = ""
            case "confined":
                self._confined("the run's process", header["problems"])

    def _write(self, status: Status) -> bool:
        try:
            write_status(status_file(self.runs, status.run), asdict(status))
            return True
        except OSError as error:
            self.full = f"{self.runs}: {error.strerror}"
            return False

    def _end(self, status: Status, state: str, why: str) -> None:
        status.state, status.why = state, why
        self._write(status)
        self.tries.pop(status.run, None)
        self.say(f"{status.run}: {why}")
        self.audit.write("run ended", run=status.run, why=why)

    # -- admins -----------------------------------------------------------------------------------------------

    def _command(self, header: dict[str, Any], payload: Blob) -> None:
        number, name, path = header["id"], str(header["name"]), header["path"]
        try:
            content = bytes(payload.read(messages.MOST_COMMAND))
            answer = (
                self._look(self.roles.get(name, "")) if path == messages.STATUS else self._obey(name, path, content)
            )
            status = 200
        except (UserError, ForgedError, ValueError, RecursionError) as error:
            answer, status = {"why": str(error)}, 400
            self.audit.write("refused", name=name, address=header["address"], why=f"{path}: {error}")
        if path != messages.STATUS and status == 200:
            self.audit.write("command", name=name, address=header["address"], path=path, run=answer["run"])
        self._to_server({"do": "answer", "id": number, "status": status}, Blob.of(json.dumps(answer).encode()))

    def _look(self, role: str) -> dict[str, Any]:
        now = time.monotonic()
        self.challenges = {it: since for it, since in self.challenges.items() if now - since < _CHALLENGE}
        challenge = ""
        if role == "admin":  # nobody else has a use for one; of too many, the oldest go
            challenge = secrets.token_hex(16)
            self.challenges[challenge] = now
            for old in list(self.challenges)[:-_MOST_CHALLENGES]:
                del self.challenges[old]
        found = {it["run"]: it for path in status_files(self.runs) if (it := read_status(path))}
        for it in found.values():
            it.pop("experiment", None)  # long, and nobody's business who only looks
            it["silent"] = max(0.0, time.time() - float(it.get("beat") or time.time()))
        for place, status in enumerate(self._queue()):
            found[status.run]["place"] = place if self.run_at_work else place + 1
        if self.full and self.run_at_work in found:
            found[self.run_at_work] |= {"state": "waiting", "why": f"no room on the coordinator's disk ({self.full})"}
        going = [it for it in found.values() if it["state"] not in ENDED]
        over = sorted((it for it in found.values() if it["state"] in ENDED), key=lambda it: it.get("beat", 0.0))
        return {
            "runs": [*sorted(going, key=lambda it: it["place"]), *over[-_SHOWN:]],
            "connected": {
                name: {"address": it.address, "version": it.version, "since": it.since}
                for name, it in self.here.items()
            },
            "challenge": challenge,
        }

    def _obey(self, name: str, path: str, content: bytes) -> dict[str, Any]:
        """What an admin has signed, with a challenge that was not used before."""
        command = self.verifier.open(Envelope.from_json(messages.parse(content)), Command, role="admin", name=name)
        if self.challenges.pop(command.challenge, None) is None:
            raise ForgedError("the command was sent before, or too late; give it again")
        run_name(command.run)
        if command.do != path.removeprefix("/v1/"):
            raise ForgedError("the command was signed for something else")
        return self._submit(name, command) if path == messages.SUBMIT else self._stop(command)

    def _submit(self, by: str, command: Command) -> dict[str, Any]:
        path = status_file(self.runs, command.run)
        before = read_status(path)
        resume = not command.experiment
        if resume and not before:
            raise UserError(f"{command.run}: the coordinator knows no such run; see `fedrel status`")
        if before and before["state"] not in ENDED:
            raise UserError(f"{command.run}: it is running, or waits for its turn")
        if before and before["state"] == "done":
            raise UserError(f"{command.run}: this run is finished; choose another name")
        if before and command.run == self.run_at_work and self.conductor is not None:
            self._conductor_ended()  # it has said its last word, which must not come after ours
        if not resume and (before or run_folder(self.runs, command.run).exists()):
            raise UserError(f"{command.run}: there is a run of this name; go on with --resume, or choose another name")
        if len(command.experiment) > _MOST_EXPERIMENT:
            raise UserError(f"{command.run}: an experiment of {len(command.experiment):,} characters is too long")
        if len(self._queue()) >= _MOST_WAITING:
            raise UserError(f"{command.run}: {_MOST_WAITING} runs wait for their turn already; stop some of them")
        status = Status.from_json(before) if resume else Status(command.run, experiment=command.experiment)
        status.state, status.why, status.by, status.queued = QUEUED, "", by, time.time()
        status.run_id = status.run_id or secrets.token_hex(16)
        if not self._write(status):
            raise UserError(f"no room on the coordinator's disk ({self.full}); try again when there is")
        place = [it.run for it in self._queue()].index(command.run)
        self.not_before["conductor"] = 0.0
        return {"run": command.run, "place": place}

    def _stop(self, command: Command) -> dict[str, Any]:
        if command.run == self.run_at_work and self.conductor is not None:
            self._to_conductor({"do": "stop"})
            return {"run": command.run}
        before = read_status(status_file(self.runs, command.run))
        if not before or before["state"] in ENDED:
            raise UserError(f"{command.run} is not running; see `fedrel status`")
        self._end(Status.from_json(before), "stopped", "stopped on request")
        return {"run": command.run}

    # -- both -------------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        before = time.monotonic()
        children: list[Heard] = [
            (self.server, self._from_server, self._server_ended),
            (self.bridge, self._from_bridge, self._bridge_ended),
            (self.conductor, self._from_conductor, self._conductor_ended),
        ]
        hear(children, _TICK, lambda who: self.audit.write("invalid message", who=who))
        if time.monotonic() - before > 10 * _TICK:
            self.beat = time.monotonic()  # the whole machine stood still, not the run
