"""The process of one run at the coordinator: drives its rounds, signs what it asks, and checks who answered.

It has no network. What it asks goes to the node (its parent), which passes it on to the process that does. Platforms
come and go: one that is gone for a moment is asked again when it is back, one that stays away is left out.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import threading
import time
import tomllib
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.engines.remote import Failure, Remote, TooFewError
from fedrel.engines.screening import Suspicion
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.execution import Execution
from fedrel.experiment.parties import Coordination, coordinate
from fedrel.federation.channel import Blob, Channel, ClosedError, Message
from fedrel.federation.https.messages import SERVER_ENDED
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.status import Status, read_status, status_file, write_status
from fedrel.federation.signing import Envelope, ForgedError, Reply, Request, Signer, Verifier, sha256, sha256_of_file
from fedrel.protocol.codec import Payload, encode
from fedrel.protocol.replies import BadReplyError
from fedrel.report.page import write_report

NO_ROOM = 75  # the exit code that says: the disk is full, start me again when it is not
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BEAT = 1.0  # seconds between signs of life
_TICK = 0.2
_GRACE = 12.0  # seconds that a platform may be away while its answer is awaited
_AGAIN = 2.0  # seconds before what too few answered is asked again
_LATE = 15.0  # seconds for platforms that are still starting, before the first round
_SLACK = 15.0  # seconds beyond a platform's own deadline, so that its own reason arrives
_SLOWEST = 10_000  # bytes a second, for which a deadline makes allowance
_TRIES = 5  # of a platform that fails to begin
_MOST_WHY = 1000  # characters of a reason: it may quote what others sent
_MOST_BEGIN = 64 * 2**10  # bytes of what a platform says of itself
BEGIN, UNREADY = "begin", "unready"


class StoppedError(Exception):
    """Somebody asked for the end."""


@dataclass
class Waiting:
    """One platform's answer that has not come yet."""

    task: str
    payload: Blob
    digest: str
    most: int  # bytes of the answer
    until: float
    id: int = 0
    envelope: Envelope | None = None
    after_begin: tuple[str, Blob, str, int] | None = None  # what was asked when it turned out that it must begin first
    lost: float | None = None  # since when the platform is away
    session: str = ""  # of the platform's process that was asked; none: nobody has the request any more


@dataclass(frozen=True)
class Sealed:
    """A reply that lies where the process with the network put it; read and checked when its turn comes."""

    blob: Blob
    size: int
    sha256: str

    def read(self) -> bytearray:
        try:
            content = self.blob.read(self.size)
        except ValueError as error:
            raise BadReplyError(str(error)) from None
        if len(content) != self.size or sha256(content) != self.sha256:
            raise BadReplyError("its payload is not the one that was signed")
        return content


@dataclass
class Conductor:
    channel: Channel
    told: dict[str, Any]
    here: dict[str, str] = field(default_factory=dict)  # platform: its session
    stop_wanted: bool = False
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    waiting: dict[str, Waiting] = field(default_factory=dict)
    arrived: dict[str, Payload | Sealed | Failure] = field(default_factory=dict)
    agreed: Blob | None = None
    agreed_digest: str = ""
    coordination: Coordination | None = None
    refusals: dict[str, int] = field(default_factory=dict)  # how often a platform failed to begin
    _saving: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.kit = open_kit(Path(self.told["kit"]))
        self.signer, self.verifier = Signer.of(self.kit), Verifier.of(self.kit)
        self.run = str(self.told["run"])
        self.folder = Path(self.told["runs"]) / self.run
        self.here = dict(self.told["here"])
        self.status = Status.from_json(read_status(self.status_file))
        self._new_attempt()
        self.status.place, self.status.folder = 0, str(self.folder)
        self.ended = threading.Event()

    # -- the run ------------------------------------------------------------------------------------------------

    def conduct(self) -> None:
        threading.Thread(target=self._beat, daemon=True).start()
        try:
            self._conduct()
        except StoppedError:
            self._say("stopped", "stopped on request")
        except (UserError, DivergedError) as error:
            self._say("failed", str(error))
        except OSError as error:
            if error.errno in _FULL:
                raise
            self._say("failed", f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
        except ClosedError:
            raise
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self._say("failed", f"{type(error).__name__}: {error}")
        finally:
            self.ended.set()

    def _conduct(self) -> None:
        resume = (self.folder / "experiment.toml").is_file()
        if not resume and not self.status.experiment:
            raise UserError(f"{self.run}: there is no such run to go on with")
        text = (self.folder / "experiment.toml").read_text(encoding="utf-8") if resume else self.status.experiment
        experiment = with_own_files(config.parse(_table(text), "experiment", text), Path(self.told["data"]))
        members = [it.name for it in self.kit.members() if it.role == "platform" and not it.revoked]
        names = tuple(sorted(self.status.platforms or members))
        if not names:
            raise UserError("the federation has no platform; add one with `fedrel federation add`")
        for name in names:
            self.status.platforms.setdefault(name, {"bytes": 0, "failures": 0, "seen": 0.0, "why": ""})
        self._say("starting", "")
        coordination = self.coordination = coordinate(experiment, Path(self.told["data"]), names)
        training, settings = coordination.setup.experiment.training, coordination.setup.experiment.engine
        enough = min(settings.min_platforms, len(names))
        self.status.rounds, self.status.metric = training.rounds, training.metric
        self.deadline = settings.deadline
        agreement = encode(coordination.agreement)
        self.agreed, self.agreed_digest = Blob.of(agreement, self._spool), sha256(agreement)
        engine = Remote(
            coordination.setup.algorithm,
            self._carry,
            sizes=coordination.setup.reply_sizes,
            announced=coordination.setup.sites.sizes,
            minimum=enough,
            half=settings.transport == "half",
            on_failure=lambda ask, platform, why: self._failed(platform, why),
        )
        self._gather(coordination, names, enough, set(members))
        execution = Execution(
            coordination.setup,
            self.folder,
            resume=resume,
            tick=partial(setattr, self.status, "doing"),
            engine=engine,
            on_suspicion=self._suspected,
        )
        self._say("running", "")
        while not self._rounds(execution, coordination):
            self._wait_for(enough)
            self._new_attempt()  # platforms that answered a round which came to nothing forget it
            self._say("running", "")
        write_report(self.folder)
        self._say("done", "")

    def _gather(self, coordination: Coordination, names: tuple[str, ...], enough: int, members: set[str]) -> None:
        """Until enough platforms have joined; those that refuse for good, or were shut out, are not waited for."""
        late = time.monotonic() + _LATE
        while True:
            self._introduce(coordination, names)
            joined = [name for name in names if name in coordination.joined]
            out = [name for name in names if self.refusals.get(name, 0) >= _TRIES or name not in members]
            if len(joined) >= enough and (self._all_here(names, joined, out) or time.monotonic() > late):
                return
            missing = [name for name in names if name not in coordination.joined]
            reasons = "; ".join(f"{name}: {self._why(name)}" for name in missing)
            if len(names) - len(out) < enough:
                raise UserError(f"{len(joined)} of {len(names)} platforms joined, {enough} are needed: {reasons}")
            self._say("waiting", f"for {', '.join(missing)}" if len(joined) >= enough else reasons)
            self._pause(_AGAIN)

    def _all_here(self, names: Iterable[str], joined: list[str], out: list[str]) -> bool:
        return self.status.round > 0 or all(name in joined or name in out for name in names)

    def _joined(self, name: str) -> bool:
        """Whether it has said how much it holds: without that, nobody could check what else it says."""
        return self.coordination is not None and name in self.coordination.joined

    def _why(self, name: str) -> str:
        return str(self.status.platforms[name]["why"]) if name in self.here else "not connected"

    def _introduce(self, coordination: Coordination, names: Iterable[str]) -> None:
        """Who is here and has not joined yet is told what was agreed; who joins says how much it holds."""
        missing = [
            name
            for name in names
            if name not in coordination.joined and name in self.here and self.refusals.get(name, 0) < _TRIES
        ]
        assert self.agreed is not None
        for name, answer in self._exchange(BEGIN, self.status.round, dict.fromkeys(missing, self.agreed), _MOST_BEGIN):
            self._began(coordination, name, answer)

    def _began(self, coordination: Coordination, name: str, answer: Payload | Sealed | Failure) -> bool:
        try:
            if isinstance(answer, Failure):
                raise UserError(answer.why)
            coordination.welcome(name, answer.read() if isinstance(answer, Sealed) else answer)
            return True
        except (UserError, BadReplyError) as error:
            final = isinstance(answer, Failure) and answer.why.startswith("the platform refuses")
            self.refusals[name] = _TRIES if final else self.refusals.get(name, 0) + 1
            self._failed(name, str(error))
            return False

    def _rounds(self, execution: Execution, coordination: Coordination) -> bool:
        """Whether the run came to its end; if not, too few platforms answered and the round is to be repeated."""
        try:
            for progress in execution.rounds():
                self.status.round, self.status.best_round = progress.line["round"], progress.best_round
                self.status.score = progress.line["dev"][self.status.metric]
                self._say("running", "")
                self._hear(0.0)
                self._introduce(coordination, self.status.platforms)
            self.status.result = execution.finish()
            return True
        except TooFewError as error:
            self._say("waiting", str(error))
            return False

    def _wait_for(self, enough: int) -> None:
        """Until enough platforms are here to repeat a round."""
        self._pause(_AGAIN)
        while len(self.here.keys() & self.status.platforms.keys()) < enough:
            self._pause(_TICK)

    def _new_attempt(self) -> None:
        """By the clock or by counting, whichever is ahead: a coordinator that goes on from an older copy of its runs
        is not taken for one that repeats itself.
        """
        self.status.attempt += 1
        self.status.epoch = max(self.status.epoch + 1, int(time.time()))

    # -- messages -----------------------------------------------------------------------------------------------

    def _carry(
        self, task: str, round_: int, messages: Mapping[str, Payload], most: int
    ) -> Mapping[str, Payload | Sealed | Failure]:
        """Brings a payload to each platform, and comes back with what arrived until the deadline."""
        known: dict[int, Blob] = {}
        for payload in messages.values():
            if id(payload) not in known:
                known[id(payload)] = Blob.of(payload, self._spool)
        blobs = {name: known[id(payload)] for name, payload in messages.items()}
        return dict(self._exchange(task, round_, blobs, most))

    def _exchange(
        self, task: str, round_: int, messages: Mapping[str, Blob], most: int
    ) -> Iterable[tuple[str, Payload | Sealed | Failure]]:
        self.status.doing = task
        self._save()
        self.waiting, self.arrived = {}, {}
        digests: dict[int, str] = {}
        for name, blob in messages.items():
            if name not in self.here or (task != BEGIN and not self._joined(name)):
                self.arrived[name] = Failure(self._why(name) or "it has not joined yet")
                continue
            if id(blob) not in digests:
                digests[id(blob)] = sha256_of_file(blob.descriptor)
            self.waiting[name] = Waiting(task, blob, digests[id(blob)], most, self._until(blob, most))
            self._ask(name, round_)
        while self.waiting:
            self._hear(_TICK, round_)
            self._give_up()
        return [(name, self.arrived[name]) for name in messages]

    def _until(self, payload: Blob, most: int) -> float:
        """When to give up: the platform's own time, and what its line may take for so many bytes."""
        return time.monotonic() + self.deadline + _SLACK + (len(payload) + min(most, 2**28)) / _SLOWEST

    def _ask(self, name: str, round_: int) -> None:
        """Signs anew, with a number that was never used, whenever a platform has to be asked."""
        it = self.waiting[name]
        it.id, it.lost, it.session = next(self.numbers), None, self.here.get(name, "")
        request = Request(
            federation=self.kit.federation,
            run=self.run,
            run_id=self.status.run_id,
            to=name,
            task=it.task,
            round=round_,
            attempt=self.status.epoch,
            number=it.id,
            seconds=float(self.deadline),
            bytes=len(it.payload),
            sha256=it.digest,
        )
        it.envelope = self.signer.sign(request)
        head = it.envelope.as_json()
        self.channel.send({"do": "ask", "id": it.id, "to": name, "head": head, "most": it.most}, it.payload)

    def _hear(self, timeout: float, round_: int = 0) -> None:
        """All that the node has to say by now; waits for it only if there is nothing."""
        message = self.channel.receive(timeout)
        while message is not None:
            self._heard(message, round_)
            message = self.channel.receive(0.0)
        if self.stop_wanted:
            raise StoppedError

    def _heard(self, message: Message, round_: int) -> None:
        header = message.header
        name = str(header.get("name", ""))
        match header["do"]:
            case "stop":
                self.stop_wanted = True
            case "here":
                self.here[name] = header["session"]
                if name in self.waiting:
                    self.waiting[name].lost = None
                    if self.waiting[name].session != header["session"]:
                        self._ask(name, round_)
            case "gone":
                self.here.pop(name, None)
                if name in self.waiting:
                    self.waiting[name].lost = time.monotonic()
                    if header["why"] == SERVER_ENDED:
                        self.waiting[name].session = ""
                    if header["why"] in ("it left", "shut out"):
                        self._give(name, Failure(header["why"]))
            case "reply":
                it = self.waiting.get(name)
                if it is not None and it.id == header["id"]:
                    self._replied(name, it, header["head"], message.payload, round_)

    def _replied(self, name: str, it: Waiting, head: Any, payload: Blob | None, round_: int) -> None:
        if name in self.status.platforms:
            self.status.platforms[name]["seen"] = time.time()
        try:
            reply = self._opened(name, it, head)
        except ForgedError as error:
            self._give(name, Failure(f"refused: {error}"))
            return
        if isinstance(reply, Failure):
            self._give(name, reply)
        elif reply.state == UNREADY and it.task != BEGIN and it.after_begin is None and self.agreed is not None:
            self.waiting[name] = Waiting(
                BEGIN,
                self.agreed,
                self.agreed_digest,
                _MOST_BEGIN,
                self._until(self.agreed, it.most),
                after_begin=(it.task, it.payload, it.digest, it.most),
            )
            self._ask(name, round_)
        elif reply.state == "refused":
            self._give(name, Failure(f"the platform refuses: {reply.why}"))
        elif reply.state != "done" or payload is None:
            self._give(name, Failure(reply.why or "no answer"))
        elif it.after_begin is not None:
            self._begun(name, it.after_begin, Sealed(payload, reply.bytes, reply.sha256), round_)
        elif reply.bytes > it.most or len(payload) != reply.bytes:
            self._give(name, Failure(f"refused: {len(payload):,} bytes where at most {it.most:,} were expected"))
        else:
            if name in self.status.platforms:
                self.status.platforms[name]["bytes"] += reply.bytes
            self._give(name, Sealed(payload, reply.bytes, reply.sha256))

    def _begun(self, name: str, asked: tuple[str, Blob, str, int], answer: Sealed, round_: int) -> None:
        """A platform that had lost the run has it again: now for what it was asked."""
        assert self.coordination is not None
        if self._began(self.coordination, name, answer):
            task, payload, digest, most = asked
            self.waiting[name] = Waiting(task, payload, digest, most, self._until(payload, most))
            self._ask(name, round_)
        else:
            self._give(name, Failure(self._why(name)))

    def _opened(self, name: str, it: Waiting, head: Any) -> Reply | Failure:
        """What the platform itself says. Of a failure nobody need be sure who told of it."""
        if isinstance(head, dict):
            for word, prefix in (("failed", ""), ("refused", "refused: ")):
                if isinstance(head.get(word), str):
                    return Failure(prefix + head[word][:500])
        envelope = Envelope.from_json(head.get("envelope") if isinstance(head, dict) else None)
        reply = self.verifier.open(envelope, Reply, role="platform", name=name)
        assert it.envelope is not None
        if reply.platform != name or reply.answers != it.envelope.digest:
            raise ForgedError("it answers another request")
        return reply

    def _give(self, name: str, answer: Sealed | Failure) -> None:
        """Nothing more is expected of it."""
        it = self.waiting.pop(name)
        self.arrived[name] = answer
        if isinstance(answer, Failure):
            self.channel.send({"do": "drop", "to": name, "id": it.id})

    def _give_up(self) -> None:
        now = time.monotonic()
        for name, it in list(self.waiting.items()):
            if it.lost is not None and now - it.lost > _GRACE:
                self._give(name, Failure(f"its connection broke, and it was not back after {_GRACE:g} seconds"))
            elif now > it.until:
                self._give(name, Failure("no answer by the deadline"))

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._hear(_TICK)

    def _suspected(self, suspicion: Suspicion) -> None:
        """A reply of the right form that does not fit the others'."""
        mine = self.status.platforms[suspicion.platform]
        mine["suspicions"] = mine.get("suspicions", 0) + 1
        mine["suspicion"] = str(suspicion)[:_MOST_WHY]
        self.channel.send({"do": "suspected", "name": suspicion.platform, "why": mine["suspicion"]})

    def _failed(self, platform: str, why: str) -> None:
        mine = self.status.platforms[platform]
        mine["failures"] += 1
        mine["why"] = why[:_MOST_WHY]
        self.channel.send({"do": "trouble", "name": platform, "why": why[:_MOST_WHY]})

    # -- what others see ----------------------------------------------------------------------------------------

    @property
    def _spool(self) -> Path:
        return Path(self.told["spool"])

    @property
    def status_file(self) -> Path:
        return status_file(Path(self.told["runs"]), self.run)

    def _say(self, state: str, why: str) -> None:
        self.status.state, self.status.why = state, why[:_MOST_WHY]
        self._save()
        self.channel.send({"do": "saved"})

    def _save(self) -> None:
        with self._saving:
            self.status.beat = time.time()
            write_status(self.status_file, asdict(self.status))

    def _beat(self) -> None:
        with contextlib.suppress(ClosedError):
            while not self.ended.wait(_BEAT):
                self.channel.send({"do": "beat"})
                with contextlib.suppress(OSError):  # a full disk is noticed where it matters
                    self._save()


def conduct(channel: Channel, told: dict[str, Any]) -> None:
    """One run, from where it stands to its end. The process is confined already (nodes/confined.py)."""
    try:
        Conductor(channel, told).conduct()
    except ClosedError:
        pass  # the node is gone; whoever starts it again goes on from the checkpoint
    except OSError as error:
        print(f"no room on the disk: {error}", file=sys.stderr, flush=True)
        with contextlib.suppress(ClosedError):
            channel.send({"do": "full", "why": f"{error.filename or 'the disk'}: {error.strerror}"})
        os._exit(NO_ROOM)


def with_own_files(experiment: config.Experiment, data: Path) -> config.Experiment:
    """Whoever may submit a run need not be allowed to read the machine, and words that are read here travel to every
    platform: files that an experiment names are those in the coordinator's data folder, and no others.
    """

    def own(key: str, name: str) -> str:
        path = Path(os.path.normpath(data / name))
        if not path.is_relative_to(data):
            raise UserError(f'{key} = "{name}": not in the coordinator\'s data folder, where files of a run must lie')
        return str(path)

    extractor, feedback = experiment.extractor, experiment.feedback
    start, plus, file = extractor.vocabulary.rpartition("public+")
    if file not in ("public", "training", ""):
        extractor = replace(extractor, vocabulary=f"{start}{plus}{own('extractor.vocabulary', file)}")
    if extractor.vectors not in ("random", "glove"):
        extractor = replace(extractor, vectors=own("extractor.vectors", extractor.vectors))
    if feedback.table:
        feedback = replace(feedback, table=own("feedback.table", feedback.table))
    if feedback.store:
        raise UserError("feedback.store is for each platform to choose; leave it out")
    return replace(experiment, extractor=extractor, feedback=feedback)


def _table(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the experiment is not valid TOML: {error}") from None
