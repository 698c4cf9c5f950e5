"""The process in which a platform trains: it owns the data, the model and the memory, and answers `@task`s.

It is a child of the platform's node and has no network. It answers only what the coordinator itself has signed, for
this platform, and never twice. If it dies, of too little memory say, one reply is missing and a new one is started;
what it must remember lies on the platform's own disk. Nothing but records of our codec leaves it, past the platform's
policy and into its ledger first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedrel.algorithms import METHODS
from fedrel.config import Experiment
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.assembly import plugins_of
from fedrel.experiment.parties import Participant, participate, read_agreed
from fedrel.federation.channel import Blob, Channel, ClosedError
from fedrel.federation.kits.kit import BLINDING_KEY, COORDINATOR, POLICY, open_kit
from fedrel.federation.signing import Envelope, ForgedError, Reply, Request, Signer, Verifier, sha256
from fedrel.learning.fit import Fitted, Work, fit_alone, meeting
from fedrel.privacy.blind import of_agreement
from fedrel.privacy.ledger import Ledger
from fedrel.privacy.policy import Policy
from fedrel.protocol.checkpoint import load_record, save_record
from fedrel.protocol.codec import CodecError, Payload, Record, decode, encode, fields
from fedrel.protocol.round import Ask
from fedrel.protocol.tasks import answer, tasks
from fedrel.util.escaping import shown
from fedrel.util.files import private_folder, run_name, write_whole

BEGIN = "begin"
UNREADY = "unready"  # the state of a reply: the platform must be told of the run first
MOST_PAYLOAD = 16 * 2**30  # bytes of a request
_KEPT_ROUNDS = 2  # of memory: a coordinator that lost a round asks for it again
_KEPT_RUNS = 20  # whose memory stays
_SNAPSHOT = re.compile(r"round-(\d+)\.safetensors")
_RUN_ID = re.compile("[0-9a-f]{32}")
_MOST_TASK = 100  # characters of its name
_OFTEN = 60.0  # seconds in which the same refusal is written down once


class RefusedError(Exception):
    """The platform will not answer; the sentence is meant for the coordinator."""


@dataclass(frozen=True)
class Home:
    """Where a platform keeps what is its own; the coordinator has no say in it."""

    name: str
    data: Path
    store: str  # verdicts of its reviewers; empty: none
    blinding_key: Path
    policy: Path
    ledger: Path
    memory: Path

    @classmethod
    def of(cls, kit: Path, name: str, data: Path, store: str) -> Home:
        ledger, memory = kit / "ledger" / "ledger.jsonl", kit / "memory"
        return cls(name, data, store, kit / BLINDING_KEY, kit / POLICY, ledger, memory)


class Outcome(NamedTuple):
    """What becomes of a request: a payload, or a state and a sentence."""

    state: str = "done"
    why: str = ""
    payload: Payload = b""


@dataclass
class Memory:
    """What a platform remembers between the rounds of one run, as it was after each of the last rounds."""

    folder: Path
    attempt: int = -1
    loaded: bool = False

    def before(self, round_: int, attempt: int, current: Record) -> Record:
        """What is remembered at the start of a round. A coordinator that begins anew, after a crash, may ask for a
        round that was answered before: then what that round changed is forgotten.
        """
        if self.loaded and attempt == self.attempt:
            return current
        self.loaded, self.attempt = True, attempt
        earlier = [number for number in self._rounds() if number < round_]
        return load_record(self._path(max(earlier))) if earlier else {}

    def keep(self, round_: int, memory: Record) -> None:
        if not memory:
            return
        save_record(self._path(round_), memory)
        for number in sorted(self._rounds())[:-_KEPT_ROUNDS]:
            self._path(number).unlink(missing_ok=True)

    def _rounds(self) -> list[int]:
        names = (_SNAPSHOT.fullmatch(path.name) for path in self.folder.glob("round-*.safetensors"))
        return [int(name[1]) for name in names if name]

    def _path(self, round_: int) -> Path:
        return self.folder / f"round-{round_}.safetensors"


@dataclass
class Worker:
    """Answers requests whose origin is certain, one after the other."""

    home: Home
    participant: Participant | None = None
    run: str = ""  # for which it is ready
    run_id: str = ""
    memory: Memory = field(default_factory=lambda: Memory(Path()))
    policy: Policy = field(default_factory=Policy)
    ledger: Ledger | None = None
    sent: Counter[int] = field(default_factory=Counter)  # bytes by round
    last: tuple[tuple[object, ...], Outcome] | None = None  # what was answered, in case it got lost on its way

    def __call__(self, request: Request, payload: Payload) -> Outcome:
        try:
            self.ledger = self.ledger or Ledger.open(self.home.ledger, say=_say)
            if request.task == BEGIN:
                return self._begin(request, payload)
            return self._task(request, payload)
        except RefusedError as error:
            self.refuse(request.run, request.round, request.task, str(error))
            return Outcome("refused", str(error))
        except (UserError, DivergedError, CodecError) as error:
            _say(f"{request.task}: {error}")
            # What a reader of files says may quote them; it is for the platform's own people.
            return Outcome("failed", "the reason is in the platform's own log")
        except MemoryError:
            return Outcome("failed", "out of memory")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return Outcome("failed", f"{type(error).__name__}; the reason is in the platform's own log")

    def refuse(self, run: str, round_: int, task: str, why: str) -> None:
        """Writes into the ledger what was asked for in vain."""
        self.ledger = self.ledger or Ledger.open(self.home.ledger, say=_say)
        self.ledger.refuse(run=run, round=_counted(task, round_), task=task, why=why)

    def _begin(self, request: Request, payload: Payload) -> Outcome:
        assert self.ledger is not None
        self.participant, self.last = None, None
        self.policy = Policy.read(self.home.policy, methods=METHODS)
        self.sent = Counter(self.ledger.sent(request.run))
        agreement = decode(payload)
        try:
            asked = read_agreed(agreement, allow=self._require_known_code)
        except UserError as error:
            raise RefusedError(str(error)) from None
        if asked.feedback.users == "table":
            raise RefusedError("feedback.table names a file, and nobody else has a say in which files are read here")
        participant = participate(
            agreement,
            name=self.home.name,
            data=self.home.data,
            store=self.home.store,
            secret=of_agreement(self.home.blinding_key.read_bytes(), request.run_id, bytes.fromhex(request.sha256)),
        )
        if objection := self.policy.objection_to_experiment(participant.experiment, blinded=True):
            raise RefusedError(objection)
        if objection := self.policy.objection_to_size(len(participant.site.shard)):
            raise RefusedError(objection)
        self.memory = Memory(self.home.memory / request.run_id)
        outcome = self._leave(request, participant.summary, half=False)
        self.participant, self.run, self.run_id = participant, request.run, request.run_id
        return outcome

    def _require_known_code(self, experiment: Experiment) -> None:
        """Raises RefusedError for a plug-in that the policy does not allow by name and digest."""
        for name, origin in plugins_of(experiment):
            if objection := self.policy.objection_to_plugin(name, origin):
                raise RefusedError(objection)

    def _task(self, request: Request, payload: Payload) -> Outcome:
        if self.participant is None or (self.run, self.run_id) != (request.run, request.run_id):
            return Outcome(UNREADY, "it has not been told of this run yet")
        algorithm, site = self.participant.algorithm, self.participant.site
        if request.task not in tasks(algorithm):
            raise RefusedError(f"there is no task {request.task!r} in this method")
        asked = (request.run_id, request.attempt, request.round, request.task, request.sha256)
        if self.last is not None and self.last[0] == asked:
            return self._again(request, self.last[1])
        message = decode(payload)
        site.memory = self.memory.before(request.round, request.attempt, site.memory)
        remembered = dict(site.memory)
        with self._watched_training():
            reply = answer(algorithm, site, Ask(request.task, {}, request.round), message)
        try:
            outcome = self._leave(request, reply, half=self.participant.experiment.engine.transport == "half")
            if site.memory.keys() != remembered.keys() or any(site.memory[k] is not remembered[k] for k in remembered):
                self.memory.keep(request.round, site.memory)
        except BaseException:  # what did not leave did not happen
            site.memory = remembered
            raise
        self.last = (asked, outcome)
        return outcome

    @contextlib.contextmanager
    def _watched_training(self) -> Iterator[None]:
        """Within it, training on fewer sentences than the policy allows is refused before it begins, whatever the
        method says about itself.
        """

        def fit_if_allowed(work: Work) -> Fitted:
            if objection := self.policy.objection_to_training(len(work.sentences)):
                raise RefusedError(objection)
            return fit_alone(work)

        token = meeting.set(fit_if_allowed)
        try:
            yield
        finally:
            meeting.reset(token)

    def _leave(self, request: Request, reply: Record, *, half: bool) -> Outcome:
        """Past the policy, or not at all."""
        return self._again(request, Outcome(payload=encode(reply, half=half)))

    def _again(self, request: Request, outcome: Outcome) -> Outcome:
        """Past the limits on size and into the ledger, as often as it leaves."""
        assert self.ledger is not None
        round_, found = _counted(request.task, request.round), fields(outcome.payload)
        objection = self.policy.objection_to_reply(
            found, sent_this_round=self.sent[round_], sent_this_run=self.sent.total()
        )
        if objection:
            raise RefusedError(objection)
        self.ledger.write(run=request.run, round=round_, task=request.task, payload=outcome.payload, fields=found)
        self.sent[round_] += len(outcome.payload)
        return outcome


@dataclass
class Gate:
    """Lets through what the coordinator signed for this platform, once; signs what goes back."""

    worker: Worker
    federation: str
    signer: Signer
    verifier: Verifier
    refused: dict[str, float] = field(default_factory=dict)  # why: when it was last written down

    def __call__(self, head: object, payload: Blob | None) -> tuple[Envelope | None, Payload]:
        """The signed reply; none if the request is not the coordinator's: then nothing at all is said to it."""
        try:
            envelope = Envelope.from_json(head)
            request = self.verifier.open(envelope, Request, role="coordinator", name=COORDINATOR)
            self._check(request)
            content = bytearray() if payload is None else payload.read(min(request.bytes, MOST_PAYLOAD))
            if len(content) != request.bytes or sha256(content) != request.sha256:
                raise ForgedError("its payload is not the one that was signed")
            outcome = self._once(request) or self.worker(request, content)
        except (ForgedError, UserError, ValueError) as error:
            self._refuse(str(error))
            return None, b""
        reply = Reply(
            federation=self.federation,
            platform=self.worker.home.name,
            answers=envelope.digest,
            state=outcome.state,
            why=outcome.why,
            bytes=len(outcome.payload),
            sha256=sha256(outcome.payload),
        )
        return self.signer.sign(reply), outcome.payload

    def _check(self, request: Request) -> None:
        if request.to != self.worker.home.name:
            raise ForgedError(f"it was made for {request.to}")
        run_name(request.run)
        if not 0 < len(request.task) <= _MOST_TASK or not request.task.isascii() or not request.task.isidentifier():
            raise ForgedError("its task has no proper name")
        if not _RUN_ID.fullmatch(request.run_id):
            raise ForgedError("its run has no proper number")
        if not (0 <= request.round < 2**31 and 0 < request.seconds <= 1e7 and 0 <= request.bytes <= MOST_PAYLOAD):
            raise ForgedError("a number of it is out of bounds")

    def _once(self, request: Request) -> Outcome | None:
        """Written down before anything is done: a request counts once, whatever happens in between. If it cannot be
        written, nothing is done, and that is the outcome.
        """
        folder = self.worker.home.memory / request.run_id
        path, now = folder / "seen.json", [request.attempt, request.number]
        if path.exists():
            if now <= json.loads(path.read_text(encoding="utf-8")):
                raise ForgedError("it was sent before")
        else:
            _tidy(self.worker.home.memory)
        try:
            write_whole(private_folder(folder) / "seen.json", json.dumps(now), private=True)
            return None
        except OSError as error:
            _say(f"{path}: {error.strerror}")
            return Outcome("failed", "the platform's disk is full, or cannot be written")

    def _refuse(self, why: str) -> None:
        """The same many times is written down once in a while: nobody fills the disk with it."""
        _say(f"refused: {why}")
        if time.monotonic() - self.refused.get(why, -_OFTEN) >= _OFTEN:
            self.refused[why] = time.monotonic()
            with contextlib.suppress(UserError):  # a ledger that cannot be written lets nothing leave either
                self.worker.refuse("", 0, "(message)", f"not the coordinator's request: {why}")


def _tidy(memory: Path) -> None:
    """Of runs long past, only that they were is remembered: none of their requests counts again."""
    asked = {path.parent: path.stat().st_mtime_ns for path in memory.glob("*/seen.json")}  # when it was last
    for folder in sorted(asked, key=lambda it: asked[it])[:-_KEPT_RUNS]:
        for path in folder.iterdir():
            if path.name != "seen.json":
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _say(line: str) -> None:
    """Into the platform's own log."""
    print(shown(line), file=sys.stderr, flush=True)


def _counted(task: str, round_: int) -> int:
    """As people count: from 1, and 0 is before the first round."""
    return 0 if task == BEGIN else round_ + 1


def serve(channel: Channel, gate: Gate) -> None:
    """Until the node is gone."""
    while (message := channel.receive()) is not None:
        envelope, payload = gate(message.header.get("head"), message.payload)
        head: dict[str, Any] = (
            {"failed": "refused by the platform"} if envelope is None else {"envelope": envelope.as_json()}
        )
        try:
            reply = Blob.of(payload, _spool())
        except OSError as error:
            _say(f"{_spool()}: {error.strerror}")
            head, reply = {"failed": "the platform's disk is full, or cannot be written"}, Blob.of(b"")
        channel.send({"do": "reply", "id": message.header["id"], "head": head}, reply)


def _spool() -> Path:
    return Path(os.environ["TMPDIR"])


def work(channel: Channel, told: dict[str, Any]) -> None:
    """Serves a platform whose node says where everything lies. The process is confined already (nodes/confined.py)."""
    kit = open_kit(Path(told["kit"]))
    home = Home.of(kit.folder, kit.name, Path(told["data"]), told["store"])
    with contextlib.suppress(ClosedError):
        serve(channel, Gate(Worker(home), kit.federation, Signer.of(kit), Verifier.of(kit)))
