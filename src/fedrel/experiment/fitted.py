"""What an experiment leaves to the data: the learning rate, and whether names are hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedrel.config import Experiment
from fedrel.data.partition import Division
from fedrel.data.store import Dataset
from fedrel.experiment.rates import typical_sentences, with_rate

_ENOUGH = 0.1  # of train's sentences without a relation, for names to be hidden


def fitted(
    experiment: Experiment,
    dataset: Dataset | None = None,
    division: Division | None = None,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Experiment:
    """The experiment with what it leaves open filled in. Without a division nobody knows how much platforms hold, and
    without a data set not what, as in a federation.
    """
    experiment = _with_names(experiment, dataset, say)
    if division is None:
        return with_rate(experiment, say=say)
    return with_rate(experiment, typical_sentences(division), platforms=len(division.platforms), say=say)


def _with_names(experiment: Experiment, dataset: Dataset | None, say: Callable[[str], None]) -> Experiment:
    """Hidden names keep a model from learning by heart which pairs have a relation. Where hardly a sentence is without
    one, all that it can learn is which relation, and names help with that.
    """
    extractor = experiment.extractor
    if not extractor.hide_auto:
        return experiment
    if dataset is not None and len(dataset.train):
        without = float(np.mean(np.asarray(dataset.train.labels) == 0)) if dataset.has_na else 0.0
        if without < _ENOUGH:
            say(f"names are shown in training: {without:.0%} of its sentences have no relation; see docs/methods.md")
            extractor = replace(extractor, hide_names=0.0)
    return replace(experiment, extractor=replace(extractor, hide_auto=False))
