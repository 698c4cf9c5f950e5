"""The coordinator's part in a job: drives the rounds of a run and carries their messages to the platforms."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fedrel import config
from fedrel.errors import DivergedError, UserError
from fedrel.execution import Execution
from fedrel.federation.codec import Payload, encode
from fedrel.federation.engines.nvflare.kits import open_kit
from fedrel.federation.engines.nvflare.platform import HEADER, PAYLOAD, TASK
from fedrel.federation.engines.nvflare.status import (
    COMMAND,
    ENDED,
    Status,
    read_start,
    read_status,
    status_file,
    write_status,
)
from fedrel.federation.engines.remote import Failure, Remote, TooFewError
from fedrel.parties import Coordination, coordinate
from fedrel.report.page import write_report

_POLL = 0.02
_BEAT = 1.0  # seconds between signs of life
_LINGER = 5.0  # seconds at most
_WAIT = 5.0  # before what too few answered is asked again
_LATE = 60.0
_TRIES = 5  # to begin with enough platforms


class StoppedError(Exception):
    """Somebody asked for the end."""


class RestartError(Exception):
    """A new job should go on, with platforms that this one has lost."""


class Coordinator(Controller):  # type: ignore[misc]  # nvflare has no types
    def __init__(self, run: str, experiment: str) -> None:
        super().__init__(task_check_period=0.05)
        self.run, self.experiment = run, experiment
        self.status = Status(run, experiment=experiment, pid=os.getpid())
        self.stop_wanted, self.restart_wanted = threading.Event(), threading.Event()
        self.ended, self.ending_told = threading.Event(), threading.Event()
        self.asked = -_LINGER  # when somebody last wanted to know
        self._saving = threading.Lock()
        self._lock: IO[str] | None = None

    # -- what NVFlare asks for ----------------------------------------------------------------------------------

    def start_controller(self, fl_ctx: FLContext) -> None:
        self.kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
        self.told = read_start(self.kit)
        self.folder = Path(self.told["runs"]) / self.run
        self.status.folder = str(self.folder)
        fl_ctx.get_engine().register_app_command(COMMAND, self._command)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        self.abort, self.fl_ctx = abort_signal, fl_ctx
        try:
            self._hold()
            threading.Thread(target=self._beat, daemon=True).start()
            self._conduct()
        except StoppedError:
            self._say("stopped", "stopped on request")
        except RestartError:
            self._say("restarting", "")
        except (UserError, DivergedError, OSError) as error:
            self._say("failed", str(error))
        except Exception as error:
            if not abort_signal.triggered:  # an abort breaks whatever was under way
                self._say("failed", f"{type(error).__name__}: {error}")
            raise
        finally:
            self._linger()
            self.ended.set()

    def stop_controller(self, fl_ctx: FLContext) -> None:
        self.ended.set()

    def _linger(self) -> None:
        """Whoever follows the run learns how it ended before the job is gone."""
        until = time.monotonic() + _LINGER
        followed = time.monotonic() - self.asked < _LINGER
        while followed and time.monotonic() < until and not self.ending_told.is_set():
            time.sleep(_POLL)

    # -- the run ------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """One coordinator a run: a second one, started because the first seemed dead, waits until it is."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder.parent / f".{self.run}.lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _conduct(self) -> None:
        resume = (self.folder / "experiment.toml").is_file()
        before = read_status(self.status_file)
        self.status.attempt = before.get("attempt", 0) + 1
        self.status.platforms = before.get("platforms", {})
        for known in ("round", "rounds", "best_round", "score", "metric"):
            setattr(self.status, known, before.get(known, getattr(self.status, known)))
        self.status.job = self.fl_ctx.get_job_id()
        self.experiment = self.status.experiment = self.experiment or before.get("experiment", "")
        if not resume and not self.experiment:
            raise UserError(f"{self.run}: there is no such run to go on with")
        text = (self.folder / "experiment.toml").read_text(encoding="utf-8") if resume else self.experiment
        experiment = config.parse(_table(text), "experiment", text)
        members = [
            party.name for party in open_kit(self.kit).members() if party.role == "platform" and not party.revoked
        ]
        names = tuple(sorted(before.get("platforms") or members))
        for name in names:
            self.status.platforms.setdefault(name, {"bytes": 0, "failures": 0, "seen": 0.0, "why": "", "absent": False})
        self._say("starting", "")
        coordination = coordinate(experiment, Path(self.told["data"]), names)
        training, settings = coordination.setup.experiment.training, coordination.setup.experiment.engine
        enough = min(settings.min_platforms, len(names))
        self.status.rounds, self.status.metric = training.rounds, training.metric
        engine = Remote(
            coordination.setup.algorithm,
            self._carry,
            sizes=coordination.setup.reply_sizes,
            announced=coordination.setup.sites.sizes,
            minimum=enough,
            half=settings.transport == "half",
            on_failure=lambda ask, platform, why: self._failed(platform, why),
        )
        self.deadline = settings.deadline
        self._gather(coordination, names, enough)
        execution = Execution(
            coordination.setup, self.folder, resume=resume, tick=partial(setattr, self.status, "doing"), engine=engine
        )
        self._say("running", "")
        while not self._rounds(execution, coordination):
            self._wait()
            if self.restart_wanted.is_set():
                raise RestartError
            self.status.attempt += 1  # platforms that answered a round which came to nothing forget it
        write_report(self.folder)
        self._say("done", "")

    def _gather(self, coordination: Coordination, names: tuple[str, ...], enough: int) -> None:
        """Until enough platforms have joined; some may need a moment after a crash."""
        for _ in range(_TRIES):
            self._introduce(coordination, names)
            if len(coordination.joined) >= enough:
                self._wait_for_the_late(names)
                return
            reasons = "; ".join(f"{name}: {self.status.platforms[name]['why']}" for name in names)
            why = f"{len(coordination.joined)} of {len(names)} platforms joined: {reasons}"
            self._say("waiting", why)
            self._wait()
        raise UserError(why)

    def _wait_for_the_late(self, names: tuple[str, ...]) -> None:
        """Before the first round, a minute for those who are still starting: a job that takes them in is a new one."""
        until = time.monotonic() + _LATE
        while self.status.round == 0 and time.monotonic() < until:
            late = [name for name in names if self.status.platforms[name]["absent"]]
            if not late:
                return
            if self.status.state != "waiting":
                self._say("waiting", f"for {', '.join(late)}")
            self._wait()
            if self.restart_wanted.is_set():
                raise RestartError

    def _introduce(self, coordination: Coordination, names: Iterable[str]) -> None:
        """Who has not joined yet is told what was agreed; who joins says how much it holds."""
        missing = [name for name in names if name not in coordination.joined]
        agreed = encode(coordination.agreement) if missing else b""
        arrived = self._carry("begin", self.status.round, dict.fromkeys(missing, agreed))
        for name in missing:
            answer = arrived.get(name, Failure("no answer"))
            if isinstance(answer, Failure):
                self._failed(name, answer.why)
            else:
                coordination.welcome(name, answer)

    def _rounds(self, execution: Execution, coordination: Coordination) -> bool:
        """Whether the run came to its end; if not, too few platforms answered and the round is to be repeated."""
        try:
            for progress in execution.rounds():
                self.status.round, self.status.best_round = progress.line["round"], progress.best_round
                self.status.score = progress.line["dev"][self.status.metric]
                self._say("running", "")
                if self.stop_wanted.is_set():
                    raise StoppedError
                if self.restart_wanted.is_set() and not progress.stopped:
                    raise RestartError
                self._introduce(coordination, self._connected())
            self.status.result = execution.finish()
            return True
        except TooFewError as error:
            self._say("waiting", str(error))
            return False

    def _wait(self) -> None:
        until = time.monotonic() + _WAIT
        while time.monotonic() < until:
            self._still_wanted()
            time.sleep(_POLL)

    # -- messages -----------------------------------------------------------------------------------------------

    def _connected(self) -> list[str]:
        return [client.name for client in self.fl_ctx.get_engine().get_clients()]

    def _carry(self, task: str, round_: int, messages: Mapping[str, Payload]) -> dict[str, Payload | Failure]:
        arrived: dict[str, Payload | Failure] = {}
        here = set(self._connected())
        header = {
            "do": "begin" if task == "begin" else "task",
            "run": self.run,
            "task": task,
            "round": round_,
            "attempt": self.status.attempt,
            "seconds": float(self.deadline),
        }
        self.status.doing = task
        self._save()
        asked: dict[str, Task] = {}
        known: dict[int, bytes] = {}
        for platform, payload in messages.items():
            if platform not in here:
                arrived[platform] = Failure("not connected")
                self.status.platforms[platform]["absent"] = True
                continue
            data = Shareable()
            data[HEADER], data[PAYLOAD] = dict(header), known.setdefault(id(payload), bytes(payload))
            received = partial(self._received, platform, arrived)
            # NVFlare gives up a little later than the platform itself, so that its own reason arrives
            asked[platform] = Task(TASK, data, timeout=int(self.deadline) + 5, result_received_cb=received)
            self.broadcast(asked[platform], self.fl_ctx, targets=[platform], min_responses=1)
        begin = time.monotonic()
        while any(it.completion_status is None for it in asked.values()):
            self._still_wanted()
            time.sleep(_POLL)
        for platform in messages.keys() - arrived.keys():
            arrived[platform] = Failure(f"no answer after {time.monotonic() - begin:.0f} seconds")
            self.status.platforms[platform]["absent"] = True
        return arrived

    def _received(
        self, platform: str, arrived: dict[str, Payload | Failure], client_task: ClientTask, fl_ctx: FLContext
    ) -> None:
        result = client_task.result
        client_task.result = None  # or NVFlare keeps it until the job ends
        header, payload = result.get(HEADER), result.get(PAYLOAD)
        mine = self.status.platforms[platform]
        mine |= {"seen": time.time(), "absent": False}
        if not isinstance(header, dict) or not isinstance(payload, bytes | bytearray):
            arrived[platform] = Failure(f"refused: no reply of ours ({result.get_return_code()})")
        elif "refused" in header:
            arrived[platform] = Failure(f"the platform refuses: {str(header['refused'])[:500]}")
        elif "failed" in header:
            arrived[platform] = Failure(str(header["failed"])[:500])
        else:
            mine["bytes"] += len(payload)
            arrived[platform] = bytearray(payload)

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """A reply that came too late, or twice, is not used."""
        if client.name in self.status.platforms:
            self._failed(client.name, "an answer that nobody waited for any more")

    def _failed(self, platform: str, why: str) -> None:
        mine = self.status.platforms[platform]
        mine["failures"] += 1
        mine["why"] = why
        self.logger.warning(f"{platform}: {why}")

    def _still_wanted(self) -> None:
        if self.abort.triggered:
            raise RuntimeError("the job was aborted")
        if self.stop_wanted.is_set():
            raise StoppedError

    # -- what others see ----------------------------------------------------------------------------------------

    @property
    def status_file(self) -> Path:
        return status_file(self.folder.parent, self.run)

    def _say(self, state: str, why: str) -> None:
        self.status.state, self.status.why = state, why
        self.logger.info(f"{self.run}: {state} {why}".rstrip())
        self._save()

    def _save(self) -> None:
        with self._saving:
            self.status.beat = time.time()
            write_status(self.status_file, asdict(self.status))

    def _beat(self) -> None:
        while not self.ended.wait(_BEAT):
            self._save()

    def _command(self, topic: str, data: Any, fl_ctx: FLContext) -> dict[str, Any]:
        """From an administrator, whose rights NVFlare has checked."""
        {"stop": self.stop_wanted.set, "restart": self.restart_wanted.set}.get(data, lambda: None)()
        self.asked = time.monotonic()
        if self.status.state in ENDED:
            self.ending_told.set()
        return asdict(self.status)


def _table(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise UserError(f"the experiment is not valid TOML: {error}") from None
