"""The process of one run at the coordinator: drives its rounds and writes its status.

It has no network; exchange.py sends its requests through the node. Platforms come and go: one that is briefly away is
asked again when it is back, one that stays away is left out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import sys
import threading
import time
import tomllib
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.engines.opening import Opening
from fedrel.engines.past_sums import PastSums
from fedrel.engines.remote import Failure, Remote, TooFewError
from fedrel.engines.screening import Suspicion
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.divergence import begin_again
from fedrel.experiment.execution import Execution
from fedrel.experiment.loggers import refuse_loggers
from fedrel.experiment.parties import Coordination, coordinate
from fedrel.experiment.results import as_it_was
from fedrel.experiment.starting import IN_FEDERATION
from fedrel.experiment.sums import SECURE
from fedrel.federation.channel import Channel, ClosedError
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.exchange import TICK, Exchange, Sealed, StoppedError
from fedrel.federation.nodes.processes import NO_SPACE
from fedrel.federation.nodes.status import PLATFORM, Status, read_status, status_file, write_status
from fedrel.federation.signing import BEGIN, Verifier
from fedrel.federation.summing import verified_by
from fedrel.protocol.codec import Payload, encode
from fedrel.protocol.replies import BadReplyError
from fedrel.protocol.sum_messages import context
from fedrel.report.page import write_report
from fedrel.watch.history import extended
from fedrel.watch.states import REFUSES

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BEAT = 1.0  # seconds between heartbeats
_AGAIN = 2.0  # seconds before a request that too few platforms answered is repeated
_LATE = 15.0  # seconds that the first round waits for platforms that are still starting
_TRIES = 5  # of a platform that fails to begin
_MOST_WHY = 1000  # characters of a reason, which may quote other parties


class Conductor:
    """Runs one run, from its last checkpoint to its end."""

    def __init__(self, channel: Channel, told: dict[str, Any]) -> None:
        self.channel, self.told = channel, told
        self.kit = open_kit(Path(told["kit"]))
        self.run = str(told["run"])
        self.folder = Path(told["runs"]) / self.run
        self.status = Status.from_json(read_status(self.status_file))
        if self.status.attempt:
            self.status.note("begun again", why="the coordinator's process had ended")
        self._new_attempt()
        self.status.place, self.status.folder = 0, str(self.folder)
        for name, mine in self.status.platforms.items():
            self.status.platforms[name] = {**PLATFORM, **mine, "asked": 0.0}
        self.coordination: Coordination | None = None
        self.failures: dict[str, int] = {}  # how often a platform has failed to begin
        self.refused: dict[str, tuple[int, int]] = {}  # in a row, for a round; with all failures of the platform so far
        self.exchange = Exchange(
            channel,
            self.kit,
            self.status,
            Path(told["spool"]),
            dict(told["here"]),
            joined=lambda name: self.coordination is not None and name in self.coordination.joined,
            began=self._began,
        )
        self._saving = threading.Lock()
        self.ended = threading.Event()

    # -- the run ------------------------------------------------------------------------------------------------

    def conduct(self) -> None:
        """Runs the run; its status says how it ended. Raises ClosedError if the node has gone, and OSError if the disk
        is full.
        """
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
        """A run that diverges begins again as a new one, with a smaller learning rate and keys of its own."""
        while True:
            try:
                return self._conduct_once()
            except DivergedError as error:
                text = (self.folder / "experiment.toml").read_text(encoding="utf-8")
                lowered = begin_again(config.parse(_table(text), "experiment", text), self.folder, error)
                self.status.experiment = config.to_toml(config.to_table(lowered))
                self.status.run_id = secrets.token_hex(16)
                self.status.round, self.status.best_round, self.status.score = 0, 0, None
                self.coordination, self.failures = None, {}
                self.status.history, self.status.cohort = [], []
                self.status.note("begun again with a smaller learning rate", why=str(error)[:_MOST_WHY])
                self._new_attempt()
                self._say("starting", f"{error}; beginning again with training.lr={lowered.training.lr:g}")

    def _conduct_once(self) -> None:
        resume = (self.folder / "experiment.toml").is_file()
        if not resume and not self.status.experiment:
            raise UserError(f"{self.run}: there is no such run to resume")
        text = (self.folder / "experiment.toml").read_text(encoding="utf-8") if resume else self.status.experiment
        table = config.override(_table(text), as_it_was(text) if resume else [])
        experiment = with_own_files(config.parse(table, "experiment", text), Path(self.told["data"]))
        members = [it.name for it in self.kit.members() if it.role == "platform" and not it.revoked]
        names = tuple(sorted(self.status.platforms or members))
        if not names:
            raise UserError("the federation has no platform; add one with `fedrel federation add`")
        for name in names:
            self.status.platforms.setdefault(name, dict(PLATFORM))
        self._say("starting", "")
        coordination = self.coordination = coordinate(experiment, Path(self.told["data"]), names)
        training, settings = coordination.setup.experiment.training, coordination.setup.experiment.engine
        if coordination.setup.experiment.privacy.sums == SECURE:
            settings = replace(settings, min_platforms=max(settings.min_platforms, experiment.privacy.least))
        enough = min(settings.min_platforms, len(names))
        self.status.rounds, self.status.metric = training.rounds, training.metric
        self.exchange.begin(encode(coordination.agreement), settings.deadline)
        engine = Remote(
            coordination.setup.algorithm,
            self._carry,
            sizes=coordination.setup.reply_sizes,
            announced=coordination.setup.sites.sizes,
            minimum=enough,
            half=settings.transport == "half",
            opening=Opening(
                self._names_sum,
                verified_by(Verifier.of(self.kit)),
                experiment.privacy.least,
                PastSums(self._past, names, lambda: self.status.epoch),
            ),
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
            self._require_hope()
            self._wait_for(enough)
            self._new_attempt()  # platforms forget the round that is repeated
            self._say("running", "")
        write_report(self.folder)
        shutil.rmtree(self._past, ignore_errors=True)
        self._say("done", "")

    @property
    def _past(self) -> Path:
        """Where sums that were opened wait until all platforms are told."""
        return self.folder / "sums" / self.status.run_id

    def _names_sum(self, round_: int, task: str) -> bytes:
        return context(self.kit.federation, self.status.run_id, self.status.epoch, round_, task)

    def _gather(self, coordination: Coordination, names: tuple[str, ...], enough: int, members: set[str]) -> None:
        """Waits until enough platforms have joined, but not for platforms that refuse or are revoked. Raises UserError
        if too few are left.
        """
        late = time.monotonic() + _LATE
        while True:
            self._introduce(coordination, names)
            joined = [name for name in names if name in coordination.joined]
            out = [name for name in names if self.failures.get(name, 0) >= _TRIES or name not in members]
            if len(joined) >= enough and (self._complete(names, joined, out) or time.monotonic() > late):
                return
            missing = [name for name in names if name not in coordination.joined]
            reasons = "; ".join(f"{name}: {self.exchange.why(name)}" for name in missing)
            if len(names) - len(out) < enough:
                raise UserError(f"{len(joined)} of {len(names)} platforms joined, {enough} are needed: {reasons}")
            self._say("waiting", f"for {', '.join(missing)}" if len(joined) >= enough else reasons)
            self.exchange.pause(_AGAIN)

    def _complete(self, names: Iterable[str], joined: list[str], out: list[str]) -> bool:
        return self.status.round > 0 or all(name in joined or name in out for name in names)

    def _introduce(self, coordination: Coordination, names: Iterable[str]) -> None:
        """Sends the agreement to connected platforms that have not joined yet; they join by saying how much data they
        hold, without which their replies could not be checked.
        """
        missing = [
            name
            for name in names
            if name not in coordination.joined and name in self.exchange.here and self.failures.get(name, 0) < _TRIES
        ]
        self._doing(BEGIN)
        for name, answer in self.exchange.introduce(missing, self.status.round).items():
            self._began(name, answer)

    def _began(self, name: str, answer: Payload | Sealed | Failure) -> bool:
        """Handles the reply to `begin`. Returns whether the platform has joined."""
        assert self.coordination is not None
        try:
            if isinstance(answer, Failure):
                raise UserError(answer.why)
            self.coordination.welcome(name, answer.read() if isinstance(answer, Sealed) else answer)
            return True
        except (UserError, BadReplyError) as error:
            final = isinstance(answer, Failure) and answer.why.startswith(REFUSES)
            self.failures[name] = _TRIES if final else self.failures.get(name, 0) + 1
            self._failed(name, str(error))
            return False

    def _rounds(self, execution: Execution, coordination: Coordination) -> bool:
        """Runs rounds. Returns whether the run is finished; if not, too few platforms answered and the round is to be
        repeated.
        """
        try:
            for progress in execution.rounds():
                self.status.round, self.status.best_round = progress.line["round"], progress.best_round
                self.refused = {}
                self.status.score = progress.line["dev"][self.status.metric]
                self._keep(progress.line)
                self._say("running", "")
                self.exchange.hear(0.0)
                self._introduce(coordination, self.status.platforms)
            self.status.result = execution.finish()
            return True
        except TooFewError as error:
            self.status.note("round repeated", why=str(error)[:_MOST_WHY])
            self._say("waiting", str(error))
            return False

    def _keep(self, line: dict[str, Any]) -> None:
        """Keeps what is drawn of a round, and who took part in it. A resumed run repeats rounds."""
        self.status.history = extended(self.status.history, line, self.status.metric)
        self.status.cohort = line["cohort"]
        for name in line["cohort"]:
            mine = self.status.platforms[name]
            mine["rounds"] = mine.get("rounds", 0) + 1

    def _require_hope(self) -> None:
        """Raises UserError if a round was repeated several times because replies that did arrive were refused, or
        platforms that take part refused to reply: they would again, and every attempt makes platforms send more.
        """
        assert self.coordination is not None
        refused = {
            name: it["why"]
            for name, it in self.status.platforms.items()
            if it["why"].startswith("refused: ") or (it["why"].startswith(REFUSES) and name in self.coordination.joined)
        }
        count = {name: self.status.platforms[name]["failures"] for name in refused}
        again = {name for name in refused if count[name] > self.refused.get(name, (0, 0))[1]}
        self.refused = {name: (self.refused.get(name, (0, 0))[0] + 1, count[name]) for name in again}
        if hopeless := [name for name, (times, _) in self.refused.items() if times >= _TRIES]:
            reasons = "; ".join(f"{name}: {refused[name]}" for name in hopeless)
            raise UserError(
                f"round {self.status.round + 1} was repeated {_TRIES} times with the same outcome: {reasons}"
            )

    def _wait_for(self, enough: int) -> None:
        """Waits until enough platforms are connected to repeat a round."""
        self.exchange.pause(_AGAIN)
        while len(self.exchange.here.keys() & self.status.platforms.keys()) < enough:
            self.exchange.pause(TICK)

    def _new_attempt(self) -> None:
        """Raises the attempt by the clock or by one, whichever is more: a coordinator that continues from an older copy
        of its runs must not repeat numbers, which platforms would refuse.
        """
        self.status.attempt += 1
        self.status.epoch = max(self.status.epoch + 1, int(time.time()))

    def _carry(
        self, task: str, round_: int, messages: Mapping[str, Payload], most: int
    ) -> Mapping[str, Payload | Sealed | Failure]:
        self._doing(task)
        return self.exchange.carry(task, round_, messages, most)

    # -- the status ---------------------------------------------------------------------------------------------

    @property
    def status_file(self) -> Path:
        return status_file(Path(self.told["runs"]), self.run)

    def _suspected(self, suspicion: Suspicion) -> None:
        """Reports a well-formed reply that is out of line with the others."""
        mine = self.status.platforms[suspicion.platform]
        mine["suspicions"] = mine.get("suspicions", 0) + 1
        mine["suspicion"] = str(suspicion)[:_MOST_WHY]
        if suspicion.left_out:
            mine["suspected"] = suspicion.round
        what = "left out" if suspicion.left_out else "out of line"
        self.status.note(what, suspicion.platform, suspicion.why[:_MOST_WHY])
        self.channel.send({"do": "suspected", "name": suspicion.platform, "why": mine["suspicion"]})

    def _failed(self, platform: str, why: str) -> None:
        mine = self.status.platforms[platform]
        mine["failures"] += 1
        mine["why"], mine["failed"] = why[:_MOST_WHY], time.time()
        self.status.note("no reply used", platform, mine["why"])
        self.channel.send({"do": "failure", "name": platform, "why": why[:_MOST_WHY]})

    def _say(self, state: str, why: str) -> None:
        self.status.state, self.status.why = state, why[:_MOST_WHY]
        self._save()
        self.channel.send({"do": "saved"})

    def _doing(self, task: str) -> None:
        self.status.doing = task
        self._save()

    def _save(self) -> None:
        with self._saving:
            self.status.beat = time.time()
            write_status(self.status_file, asdict(self.status))

    def _beat(self) -> None:
        with contextlib.suppress(ClosedError):
            while not self.ended.wait(_BEAT):
                self.channel.send({"do": "beat"})
                with contextlib.suppress(OSError):  # a full disk is handled where results are written
                    self._save()


def conduct(channel: Channel, told: dict[str, Any]) -> None:
    """Runs one run from its last checkpoint to its end. The process is already confined (nodes/confined.py)."""
    try:
        Conductor(channel, told).conduct()
    except ClosedError:
        pass  # the node has gone; the next one resumes the run from its checkpoint
    except OSError as error:
        print(f"no space on the disk: {error}", file=sys.stderr, flush=True)
        with contextlib.suppress(ClosedError):
            channel.send({"do": "full", "why": f"{error.filename or 'the disk'}: {error.strerror}"})
        os._exit(NO_SPACE)


def with_own_files(experiment: config.Experiment, data: Path) -> config.Experiment:
    """The experiment with its files resolved in the coordinator's data folder. Raises UserError if one is outside it:
    an admin need not be allowed to read the coordinator's disk, and the words of a vocabulary are sent to all
    platforms.
    """

    def own(key: str, name: str) -> str:
        path = Path(os.path.normpath(data / name))
        if not path.is_relative_to(data):
            raise UserError(f'{key} = "{name}": not in the coordinator\'s data folder; a run can only use files there')
        return str(path)

    if experiment.training.start or experiment.data.more:
        raise UserError(IN_FEDERATION)
    refuse_loggers(experiment)
    extractor, feedback, judged = experiment.extractor, experiment.feedback, experiment.data
    start, plus, file = extractor.vocabulary.rpartition("public+")
    if file not in ("public", "training", ""):
        extractor = replace(extractor, vocabulary=f"{start}{plus}{own('extractor.vocabulary', file)}")
    if extractor.vectors not in ("random", "glove"):
        extractor = replace(extractor, vectors=own("extractor.vectors", extractor.vectors))
    if feedback.table:
        feedback = replace(feedback, table=own("feedback.table", feedback.table))
    if feedback.store:
        raise UserError("feedback.store is set by each platform; leave it out")
    if judged.human not in ("", "test"):
        judged = replace(judged, human=own("data.human", judged.human))
    if judged.trusted:
        judged = replace(judged, trusted=own("data.trusted", judged.trusted))
    return replace(experiment, data=judged, extractor=extractor, feedback=feedback)


def _table(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the experiment is not valid TOML: {error}") from None
