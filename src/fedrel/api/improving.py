"""Models improved by verdicts, from Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from fedrel import config
from fedrel.api.experiments import Experiment
from fedrel.api.reviewed import Reviewed
from fedrel.api.runs import Say, StrPath, nothing_said, run
from fedrel.errors import UserError
from fedrel.experiment.divergence import require_free
from fedrel.experiment.improvement import Improvement, Judged, missing_text, settings_of
from fedrel.experiment.starting import run_of
from fedrel.extraction.general import FOLDER as GENERAL
from fedrel.util.files import write_atomic

COMPARISON = "improvement.json"
_IMPROVED = re.compile(r"-improved(-[0-9]+)?$")


def improve(
    model: StrPath,
    verdicts: StrPath,
    *,
    data: StrPath | None = None,
    out: StrPath | None = None,
    changes: Mapping[str, object] | None = None,
    say: Say = nothing_said,
) -> Improvement:
    """Fine-tunes a reviewed model by the verdicts in a store of `fedrel review`, as `fedrel improve` does: `data` is
    the data set or the facts that were reviewed (None: the model's own data), `out` the new run's folder (None: beside
    the model, MODEL-improved, MODEL-improved-2 and so on), `changes` are settings by dotted key. The result says which
    of the two models to use, and why.

    Raises UserError for a model, a store or data that do not belong together.
    """
    folder = Path(out) if out is not None else beside(Path(model))
    require_free(folder)

    def train(settings: config.Experiment) -> None:
        run(Experiment(config.to_table(settings)), out=folder, say=say)

    there = None if data is None else Path(data)
    return improvement(Path(model), Path(verdicts), there, folder, changes or {}, say=say, train=train)


def improvement(
    model: Path,
    verdicts: Path,
    data: Path | None,
    folder: Path,
    changes: Mapping[str, object],
    *,
    say: Say,
    train: Callable[[config.Experiment], object],
) -> Improvement:
    """The same with a function that runs an experiment into the folder."""
    if model.exists() and model.resolve() == GENERAL.resolve():
        raise UserError(
            "the general model stays as it is: it reads the types of names, which facts do not carry; train a model "
            "of your own (fedrel label, then fedrel run), and improve that"
        )
    reviewed = Reviewed.of(data, verdicts)
    settings = Experiment(settings_of(model, verdicts, reviewed.data, changes)).settings
    if missing := missing_text(model):
        say(f"{model}: what it was trained on is not in {missing}, so it learns from the reviewed text alone")
    judged = Judged.of(settings, say, unlabelled=reviewed.unlabelled)
    if judged.objection():
        return judged.refused()
    for name in judged.without:
        say(f"left out: {name} {judged.people[name].doubt}")
    feedback = replace(judged.experiment.feedback, without=judged.without)
    train(replace(judged.experiment, feedback=feedback))
    done = judged.compare(folder)
    write_atomic(folder / COMPARISON, json.dumps(done.as_json(), indent=1) + "\n")
    return done


def beside(model: Path) -> Path:
    """The folder for what is made of a model: MODEL-improved beside it, or the first of MODEL-improved-2 and so on that
    does not exist. What is made of MODEL-improved is counted on as well.
    """
    run = run_of(model) or model
    run = run if run.name else run.absolute()
    first = run.with_name(f"{_IMPROVED.sub('', run.name)}-improved")
    names = chain([first], (first.with_name(f"{first.name}-{number}") for number in count(2)))
    return next(it for it in names if not it.exists())
