"""A run from start to finish: rounds, dev scores, early stopping, checkpoints, the final test, and its folder.

Every file of the folder is a contract (see docs/files.md). The test split is opened once, at the end.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedrel import config
from fedrel.data.sufficiency import dev_can_choose, enough_to_choose
from fedrel.engines.engine import Engine, Upload
from fedrel.engines.ray import RayEngine
from fedrel.engines.screening import Screen, Suspicion
from fedrel.engines.simulator import Simulator
from fedrel.errors import UserError
from fedrel.evaluation.selection import selection_quality, truth_is_known
from fedrel.experiment.assembly import Setup, stacked_platforms, workers_of
from fedrel.experiment.conclusion import Conclusion, score_finished
from fedrel.experiment.divergence import LossLimit, require_free
from fedrel.experiment.evaluators import Evaluated, evaluate
from fedrel.experiment.judged import Trusted
from fedrel.experiment.loggers import Loggers
from fedrel.experiment.on_ray import plan_of
from fedrel.experiment.reading_time import reading_watcher
from fedrel.experiment.saved import save_model
from fedrel.experiment.showcase import choices, look
from fedrel.experiment.sign_of_life import SignOfLife
from fedrel.experiment.standing import Progress, Standing
from fedrel.learning.named import Named
from fedrel.protocol import checkpoint
from fedrel.protocol.codec import Record
from fedrel.protocol.replies import trained
from fedrel.protocol.round import Ask, Replies, broadcast
from fedrel.protocol.run import Completed, run
from fedrel.protocol.summed import Summed
from fedrel.protocol.tasks import form_of, training_tasks
from fedrel.util.files import atomic_folder, write_atomic
from fedrel.util.profiling import phase

Value = TypeVar("Value", Named, float, Named | float)
BEST = "best.safetensors"
NOISE = "noise.key"  # of a simulation: the secret of its noise, until it is over


class Execution:
    """`for progress in execution.rounds(): …`, then `execution.finish()`."""

    def __init__(
        self,
        setup: Setup,
        out: Path,
        *,
        resume: bool = False,
        tick: Callable[[str], None] = lambda what: None,
        say: Callable[[str], None] = lambda line: None,
        engine: Engine | None = None,
        on_suspicion: Callable[[Suspicion], None] = lambda suspicion: None,
        watch_loss: bool = True,
    ) -> None:
        """`on_suspicion` is told of every reply that was out of line, as soon as it is there. With `watch_loss`,
        training that diverges raises DivergedError; a loss that is NaN does so in any case.
        """
        self.setup = setup
        self.out = out
        self._sign = SignOfLife(out if engine is None else None)  # a coordinator writes a status of its own
        self._loggers = Loggers(setup.experiment, say)
        self.tick = partial(self._tick, tick)
        self.saved_rounds = 0  # what a resumed run would go on from
        self.standing = Standing(data=setup.dataset.folder.name)
        half = setup.experiment.engine.transport == "half"
        ray = engine is None and setup.experiment.engine.kind == "ray"
        # Weights stay where models train, if that is this process
        self._direct = engine is None and not ray and setup.model.device.type != "cpu" and not half
        self.state: Record = setup.algorithm.start(self._at_home(setup.weights))
        self._losses: list[tuple[float, float]] = []
        self._trainers: set[str] = set()
        self._training_tasks = training_tasks(setup.algorithm)
        self._training_seconds_before = 0.0
        self._pending: list[str] = []
        self._suspicions: list[Suspicion] = []
        self._suspected: set[tuple[str, str]] = set()  # who, and of what, as far as somebody was told
        self._say, self._on_suspicion = say, on_suspicion
        setup.model.on_read = reading_watcher(self.tick, say)
        self._trusted = Trusted.of(setup)
        self._loss_limit = LossLimit(len(setup.dataset.relations)) if watch_loss else None
        self._screen = Screen(
            setup.experiment.robust, setup.algorithm, setup.sites.sizes, self._note_suspicion, self.standing.screened
        )
        self._engine: Engine = engine or (
            RayEngine(plan_of(setup))
            if ray
            else Simulator(
                setup.algorithm,
                setup.sites,
                workers=workers_of(setup.experiment),
                stacked=stacked_platforms(setup),
                say=say,
                direct=self._direct,
                half=half,
            )
        )
        self._engine.listen(self._note_upload, lambda ask, platform: self.tick(f"{ask.task} {platform}"))
        if resume:
            self._go_on()
        else:
            self._begin()
        resumed = self.standing.rounds if resume else None
        self._sign.begin(resumed)
        self._loggers.begin(out, resumed)

    # -- the folder -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        before = require_free(self.out)
        past = self.out.with_name(f".{self.out.name}.before")
        if before:
            self.out.rename(past)
        with atomic_folder(self.out) as new:  # a folder that exists can be gone on with
            if before:
                shutil.copytree(past, new, dirs_exist_ok=True)
            write_atomic(new / "experiment.toml", config.to_toml(config.to_table(self.setup.experiment)))
            for log in ("metrics.jsonl", "ledger.jsonl"):
                write_atomic(new / log, "")
            if self.setup.sites.budget and self.setup.sites.here:  # a round that is repeated needs the same noise
                (new / "checkpoint").mkdir(exist_ok=True)
                write_atomic(new / "checkpoint" / NOISE, self.setup.sites.noise_secret, private=True)
            self._save(new)
        shutil.rmtree(past, ignore_errors=True)

    def _go_on(self) -> None:
        if (self.out / "result.json").exists():
            raise UserError(f"{self.out}: this run is finished; look at it with: fedrel show {self.out}")
        saved = checkpoint.load(self.out / "checkpoint")
        if (key := self.out / "checkpoint" / NOISE).exists():
            self.setup.sites.noise_secret = key.read_bytes()
        self.state = {name: self._at_home(value) for name, value in saved.state.items()}
        self.standing = Standing(**saved.progress)  # type: ignore[arg-type]
        self._training_seconds_before = self.standing.training_seconds
        self._screen.past = self.standing.screened
        self.saved_rounds = self.standing.rounds
        if self.standing.data != self.setup.dataset.folder.name:
            raise UserError(f"{self.out}: the data has changed since this run began; start a new one")
        if self.standing.best_round:  # damage is better known now than after the last round
            checkpoint.load_weights(self.out / "checkpoint" / BEST)
        self._engine.bytes_up = self.standing.bytes_up
        self._engine.bytes_down = self.standing.bytes_down
        self._engine.remember(
            {
                name: {key: self._at_home(value) for key, value in memory.items()}
                for name, memory in saved.memories.items()
            }
        )
        # A round that was cut off is repeated: what it had already logged goes.
        for name in ("metrics.jsonl", "ledger.jsonl"):
            lines = (self.out / name).read_text(encoding="utf-8").splitlines(keepends=True)
            write_atomic(self.out / name, "".join(_up_to(lines, self.standing.rounds)))

    def _at_home(self, value: Value) -> Value:
        """Where the server computes."""
        return value.to(self.setup.model.device) if self._direct and isinstance(value, Named) else value

    def _save(self, folder: Path) -> None:
        progress = dict(vars(self.standing))
        saved = checkpoint.Checkpoint(self.state, self._engine.memories(), progress)
        checkpoint.save(folder / "checkpoint", saved)
        self.saved_rounds = self.standing.rounds

    # -- rounds -----------------------------------------------------------------------------------------------

    def rounds(self) -> Iterator[Progress]:
        setup, standing, training = self.setup, self.standing, self.setup.experiment.training
        if self._stopped():
            return
        self._pending, self._losses, self._trainers, self._suspicions = (
            [],
            [],
            set(),
            [],
        )  # of a round that came to nothing
        self._screen.forget()
        todo = range(standing.rounds, training.rounds)
        try:
            with self._sign.at_work(self._loggers.close):
                for done in run(setup.algorithm, self._exchange, setup.sampler, setup.hub, self.state, todo):
                    progress = self._close(done)
                    self._require_convergence(progress.line)
                    yield progress
                    if self._stopped():
                        return
        except UserError:
            self.close()
            raise

    def _tick(self, tell: Callable[[str], None], what: str) -> None:
        self._sign.doing(what)
        tell(what)

    def _close(self, done: Completed) -> Progress:
        """Scores the round on dev, then writes it down: first the log, then the checkpoint that makes it count. If too
        few platforms are there to score it, the round was none.
        """
        setup, standing = self.setup, self.standing
        begin = time.perf_counter()
        training_seconds = standing.training_seconds - self._training_seconds_before
        with phase("evaluate"):
            evaluated = self._evaluate("dev", setup.algorithm.model(done.state), done.number)
            metrics = evaluated.metrics()
        standing.add("dev", time.perf_counter() - begin)
        self.state = done.state
        standing.rounds = done.number + 1
        standing.participation = dict(Counter(standing.participation) + Counter(done.cohort))
        trusted = self._trusted.score(setup, setup.algorithm.model(done.state)) if self._trusted else None
        score = metrics[self.setup.experiment.training.metric] if trusted is None else trusted
        better, can_choose = score > standing.best_score, self._can_choose(metrics)
        # Of equal rounds the last, which has learnt most: one fact in dev may be on top from the second round on.
        if (better or score == standing.best_score or not can_choose) and standing.rounds > self._preparation:
            standing.improved = standing.rounds if better else standing.improved
            standing.best_round, standing.best_score = standing.rounds, max(score, standing.best_score)
            checkpoint.save_weights(self.out / "checkpoint" / BEST, setup.algorithm.model(self.state))
        sentences = sum(weight for _, weight in self._losses)
        loss = sum(loss * weight for loss, weight in self._losses) / sentences if sentences else None
        if self._loss_limit is not None:  # of platforms alone: the server's own objective may be any
            standing.high_losses = standing.high_losses + 1 if self._loss_limit.exceeded(loss) else 0
        if (server_loss := setup.algorithm.server_loss(self.state)) is not None:
            loss = server_loss
        sentences = sentences or sum(setup.sites.sizes[name] for name in self._trainers)
        if not sentences and server_loss is not None:  # the server alone trains
            sentences, training_seconds = len(setup.hub.shard), done.seconds
            standing.training_seconds += done.seconds
        read = int(sentences) * setup.experiment.training.epochs
        line: dict[str, Any] = {
            "round": standing.rounds,
            "lr": self.setup.experiment.training.lr_at(done.number),
            "loss": loss,
            "dev": metrics,
            "selection": self._selection(done),
            "cohort": done.cohort,
            "trained": int(sentences),
            "sentences_per_second": read / training_seconds if training_seconds else 0.0,
            "bytes": {
                "up": self._engine.bytes_up - standing.bytes_up,
                "down": self._engine.bytes_down - standing.bytes_down,
            },
            "seconds": done.seconds,
        }
        if trusted is not None:
            line["trusted"] = trusted
        if budget := setup.sites.budget:
            line["epsilon"] = budget.epsilon(max(standing.participation.values()))
        if "dev" in self.setup.at_home:
            line["dev_without"] = evaluated.without
        if (trace := setup.algorithm.trace(self.state)) is not None:
            line["trace"] = {name: value.tolist() for name, value in trace.items()}
        if self._suspicions:
            line["suspicions"] = [asdict(suspicion) for suspicion in self._suspicions]
        standing.bytes_up, standing.bytes_down = self._engine.bytes_up, self._engine.bytes_down
        standing.trained += read
        self._training_seconds_before = standing.training_seconds
        standing.seconds += time.perf_counter() - begin + done.seconds
        _append(self.out / "ledger.jsonl", self._pending)
        _append(self.out / "metrics.jsonl", [json.dumps(line) + "\n"])
        self._loggers.round(line)
        self._pending, self._losses, self._trainers, self._suspicions = [], [], set(), []
        self._screen.settle()
        saving = time.perf_counter()
        if standing.rounds % self.setup.experiment.engine.save_every == 0 or self._stopped():
            self._save(self.out)
        standing.add("checkpoint", time.perf_counter() - saving)
        kept = standing.best_score if can_choose else score
        self._sign.round_done(standing.rounds, standing.best_round, kept)
        return Progress(line, standing.best_round, kept, self._stopped())

    def _can_choose(self, on_dev: Mapping[str, float]) -> bool:
        """Whether the rounds' scores tell which is best. What platforms hold out is known by its scores alone."""
        if self._trusted is not None:
            return True
        return enough_to_choose(on_dev) if "dev" in self.setup.at_home else dev_can_choose(self.setup.dataset)

    def _require_convergence(self, line: dict[str, Any]) -> None:
        if self._loss_limit is not None:
            lr = self.setup.experiment.training.lr
            self._loss_limit.require(line["loss"], self.standing.high_losses, line["round"], lr)

    def _stopped(self) -> bool:
        training, standing = self.setup.experiment.training, self.standing
        if standing.rounds >= training.rounds:
            return True
        budget = self.setup.sites.budget
        if budget and not budget.allows(standing.participation, self.setup.sampler.cohort(standing.rounds)):
            return True
        since = max(standing.improved, self.setup.algorithm.unsettled(training.rounds))
        return standing.best_round > 0 and standing.rounds - since >= training.patience

    @property
    def _preparation(self) -> int:
        """Rounds that are no candidates for the result; of a run too short for more, all but the last."""
        return min(self.setup.algorithm.preparation, self.setup.experiment.training.rounds - 1)

    def _evaluate(self, split: str, weights: Named, number: int) -> Evaluated:
        self.tick(split)

        def poll(task: str) -> Replies:
            """All platforms, those that sit this round out included."""
            view = self.setup.model.hidden_view
            ask = broadcast(task, self.setup.sites, weights=weights, test=float(split == "test"), view=view)
            return self._engine(replace(ask, round=number))

        return evaluate(self.setup, split, weights, poll, when=f"round {number + 1}")

    def _selection(self, done: Completed) -> dict[str, float] | None:
        """What the platforms say they trained on, or would choose now within their bags, compared with the hidden truth
        of a synthetic world.
        """
        train, sites = self.setup.dataset.train, self.setup.sites
        selected = {name: places for name, places in self._engine.selections().items() if len(places)}
        parts = [sites.rows_in_order(name)[places.numpy()] for name, places in selected.items()]
        if parts:
            return selection_quality(train, np.concatenate(parts))
        if self.setup.model.denoiser.chooses and sites.here and truth_is_known(train):
            return selection_quality(train, choices(self.setup, self.setup.algorithm.model(done.state), done.cohort))
        return None

    def _exchange(self, ask: Ask) -> Replies:
        begin = time.perf_counter()
        replies = self._engine(ask)
        seconds = time.perf_counter() - begin
        self.standing.add(ask.task, seconds)
        if ask.task in self._training_tasks:
            self._trainers |= ask.to.keys()
            self.standing.training_seconds += seconds
        if isinstance(replies, Summed):
            self._losses += [report] if (report := replies.trained()) else []
            return replies
        with phase("aggregate"):
            replies = self._screen(ask, replies)
        form = form_of(self.setup.algorithm, ask.task)
        self._losses += [report for reply in replies.values() if (report := trained(form, reply))]
        return replies

    def _note_upload(self, upload: Upload) -> None:
        for entry in upload.fields:
            line = {
                "round": upload.round + 1,
                "platform": upload.platform,
                "task": upload.task,
                "field": entry.name,
                "shape": list(entry.shape),
                "bytes": entry.bytes,
            }
            self._pending.append(json.dumps(line) + "\n")

    def _note_suspicion(self, suspicion: Suspicion) -> None:
        self._suspicions.append(suspicion)
        self._on_suspicion(suspicion)
        if (suspicion.platform, suspicion.what) not in self._suspected:  # a line each, not one a round
            self._suspected.add((suspicion.platform, suspicion.what))
            self._say(str(suspicion))

    # -- the end ----------------------------------------------------------------------------------------------

    def finish(self) -> dict[str, Any]:
        """Tests the weights of the best dev round, once, and writes model, details and result."""
        setup, standing = self.setup, self.standing
        begin = time.perf_counter()
        self._pending = []
        best = checkpoint.load_weights(self.out / "checkpoint" / BEST)
        with phase("evaluate"):
            scored = score_finished(setup, best, lambda split: self._evaluate(split, best, standing.rounds))
        standing.add("test", time.perf_counter() - begin)
        standing.bytes_up, standing.bytes_down = self._engine.bytes_up, self._engine.bytes_down
        _append(self.out / "ledger.jsonl", self._pending)
        lines = [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        looking = time.perf_counter()
        self.tick("looking at the training sentences")
        seen = look(setup, best, self.state) if setup.sites.here else None
        standing.add("showcase", time.perf_counter() - looking)
        trusted = self._trusted.scores(setup, best) if self._trusted else None
        conclusion = Conclusion(setup, self.out, standing, scored, seen, lines, trusted)
        save_model(self.out / "model", setup, best, scored.calibration)
        write_atomic(self.out / "details.json", json.dumps(conclusion.details()), private=True)  # it quotes sentences
        standing.seconds += time.perf_counter() - begin
        result = conclusion.result()
        write_atomic(self.out / "result.json", json.dumps(result, indent=1) + "\n")
        (self.out / "checkpoint" / NOISE).unlink(missing_ok=True)  # nobody can take the noise away any more
        self._sign.finished()
        self._loggers.finish(result)
        self.close()
        return result

    def close(self) -> None:
        """Lets everybody go who worked for the run; `finish` does."""
        self._engine.close()


def _append(path: Path, lines: list[str]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def _up_to(lines: list[str], rounds: int) -> Iterator[str]:
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:  # the last line, cut off
            return
        if row["round"] <= rounds:
            yield line
