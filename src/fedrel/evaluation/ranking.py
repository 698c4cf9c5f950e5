"""A ranking of candidates in which some share a place: candidates of equal score, or of one bin of a histogram.

The order of those is unknown, so a metric is its mean over all orders: no candidate gains by standing first in a file.

Three areas under the precision-recall curve are in use in this field, each under its own name here: `auc` (trapezoid
over the whole curve), `auc_2000` (trapezoid over the first 2,000 predictions, which the tables of distant supervision
papers report) and `ap` (average precision).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

METRICS = ("auc", "auc_2000", "ap", "p@100", "p@200", "p@300", "p@mean", "max_f1")
_TOPS = (100, 200, 300)
_COUNTS = ("ties", "facts")  # beside the metrics


@dataclass(frozen=True)
class Ranking:
    """Groups of candidates, the highest score first. Sums over the positions in a group are closed forms, so that their
    cost does not depend on how many candidates a group claims to have.

    If a group holds n candidates, r of them right, and k predictions with c right ones precede it, its j-th candidate
    is right with probability r/n, and given that, c + (j-1)(r-1)/(n-1) right ones are expected before it.
    """

    size: Floats  # (G,) n
    right: Floats  # (G,) r

    @classmethod
    def of(cls, scores: npt.NDArray[np.floating], right: Bools) -> Ranking:
        """Candidates by their `scores` (N,); `right` (N,) says which of them are facts."""
        order = np.argsort(-scores, kind="stable")
        ordered = scores[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.int64)
        size = np.diff(np.r_[starts, len(ordered)])
        facts = np.add.reduceat(right[order].astype(np.float64), starts) if len(starts) else np.zeros(0)
        return cls(size.astype(np.float64), facts)

    @property
    def total(self) -> int:
        """The number of candidates."""
        return int(self.size.sum())

    @property
    def facts(self) -> int:
        """The number of candidates that are facts."""
        return int(self.right.sum())

    @property
    def ties(self) -> int:
        """How many candidates share their place with one that is right where they are wrong, or the reverse: the order
        of these decides a metric.
        """
        return int(self.size[(self.right > 0) & (self.right < self.size)].sum())

    @property
    def precision(self) -> Floats:
        """(G,) precision after each group."""
        return np.cumsum(self.right) / np.cumsum(self.size)

    @property
    def recall(self) -> Floats:
        """(G,) recall after each group."""
        return np.cumsum(self.right) / max(self.facts, 1)

    def metrics(self) -> dict[str, float]:
        """The metrics named in METRICS, and the numbers of `ties` and of `facts`. P@N of fewer than N candidates does
        not exist and is left out; `p@mean` is the mean of those that do.
        """
        facts, ends, found = max(self.facts, 1), np.cumsum(self.size), np.cumsum(self.right)
        reached = np.interp(_TOPS, np.r_[0, ends], np.r_[0, found])
        at = {f"p@{n}": float(hits / n) for n, hits in zip(_TOPS, reached, strict=True) if n <= self.total}
        if at:
            at["p@mean"] = float(np.mean(list(at.values())))
        return {
            "auc": self._area(self.total) / facts,
            "auc_2000": self._area(2000) / facts,
            "ap": self._precision_sum() / facts,
            **at,
            "max_f1": float((2 * found / (ends + facts)).max(initial=0.0)),  # highest at the end of a group
            "ties": self.ties,
            "facts": self.facts,
        }

    def curve(self, points: int = 400) -> dict[str, list[float]]:
        """The precision-recall curve at the ends of groups, thinned to about `points` points of the exact curve."""
        hits = np.flatnonzero(self.right)  # precision peaks where a fact is found
        if not len(self.size):
            return {"precision": [], "recall": []}
        kept = np.unique(np.r_[0, hits[np.linspace(0, len(hits) - 1, min(points, len(hits))).astype(int)]])
        return {
            "precision": self.precision[kept].round(5).tolist(),
            "recall": self.recall[kept].round(5).tolist(),
        }

    def _precision_sum(self) -> float:
        """The expected sum of the precision at every fact."""
        return float((self._chance * self._at_facts(self.size)).sum())

    def _area(self, most: int) -> float:
        """The expected area under the precision curve of the first `most` predictions by the trapezoidal rule, where
        every fact has width 1.
        """
        taken = np.clip(most - self._before, 0, self.size)
        first = np.where((self._before == 0) & (taken > 0), 1.0, 0.0)  # the curve starts at the first prediction
        sides = self._at_facts(taken) - first + self._before_facts(taken)
        return float((self._chance * sides).sum() / 2)

    @property
    def _before(self) -> Floats:
        """(G,) k, the predictions before each group."""
        return np.cumsum(self.size) - self.size

    @property
    def _found(self) -> Floats:
        """(G,) c, the facts before each group."""
        return np.cumsum(self.right) - self.right

    @property
    def _chance(self) -> Floats:
        return self.right / self.size

    @property
    def _gain(self) -> Floats:
        """(r-1)/(n-1): the right candidates expected per position of the group before a right one."""
        return np.maximum(self.right - 1, 0) / np.maximum(self.size - 1, 1)

    def _at_facts(self, taken: Floats) -> Floats:
        """Σ (c + (j-1)g + 1) / (k + j) for j = 1 … taken."""
        gain, before = self._gain, self._before
        return gain * taken + (self._found + 1 - gain - gain * before) * _harmonic_between(before, taken)

    def _before_facts(self, taken: Floats) -> Floats:
        """Σ (c + (j-1)g) / (k + j - 1) for j = 1 … taken; 0 for the very first prediction, which nothing precedes."""
        gain, before, found, more = self._gain, self._before, self._found, np.maximum(taken - 1, 0)
        first = np.divide(found, before, out=np.zeros_like(found), where=before > 0)
        rest = gain * more + (found - gain * before) * _harmonic_between(before, more)
        return np.where(taken > 0, first + rest, 0.0)


def worth_showing(metrics: Mapping[str, float]) -> list[str]:
    """The names of those metrics that say something of a model, in their order: no counts, and P@N only where there are
    N facts, since with fewer even a perfect ranking has a low one.
    """
    facts = metrics.get("facts", np.inf)  # unknown for a run of an earlier version
    beyond = {f"p@{n}" for n in _TOPS if n > facts and f"p@{n}" in metrics}
    return [name for name in metrics if name not in (*_COUNTS, *beyond, *(["p@mean"] if beyond else []))]


def _harmonic_between(before: Floats, count: Floats) -> Floats:
    """1/(before+1) + … + 1/(before+count); of a single term exactly, where a difference of sums would lose digits."""
    return np.where(count == 1, 1 / (before + 1), _harmonic(before + count) - _harmonic(before))


_KNOWN = np.r_[0.0, np.cumsum(1 / np.arange(1, 65))]


def _harmonic(n: Floats) -> Floats:
    """1 + 1/2 + … + 1/n; for n > 64 by the Euler-Maclaurin formula, to 14 digits."""
    x = np.maximum(n, len(_KNOWN) - 1)
    far = np.log(x) + np.euler_gamma + 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4)
    return np.where(n < len(_KNOWN), _KNOWN[np.minimum(n, len(_KNOWN) - 1).astype(int)], far)
