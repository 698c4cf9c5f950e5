"""Federated evaluation: each platform counts on the sentences it holds out, and the counts of all are summed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from fedrel.data.store import Ints, Split
from fedrel.encoding.shard import Shard
from fedrel.evaluation import classification
from fedrel.evaluation.calibration import candidates
from fedrel.evaluation.classification import Counts
from fedrel.evaluation.heldout import truth_table
from fedrel.evaluation.histograms import BINS, Histogram
from fedrel.evaluation.task import Evaluation
from fedrel.learning.model import Model
from fedrel.learning.named import Named

SIZES = {"bins": BINS}  # the named sizes in the schemas of such replies


class Pack(Protocol):
    """Encodes rows of a split for the model; `starts` (bags+1,) are the bounds of their bags."""

    def __call__(self, split: Split, rows: Ints, starts: Ints) -> Shard: ...


@dataclass(frozen=True)
class LocalEvaluation:
    """Evaluates models on rows of a split that one platform holds out (a `fedrel.protocol.round.Exam`). Every method
    returns counts alone. A pair that two platforms hold is evaluated on each, with the sentences there.
    """

    evaluation: Evaluation
    split: Split
    rows: Ints
    pack: Pack
    na: bool

    def ranking(self, model: Model, weights: Named) -> Named:
        """The packed histogram of the scores of all (pair, relation) but NA, by whether they are facts."""
        scores = self._scores(model, weights)
        truth = truth_table(scores.shape, self.evaluation.truth(self.split, self.rows))
        return packed(Histogram.of(scores[:, 1:].reshape(-1), truth[:, 1:].reshape(-1)))

    def confusion(self, model: Model, weights: Named) -> Named:
        """The confusion matrix of the sentences: `counts` (R, R) by label and prediction."""
        labels = np.asarray(self.split.labels[self.rows]).astype(np.int64)
        return Named(counts=torch.from_numpy(classification.count(self._scores(model, weights), labels)))

    def confidence(self, model: Model, weights: Named) -> Named:
        """The packed histogram of the scores of the best relation of each bag, by whether it is a fact."""
        truth = self.evaluation.truth(self.split, self.rows)
        return packed(Histogram.of(*candidates(self._scores(model, weights), truth, na=self.na)))

    @cached_property
    def _shard(self) -> Shard:
        return self.pack(self.split, *self.evaluation.bags(self.split, self.rows))

    def _scores(self, model: Model, weights: Named) -> npt.NDArray[np.floating]:
        model.load(weights, self._shard)
        return model.score_bags(self._shard).numpy()


def packed(histogram: Histogram) -> Named:
    """A histogram as sparse int32 arrays of one length: `bin`, the numbers of its non-empty bins, and the counts
    `right` and `wrong` in them.
    """
    held = np.flatnonzero(histogram.right + histogram.wrong)
    parts = {"bin": held, "right": histogram.right[held], "wrong": histogram.wrong[held]}
    return Named({name: torch.from_numpy(part.astype(np.int32)) for name, part in parts.items()})


def pooled(parts: Iterable[Named]) -> Histogram:
    """The sum of packed histograms."""
    right, wrong = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
    for part in parts:
        right[part["bin"].numpy()] += part["right"].numpy()
        wrong[part["bin"].numpy()] += part["wrong"].numpy()
    return Histogram(right, wrong)


def pooled_confusion(parts: Iterable[Named], classes: int) -> Counts:
    """(R, R) the sum of confusion matrices."""
    return sum((part["counts"].numpy() for part in parts), np.zeros((classes, classes), np.int64))
