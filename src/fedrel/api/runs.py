"""Runs from Python: started, watched round by round, resumed, and read again when they are finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrel import config
from fedrel.api.experiments import Experiment
from fedrel.api.frames import to_frame
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.divergence import begin_again, require_free
from fedrel.experiment.execution import Execution
from fedrel.experiment.results import experiment_of, read_json, read_result, read_rounds
from fedrel.experiment.starting import settings_from
from fedrel.extraction.extract import RelationExtractor
from fedrel.extraction.loading import load
from fedrel.report.page import write_report

if TYPE_CHECKING:
    import pandas as pd

Say = Callable[[str], None]
StrPath = str | PathLike[str]


def nothing_said(line: str) -> None:
    """Where nobody wants to know what takes long."""


@dataclass(frozen=True)
class Round:
    """One finished round of training."""

    number: int  # from 1
    scores: Mapping[str, float]  # on dev
    loss: float | None  # mean over the sentences trained on; None: nobody trained
    lr: float
    platforms: tuple[str, ...]  # that took part
    sentences: int  # trained on
    selection: Mapping[str, float] | None  # of what the method selected, how much is right, where the truth is known
    bytes_up: int  # from the platforms to the server
    bytes_down: int
    seconds: float

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Round:
        """The round in a line of metrics.jsonl."""
        return cls(
            number=line["round"],
            scores=line["dev"],
            loss=line["loss"],
            lr=line["lr"],
            platforms=tuple(line["cohort"]),
            sentences=line["trained"],
            selection=line["selection"],
            bytes_up=line["bytes"]["up"],
            bytes_down=line["bytes"]["down"],
            seconds=line["seconds"],
        )

    def _row(self) -> dict[str, object]:
        plain = {name: value for name, value in vars(self).items() if name not in ("scores", "platforms", "selection")}
        selection = {f"selection_{name}": value for name, value in (self.selection or {}).items()}
        return {**plain, **{f"dev_{name}": value for name, value in self.scores.items()}, **selection}


@dataclass(frozen=True)
class Curve:
    """Precision and recall of the test facts, from the surest on, and what the curve is drawn with: `precision[i]` and
    `recall[i]` belong to one point.
    """

    precision: tuple[float, ...]
    recall: tuple[float, ...]

    def to_pandas(self) -> pd.DataFrame:
        """A line a point, with the columns recall and precision."""
        points = zip(self.recall, self.precision, strict=True)
        return to_frame([{"recall": recall, "precision": precision} for recall, precision in points])


class Run:
    """A finished run, by its folder: `Run("runs/…")`. Raises UserError if it is not finished, or there is none."""

    def __init__(self, folder: StrPath) -> None:
        self.folder = Path(folder)
        self.result: dict[str, Any] = read_result(self.folder)  # all of result.json

    def __repr__(self) -> str:
        metric = self.result["metric"]
        return f"Run({str(self.folder)!r}, {self.result['method']}, test {metric} {self.scores[metric]:.3f})"

    @property
    def scores(self) -> Mapping[str, float]:
        """Of the best round's model on the test split, by metric: `run.scores["ap"]`."""
        scores: dict[str, float] = self.result["test"]
        return scores

    @property
    def dev_scores(self) -> Mapping[str, float]:
        """Of the same model on dev, by which the round was chosen."""
        scores: dict[str, float] = self.result["dev"]
        return scores

    @property
    def best_round(self) -> int:
        """The round whose model was tested and saved."""
        return int(self.result["best_round"])

    @cached_property
    def curve(self) -> Curve:
        """The precision-recall curve on test. Raises UserError for a run on gold labels, which ranks no facts."""
        details = read_json(self.folder / "details.json", ())
        if "pr" not in details:
            raise UserError(f"{self.folder}: a run on gold labels has no precision-recall curve; look at run.scores")
        return Curve(tuple(details["pr"]["precision"]), tuple(details["pr"]["recall"]))

    @cached_property
    def rounds(self) -> list[Round]:
        """Every round, in order."""
        return [Round.of(line) for line in read_rounds(self.folder)]

    @cached_property
    def experiment(self) -> Experiment:
        """What was run, every value written."""
        return Experiment.load(self.folder / "experiment.toml")

    @cached_property
    def model(self) -> RelationExtractor:
        """The trained model; the same as `fedrel.load(run.folder)`."""
        return load(self.folder)

    @property
    def report(self) -> Path:
        """The page to open in a browser."""
        return self.folder / "report.html"

    def to_pandas(self) -> pd.DataFrame:
        """A line a round: loss, learning rate, dev scores, sentences, bytes, seconds."""
        return to_frame([it._row() for it in self.rounds])


class Rounds:
    """The rounds of a run, each as soon as it has ended: `for done in fedrel.rounds(experiment): …`. After the last,
    the model is tested and saved, and `run` is the finished run. A run that diverges begins again from round 1 with a
    smaller learning rate, as often as training.restarts allows. Leaving the loop leaves a folder that
    `rounds(resume=folder)` goes on with.
    """

    def __init__(self, settings: config.Experiment, folder: Path, *, resume: bool, say: Say) -> None:
        self.folder = folder
        self._settings, self._resume, self._say = settings, resume, say
        self._begun = False

    def __iter__(self) -> Iterator[Round]:
        if self._begun:
            raise UserError(f"{self.folder}: this run has begun; go on with fedrel.rounds(resume={str(self.folder)!r})")
        self._begun = True
        settings, resume = self._settings, self._resume
        while True:
            try:
                yield from self._rounds(settings, resume)
                return
            except DivergedError as error:
                settings, resume = begin_again(settings, self.folder, error), False
                self._say(f"{error}; beginning again with training.lr={settings.training.lr:g}")

    def _rounds(self, settings: config.Experiment, resume: bool) -> Iterator[Round]:
        execution = Execution(prepare(settings, say=self._say), self.folder, resume=resume, say=self._say)
        try:
            for done in execution.rounds():
                yield Round.of(done.line)
            execution.finish()
        finally:
            execution.close()
        write_report(self.folder)

    @property
    def run(self) -> Run:
        """The finished run. Raises UserError before the last round has ended."""
        return Run(self.folder)


def rounds(
    experiment: Experiment | StrPath | None = None,
    *,
    start: StrPath | None = None,
    out: StrPath | None = None,
    resume: StrPath | None = None,
    say: Say = nothing_said,
) -> Rounds:
    """The rounds of a run of this experiment (or of the one in this file; none: the built-in demo), to iterate over.
    With `start` it goes on from the model of a finished run, and what the experiment leaves open is as in that run. Its
    folder is `out`, or a new one in runs/. `resume` is the folder of an interrupted run, which goes on bit for bit.
    `say` is told in sentences what takes long and what is odd: `say=print`.

    Raises UserError for settings that do not fit each other or the data, and for a folder that is not empty.
    """
    if resume is not None:
        if (experiment, start, out) != (None, None, None):
            raise UserError("resume goes on with the folder's own experiment; leave out the experiment, start and out")
        return Rounds(experiment_of(Path(resume)), Path(resume), resume=True, say=say)
    asked = as_experiment(experiment)
    if start is not None:
        asked = Experiment(settings_from(Path(start), asked.written))
    settings = asked.settings
    folder = Path(out) if out is not None else new_folder(str(settings.method["name"]))
    require_free(folder)
    return Rounds(settings, folder, resume=False, say=say)


def run(
    experiment: Experiment | StrPath | None = None,
    *,
    start: StrPath | None = None,
    out: StrPath | None = None,
    resume: StrPath | None = None,
    say: Say = nothing_said,
) -> Run:
    """Trains, tests and saves one model, as `fedrel run` does, and returns the finished run. Arguments are those of
    `fedrel.rounds`, which yields every round as it ends.
    """
    asked = rounds(experiment, start=start, out=out, resume=resume, say=say)
    for _ in asked:
        pass
    return asked.run


def as_experiment(experiment: Experiment | StrPath | None) -> Experiment:
    """The experiment itself, or the one in a file; none: the built-in demo."""
    if experiment is None:
        return Experiment()
    return experiment if isinstance(experiment, Experiment) else Experiment.load(experiment)


def new_folder(name: str) -> Path:
    """A folder in runs/ that does not exist yet."""
    wanted = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = chain([wanted], (f"{wanted}-{number}" for number in count(2)))
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())
