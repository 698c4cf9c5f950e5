"""The evaluation task of a run: ranking the facts of entity pairs, or predicting one gold label per sentence.

The metric that chooses the best round (`training.metric`) decides which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Dataset, Ints, Split, pair_bags, pair_facts, sentence_bags
from fedrel.errors import UserError, suggest
from fedrel.evaluation import classification, heldout, ranking

Scores = npt.NDArray[np.floating]
METRICS = (*ranking.METRICS, *classification.METRICS)


class Evaluation(Protocol):
    """How models are evaluated on a split. A bag is the unit that gets one prediction: a pair or a sentence."""

    def bags(self, split: Split, rows: Ints | None = None) -> tuple[Ints, Ints]:
        """All rows, or these, in bag order, and the bounds of the bags, (bags+1,)."""

    def truth(self, split: Split, rows: Ints | None = None) -> Ints:
        """(F, 2) the true (bag, relation), NA left out."""

    def metrics(self, scores: Scores, split: Split) -> dict[str, float]:
        """Every metric of the task by name, from `scores` (bags, R) on a whole split."""

    def details(self, scores: Scores, split: Split) -> dict[str, Any]:
        """What result.json holds beside the metrics, from `scores` (bags, R) on a whole split."""


@dataclass(frozen=True)
class HeldOut:
    """Ranks facts: one bag per entity pair."""

    relations: list[str]

    def bags(self, split: Split, rows: Ints | None = None) -> tuple[Ints, Ints]:
        return pair_bags(split, rows)

    def truth(self, split: Split, rows: Ints | None = None) -> Ints:
        return split.facts if rows is None else pair_facts(split, rows)

    def metrics(self, scores: Scores, split: Split) -> dict[str, float]:
        return heldout.rank(scores, split.facts).metrics()

    def details(self, scores: Scores, split: Split) -> dict[str, Any]:
        return {
            "pr": heldout.rank(scores, split.facts).curve(),
            "relations": heldout.by_relation(scores, split.facts, self.relations),
        }


@dataclass(frozen=True)
class Classification:
    """Predicts one gold label per sentence: one bag per sentence."""

    relations: list[str]
    na: bool  # whether the first relation is NA

    def bags(self, split: Split, rows: Ints | None = None) -> tuple[Ints, Ints]:
        return sentence_bags(split, rows)

    def truth(self, split: Split, rows: Ints | None = None) -> Ints:
        labels = np.asarray(split.labels if rows is None else split.labels[rows]).astype(np.int64)
        return np.stack([np.arange(len(labels)), labels], axis=1)[labels >= int(self.na)]

    def metrics(self, scores: Scores, split: Split) -> dict[str, float]:
        return classification.metrics(scores, np.asarray(split.labels).astype(np.int64), na=self.na)

    def details(self, scores: Scores, split: Split) -> dict[str, Any]:
        labels = np.asarray(split.labels).astype(np.int64)
        return {
            **self.counted(classification.count(scores, labels)),
            # by item, for paired tests between runs
            "right": "".join("1" if right else "0" for right in scores.argmax(axis=1) == labels),
        }

    def counted(self, counts: classification.Counts) -> dict[str, Any]:
        """The part of `details` that follows from the confusion matrix `counts` (R, R)."""
        return {
            "classes": classification.by_class(counts, self.relations, na=self.na),
            "confusion": {"relations": self.relations, "counts": counts.tolist()},
        }


def require_metric(name: str) -> None:
    """Raises UserError for an unknown metric."""
    if name not in METRICS:
        raise UserError(f'training.metric = "{name}" is not a metric{suggest(name, METRICS)}')


def evaluation_of(metric: str, dataset: Dataset) -> Evaluation:
    """The task that a metric belongs to. Raises UserError for an unknown metric, and for one that ranks facts if the
    data set has none to rank.
    """
    require_metric(metric)
    if metric in classification.METRICS:
        return Classification(dataset.relations, dataset.has_na)
    if not dataset.has_na or not dataset.has_pairs:
        what = "pairs without a relation" if dataset.has_pairs else "pairs of entities"
        raise UserError(
            f'training.metric = "{metric}" ranks facts, and this data has no {what}; set training.metric = "micro_f1"'
        )
    return HeldOut(dataset.relations)
