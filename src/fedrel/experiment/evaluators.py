"""Evaluates a model on dev or test: here, where the split is in this process; otherwise on the platforms, which hold it
out and send counts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints, Split
from fedrel.errors import DivergedError, UserError
from fedrel.evaluation.calibration import Bools, Calibration, Floats, candidates
from fedrel.evaluation.classification import Counts, metrics_of
from fedrel.evaluation.context import (
    Interval,
    ap_interval,
    classification_interval,
    constant_ranking,
    trivial_labels,
    trivial_rankings,
)
from fedrel.evaluation.cut import best_cut, counts_by_relation, with_counts
from fedrel.evaluation.federated import pooled, pooled_confusion
from fedrel.evaluation.heldout import by_relation
from fedrel.evaluation.histograms import Histogram, bin_centres
from fedrel.evaluation.task import Classification
from fedrel.experiment.assembly import Setup
from fedrel.experiment.mistakes import mistakes
from fedrel.experiment.sampled_na import na_weight
from fedrel.learning.named import Named
from fedrel.protocol.records import named_in
from fedrel.protocol.round import Replies

Poll = Callable[[str], Replies]  # asks all platforms to do this task with the weights and the split in question


@dataclass(frozen=True)
class Guesses:
    """The most likely relation of every pair or sentence of a split, G entries. Equal ones may share an entry."""

    scores: Floats  # (G,)
    right: Bools  # (G,)
    times: Ints  # (G,) how many an entry stands for


class Evaluated(Protocol):
    """Some weights, evaluated on a split."""

    @property
    def without(self) -> list[str]:
        """Platforms that did not answer."""

    def metrics(self) -> dict[str, float]: ...

    def details(self) -> dict[str, Any]: ...

    def guesses(self) -> Guesses: ...

    def interval(self) -> Interval | None:
        """Of the run's metric, 95 %; None: not known."""

    def trivial(self) -> dict[str, float]:
        """The run's metric, for answers that need no model."""

    def cut(self) -> float | None:
        """The score from which on predictions of facts have the best F1; None: not known, or labels are gold."""

    def predictions(self, cut: float | None) -> dict[str, Any]:
        """Of `details`: `relations` with precision and recall where the ranking is cut there, if that is known."""

    def mistakes(self, calibration: Calibration, cut: float | None) -> dict[str, Any] | None:
        """What is wrong, with sentences; None: they are not in this process alone."""


def evaluate(setup: Setup, split: str, weights: Named, poll: Poll, *, when: str) -> Evaluated:
    """Reads the split if it is in this process, and asks the platforms otherwise."""
    if split not in setup.at_home:
        return _Here(setup, getattr(setup.dataset, split), _scores(setup, split, weights, when))
    if isinstance(setup.evaluation, Classification):
        return _Classified(setup, split, poll)
    return _Ranked(setup, split, poll)


def _scores(setup: Setup, split: str, weights: Named, when: str) -> npt.NDArray[np.floating]:
    shard = setup.dev if split == "dev" else setup.shard_of(setup.dataset.test)
    setup.model.load(weights, shard)
    scores: npt.NDArray[np.floating] = setup.model.score_bags(shard).numpy()
    if not np.isfinite(scores).all():
        raise DivergedError(f"{when}: the model's scores are not numbers any more; lower training.lr")
    return scores


@dataclass(frozen=True)
class _Here:
    setup: Setup
    split: Split
    scores: npt.NDArray[np.floating]

    @property
    def without(self) -> list[str]:
        return []

    def metrics(self) -> dict[str, float]:
        return self.setup.evaluation.metrics(self.scores, self.split)

    def details(self) -> dict[str, Any]:
        return self.setup.evaluation.details(self.scores, self.split)

    def guesses(self) -> Guesses:
        truth = self.setup.evaluation.truth(self.split)
        scores, right = candidates(self.scores, truth, na=self.setup.dataset.has_na)
        times = np.full(len(scores), round(na_weight(self.setup.experiment.data)), np.int64)
        times[truth[:, 0]] = 1  # pairs with a fact were all kept
        return Guesses(scores, right, times)

    @property
    def _metric(self) -> str:
        return self.setup.experiment.training.metric

    def interval(self) -> Interval | None:
        if isinstance(self.setup.evaluation, Classification):
            return classification_interval(self._metric, self.scores, self._labels, na=self.setup.dataset.has_na)
        return ap_interval(self.scores, self.split.facts) if self._metric == "ap" else None

    def trivial(self) -> dict[str, float]:
        dataset = self.setup.dataset
        known = np.asarray(dataset.train.labels).astype(np.int64)
        if isinstance(self.setup.evaluation, Classification):
            classes = len(dataset.relations)
            return trivial_labels(self._metric, self._labels, known, classes, na=dataset.has_na) if len(known) else {}
        return trivial_rankings(self._metric, self.scores.shape, self.split.facts, known)

    def cut(self) -> float | None:
        if isinstance(self.setup.evaluation, Classification):
            return None
        return best_cut(self.scores, self.split.facts)

    def predictions(self, cut: float | None) -> dict[str, Any]:
        if cut is None:
            return {}
        relations = self.setup.dataset.relations
        counts = counts_by_relation(self.scores, self.split.facts, relations, cut)
        return {"relations": with_counts(by_relation(self.scores, self.split.facts, relations), counts), "cut": cut}

    def mistakes(self, calibration: Calibration, cut: float | None) -> dict[str, Any] | None:
        """Of test, where the text of all platforms is in this process: a coordinator's report quotes nothing."""
        return mistakes(self.setup, self.scores, calibration, cut) if self.setup.sites.here else None

    @property
    def _labels(self) -> Ints:
        return np.asarray(self.split.labels).astype(np.int64)


@dataclass(frozen=True)
class _OnPlatforms:
    """Evaluated by the platforms, which are asked when an answer is needed."""

    setup: Setup
    split: str
    poll: Poll
    task: ClassVar[str]

    @cached_property
    def replies(self) -> Replies:
        return self.poll(self.task)

    @property
    def without(self) -> list[str]:
        return [name for name in self.setup.sites if name not in self.replies]

    def guesses(self) -> Guesses:
        """From counts: a score is the middle of its bin."""
        replies = self.poll("calibrate").values()
        found, scores = pooled(named_in(reply, "confidence") for reply in replies), bin_centres()
        places = [np.flatnonzero(counts) for counts in (found.right, found.wrong)]
        right = np.repeat([True, False], [len(held) for held in places])
        times = np.concatenate([found.right[places[0]], found.wrong[places[1]]])
        return Guesses(scores[np.concatenate(places)], right, times)

    def interval(self) -> Interval | None:
        """None: counts do not say which candidates belong together."""
        return None

    def trivial(self) -> dict[str, float]:
        return {}

    def cut(self) -> float | None:
        return None

    def predictions(self, cut: float | None) -> dict[str, Any]:
        """Nothing: no platform says which relation a score is of."""
        return {}

    def mistakes(self, calibration: Calibration, cut: float | None) -> dict[str, Any] | None:
        return None

    def _require(self, something: int) -> None:
        if not something and not self.without:
            raise UserError(
                f"no platform holds out anything for {self.split} that has a relation; give the coordinator a "
                f"{self.split} file, or the platforms files of their own"
            )


class _Ranked(_OnPlatforms):
    task = "rank"

    @cached_property
    def histogram(self) -> Histogram:
        found = pooled(named_in(reply, "ranking") for reply in self.replies.values())
        self._require(found.facts)
        return found

    def metrics(self) -> dict[str, float]:
        return self.histogram.ranking.metrics()

    def details(self) -> dict[str, Any]:
        """Without scores by relation: no platform says which relation a score is of."""
        return {"pr": self.histogram.ranking.curve(), "relations": []}

    def trivial(self) -> dict[str, float]:
        return constant_ranking(self.setup.experiment.training.metric, self.histogram.ranking)


class _Classified(_OnPlatforms):
    task = "classify"

    @cached_property
    def counts(self) -> Counts:
        parts = (named_in(reply, "confusion") for reply in self.replies.values())
        found = pooled_confusion(parts, len(self.setup.dataset.relations))
        self._require(int(found.sum()))
        return found

    def metrics(self) -> dict[str, float]:
        return metrics_of(self.counts, na=self.setup.dataset.has_na)

    def details(self) -> dict[str, Any]:
        assert isinstance(self.setup.evaluation, Classification)
        return self.setup.evaluation.counted(self.counts)
