"""Models improved by verdicts, from Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fedrel import config
from fedrel.api.experiments import Experiment
from fedrel.api.runs import Say, StrPath, new_folder, nothing_said, run
from fedrel.experiment.divergence import require_free
from fedrel.experiment.improvement import Improvement, Judged, settings_of
from fedrel.util.files import write_atomic

COMPARISON = "improvement.json"


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
    the data set that was reviewed (None: the model's own), `out` the new run's folder, `changes` are settings by dotted
    key. The result says which of the two models to use, and why.

    Raises UserError for a model, a store or data that do not belong together.
    """
    folder = Path(out) if out is not None else new_folder("improved")
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
    settings = Experiment(settings_of(model, verdicts, data, changes)).settings
    judged = Judged.of(settings, say)
    if judged.objection():
        return judged.refused()
    for name in judged.without:
        say(f"left out: {name} {judged.people[name].doubt}")
    feedback = replace(judged.experiment.feedback, without=judged.without)
    train(replace(judged.experiment, feedback=feedback))
    done = judged.compare(folder)
    write_atomic(folder / COMPARISON, json.dumps(done.as_json(), indent=1) + "\n")
    return done
