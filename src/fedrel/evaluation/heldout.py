"""Held-out evaluation: ranks every (pair, relation) by score and compares the ranking with the facts of the split.

Three areas under the precision-recall curve are in use in this field, each under its own name here: `auc` (trapezoid
over the whole curve), `auc_2000` (trapezoid over the first 2,000 predictions, which the tables of distant supervision
papers report) and `ap` (average precision).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints

Floats = npt.NDArray[np.float64]

METRICS = ("auc", "auc_2000", "ap", "p@100", "p@200", "p@300", "p@mean", "max_f1")


@dataclass(frozen=True)
class Ranking:
    """N predictions in order of decreasing score."""

    correct: npt.NDArray[np.bool_]  # (N,)
    facts: int  # to be found

    @property
    def precision(self) -> Floats:
        """(N,) precision after each prediction."""
        return np.cumsum(self.correct) / np.arange(1, len(self.correct) + 1)

    @property
    def recall(self) -> Floats:
        """(N,) recall after each prediction."""
        return np.cumsum(self.correct) / max(self.facts, 1)

    def metrics(self) -> dict[str, float]:
        """The metrics named in METRICS."""
        precision, recall = self.precision, self.recall
        at = {f"p@{n}": precision_at(self.correct, n) for n in (100, 200, 300)}
        balance = precision + recall
        f1 = np.divide(2 * precision * recall, balance, out=np.zeros_like(balance), where=balance > 0)
        return {
            "auc": area(precision, recall),
            "auc_2000": area(precision[:2000], recall[:2000]),
            "ap": float((precision * self.correct).sum() / max(self.facts, 1)),
            **at,
            "p@mean": float(np.mean(list(at.values()))),
            "max_f1": float(f1.max(initial=0.0)),
        }


def rank(scores: npt.NDArray[np.floating], facts: Ints) -> Ranking:
    """Ranks every pair and relation other than NA. `scores` (P, R), relation 0 being NA; `facts` (F, 2) the true (pair,
    relation). Equal scores keep the order (pair, relation), so that results are reproducible.
    """
    pairs, relations = scores.shape
    truth = np.zeros((pairs, relations), dtype=bool)
    truth[facts[:, 0], facts[:, 1]] = True
    order = np.argsort(-scores[:, 1:].reshape(-1), kind="stable")
    return Ranking(correct=truth[:, 1:].reshape(-1)[order], facts=len(facts))


def precision_at(correct: npt.NDArray[np.bool_], n: int) -> float:
    """Precision of the first n predictions, or of all if there are fewer; `correct` (N,)."""
    return float(correct[:n].mean()) if len(correct) else 0.0


def area(precision: Floats, recall: Floats) -> float:
    """The area under a precision-recall curve, (N,) each, from its first point to its last, by the trapezoidal rule."""
    return float(np.trapezoid(precision, recall)) if len(precision) else 0.0


def by_relation(scores: npt.NDArray[np.floating], facts: Ints, relations: list[str]) -> list[dict[str, float | str]]:
    """The average precision and number of facts of every relation, best first; relations without a fact are left out.
    `scores` (P, R) and `facts` (F, 2) are those of `rank`.
    """
    rows: list[dict[str, float | str]] = []
    for number, name in enumerate(relations[1:], 1):
        mine = facts[facts[:, 1] == number]
        if len(mine):
            alone = rank(scores[:, [0, number]], np.stack([mine[:, 0], np.ones(len(mine), int)], axis=1))
            rows.append({"relation": name, "ap": alone.metrics()["ap"], "facts": len(mine)})
    return sorted(rows, key=lambda row: -float(row["ap"]))


def curve(ranking: Ranking, points: int = 400) -> dict[str, list[float]]:
    """The precision-recall curve, thinned to about `points` points of the exact curve."""
    if not len(ranking.correct):
        return {"precision": [], "recall": []}
    hits = np.flatnonzero(ranking.correct)  # precision peaks where a fact is found
    kept = np.unique(
        np.r_[0, hits[np.linspace(0, len(hits) - 1, min(points, len(hits))).astype(int)]] if len(hits) else [0]
    )
    return {
        "precision": ranking.precision[kept].round(5).tolist(),
        "recall": ranking.recall[kept].round(5).tolist(),
    }
