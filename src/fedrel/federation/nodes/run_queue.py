"""The coordinator's runs: the queue, which is kept in their status files, and the process of the run at work."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.federation.channel import Blob, ClosedError, Message
from fedrel.federation.nodes.audit import Audit
from fedrel.federation.nodes.processes import NO_SPACE, Child
from fedrel.federation.nodes.status import ENDED, QUEUED, Status, read_status, status_file, status_files, write_status
from fedrel.util.files import run_folder
from fedrel.watch.history import thinned

TRIES = 5  # starts of a run without a new round, before it is given up
STUCK = 60.0  # seconds without a heartbeat, after which its process is killed
_TICK = 0.5
_NO_SPACE = 5.0  # seconds before a run is tried again on a full disk
_SHOWN = 20  # finished runs in a status
_FEW_ROUNDS = 50  # of all but the latest of them
_MOST_EXPERIMENT = 2**18  # characters
_MOST_WAITING = 100  # runs


@dataclass
class RunQueue:
    """Decides which run is at work, and starts its process again when it dies. One run is at work at a time; the
    others wait in the order in which they were submitted.
    """

    folder: Path  # of all runs
    start: Callable[[Status], Child]  # starts the process of a run
    say: Callable[[str], None]
    audit: Audit
    process: Child | None = None  # of the run at work
    at_work: str = ""  # the name of that run
    tries: dict[str, tuple[int, int]] = field(default_factory=dict)  # run: (round, number of starts at that round)
    full: str = ""  # why the run at work waits for disk space
    not_before: float = 0.0
    beat: float = 0.0

    def runs(self) -> list[Status]:
        """All unfinished runs, the one at work first, then in the order in which they were submitted."""
        found = [Status.from_json(it) for path in status_files(self.folder) if (it := read_status(path))]
        waiting = [it for it in found if it.state not in ENDED and status_file(self.folder, it.run).is_file()]
        return sorted(waiting, key=lambda it: (it.run != self.at_work, it.state == QUEUED, it.queued, it.run))

    # -- the process of the run at work -----------------------------------------------------------------------

    def keep(self) -> None:
        """Starts the next run, or kills the process of one that is stuck; to be called regularly."""
        if self.process is not None:
            self._check_heartbeat(self.process)
            return
        if time.monotonic() < self.not_before:
            return
        self.not_before = time.monotonic() + _TICK
        queue = self.runs()
        if not queue:
            self.at_work = ""
            return
        chosen = queue[0]
        round_, tries = self.tries.get(chosen.run, (-1, 0))
        tries = tries + 1 if round_ == chosen.round else 1
        self.tries[chosen.run] = (chosen.round, tries)
        if tries > TRIES:
            self._end(
                chosen, "failed", f"started {TRIES} times without getting past round {chosen.round}; see node.log"
            )
            return
        self._start(chosen)

    def _start(self, status: Status) -> None:
        if not status.run_id:
            status.run_id = secrets.token_hex(16)
            if not self._write(status):
                return
        resumed = status.attempt > 0
        self.at_work = status.run
        self.process = self.start(status)
        self.beat = time.monotonic()
        self.audit.write("run started", run=status.run, attempt=status.attempt + 1, by=status.by)
        self.say(f"{status.run}: resumed after round {status.round}" if resumed else f"{status.run}: started")

    def ended(self) -> None:
        """To be called when the process of the run at work has closed its channel."""
        assert self.process is not None
        self.process.reap()
        how, code = self.process.how, self.process.process.returncode
        self.process = None
        status = Status.from_json(read_status(status_file(self.folder, self.at_work)) or {"run": self.at_work})
        self.audit.write("run ended" if status.state in ENDED else "run interrupted", run=status.run, how=how)
        if status.state in ENDED:
            self.at_work = ""
            self.tries.pop(status.run, None)
        elif code == NO_SPACE:
            self.full = self.full or "the disk is full"
            self.say(f"{status.run}: {self.full}; the run resumes when there is space")
            self.tries.pop(status.run, None)  # a full disk does not count as a failure of the run
            self.not_before = time.monotonic() + _NO_SPACE
        else:
            self.say(f"{status.run}: its process ended with {how}; restarting it")

    def _check_heartbeat(self, process: Child) -> None:
        if time.monotonic() - self.beat > STUCK:
            self.say(f"{self.at_work}: no heartbeat for {STUCK:g} s; killing its process")
            process.end(gracefully=False)
            self.ended()

    def send(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        """Sends a message to the process of the run at work, if there is one."""
        if self.process is not None:
            with contextlib.suppress(ClosedError):  # noticed where its channel is read
                self.process.channel.send(header, payload)

    def hear(self, message: Message) -> None:
        """Handles a message from the process of the run at work that concerns the run itself."""
        self.beat = time.monotonic()
        header = message.header
        match header["do"]:
            case "failure":
                self.audit.write("failure", run=self.at_work, name=header["name"], why=header["why"])
            case "suspected":
                self.audit.write("outlier", run=self.at_work, name=header["name"], why=header["why"])
                self.say(f"{self.at_work}: {header['name']} sent an outlier: {header['why']}")
            case "full":
                self.full = str(header["why"])
            case "saved":
                self.full = ""

    # -- what admins ask for ----------------------------------------------------------------------------------

    def look(self) -> list[dict[str, Any]]:
        """The status of every unfinished run in the order of the queue, then of the last 20 finished ones."""
        found = {it["run"]: it for path in status_files(self.folder) if (it := read_status(path))}
        for it in found.values():
            it.pop("experiment", None)  # long, and not for viewers
            it["silent"] = max(0.0, time.time() - float(it.get("beat") or time.time()))
        for place, status in enumerate(self.runs()):
            found[status.run]["place"] = place if self.at_work else place + 1
        if self.full and self.at_work in found:
            found[self.at_work] |= {"state": "waiting", "why": f"the coordinator's disk is full ({self.full})"}
        going = [it for it in found.values() if it["state"] not in ENDED]
        over = sorted((it for it in found.values() if it["state"] in ENDED), key=lambda it: it.get("beat", 0.0))
        for it in over[:-1]:
            it["history"] = thinned(it["history"], _FEW_ROUNDS)
        return [*sorted(going, key=lambda it: it["place"]), *over[-_SHOWN:]]

    def submit(self, by: str, run: str, experiment: str) -> int:
        """Queues a new run or, if `experiment` (TOML) is empty, resumes one. Returns its place in the queue, from 0.
        Raises UserError if that is not possible.
        """
        before = read_status(status_file(self.folder, run))
        resume = not experiment
        if resume and not before:
            raise UserError(f"{run}: the coordinator has no such run; see `fedrel status`")
        if before and before["state"] not in ENDED:
            raise UserError(f"{run}: this run is already running or queued")
        if before and before["state"] == "done":
            raise UserError(f"{run}: this run is finished; choose another name")
        if before and run == self.at_work and self.process is not None:
            self.ended()  # its last status must not be written after ours
        if not resume and (before or run_folder(self.folder, run).exists()):
            raise UserError(f"{run}: there is a run with this name; resume it with --resume, or choose another name")
        if len(experiment) > _MOST_EXPERIMENT:
            raise UserError(f"{run}: an experiment of {len(experiment):,} characters is too long")
        if len(self.runs()) >= _MOST_WAITING:
            raise UserError(f"{run}: {_MOST_WAITING} runs are already queued; stop some of them")
        status = Status.from_json(before) if resume else Status(run, experiment=experiment)
        status.state, status.why, status.by, status.queued = QUEUED, "", by, time.time()
        status.run_id = status.run_id or secrets.token_hex(16)
        if not self._write(status):
            raise UserError(f"the coordinator's disk is full ({self.full}); try again when there is space")
        place = [it.run for it in self.runs()].index(run)
        self.not_before = 0.0
        return place

    def stop(self, run: str) -> None:
        """Stops a running or queued run. Raises UserError if it is neither."""
        if run == self.at_work and self.process is not None:
            self.send({"do": "stop"})
            return
        before = read_status(status_file(self.folder, run))
        if not before or before["state"] in ENDED:
            raise UserError(f"{run} is not running; see `fedrel status`")
        self._end(Status.from_json(before), "stopped", "stopped on request")

    def _write(self, status: Status) -> bool:
        try:
            write_status(status_file(self.folder, status.run), asdict(status))
            return True
        except OSError as error:
            self.full = f"{self.folder}: {error.strerror}"
            return False

    def _end(self, status: Status, state: str, why: str) -> None:
        status.state, status.why = state, why
        self._write(status)
        self.tries.pop(status.run, None)
        self.say(f"{status.run}: {why}")
        self.audit.write("run ended", run=status.run, why=why)
