"""Histograms of scores: what platforms report about the candidate facts they hold out, so that the ranking of all
candidates can be evaluated without bringing their sentences together.

There are 4,096 bins per octave of the score; above 0.5, per octave of 1 - score, since the top predictions of a good
model lie there. Counts of platforms add up exactly. The order inside a bin is unknown, and a metric is its mean over
all orders. On 54 rankings (dev and test in every round of runs on Wikipedia text and on the built-in world) every
metric was within 0.0001 of the exact one. Where many scores are exactly 1, as with a diverged model, the exact metric
itself depends on the order of ties (p@100 by up to 0.018), and the mean is the fairer value. With 256 bins per octave,
`ap` and `auc` were as close, but p@100 was off by up to 0.005 and max_f1 by up to 0.002.

What a histogram reveals: how many candidates and how many facts a platform holds out, and the distribution of their
scores. Most bins hold one candidate (with 256 per octave, few would): its score is known to four digits, though not
which candidate it is. Counts are neither rounded nor dropped, because the top of the ranking decides the metrics.
Whoever has a sentence and the model can compute the sentence's score and see in every round whether the platform may
hold it out. A platform to which this matters leaves evaluation to the coordinator, on public sentences, or forbids the
fields in its policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints
from fedrel.errors import DivergedError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_FINE, _COARSE = 4096, 256  # bins per octave; coarse near 0, where nothing is predicted


def _edges() -> Floats:
    """The lower bounds of all bins but the first. They are binary fractions, so that no machine rounds them."""
    near_zero = [2.0**e * np.arange(1, 2, 1 / _COARSE) for e in range(-126, -13)]
    middle = [2.0**e * np.arange(1, 2, 1 / _FINE) for e in range(-13, -1)]
    # by octaves of 1 - score; scores have 24 bits, so there are ever fewer bins towards 1, and a last one for 1 itself
    near_one = [1 - 2.0**e * np.arange(1, 2, 1 / min(_FINE, 2.0 ** (24 + e))) for e in range(-25, -1)]
    return np.sort(np.concatenate([*near_zero, *middle, [0.5], *near_one]))


_EDGES = _edges()
BINS = len(_EDGES) + 1


@dataclass(frozen=True)
class Histogram:
    """The numbers of right and wrong candidates by bin of their score, lowest first."""

    right: Ints  # (BINS,)
    wrong: Ints  # (BINS,)

    @classmethod
    def of(cls, scores: npt.NDArray[np.floating], right: Bools) -> Histogram:
        """The histogram of candidates: `scores` (n,) from 0 to 1, and whether each is a fact, `right` (n,).

        Raises DivergedError for NaN or infinite scores.
        """
        place = bins_of(scores)
        return cls(np.bincount(place[right], minlength=BINS), np.bincount(place[~right], minlength=BINS))

    @property
    def facts(self) -> int:
        """The number of candidates that are facts."""
        return int(self.right.sum())

    def metrics(self) -> dict[str, float]:
        """The metrics of a ranking (`heldout.METRICS`), as means over all orders inside the bins."""
        runs = _Runs.of(self)
        facts, ends, found = max(self.facts, 1), runs.before + runs.size, runs.found + runs.right
        reached = np.interp([100, 200, 300], np.r_[0, ends], np.r_[0, found])
        at = {f"p@{n}": _share(hits, min(n, runs.total)) for n, hits in zip((100, 200, 300), reached, strict=True)}
        return {
            "auc": runs.area(runs.total) / facts,
            "auc_2000": runs.area(2000) / facts,
            "ap": runs.precision_sum(runs.total) / facts,
            **at,
            "p@mean": float(np.mean(list(at.values()))),
            "max_f1": float((2 * found / (ends + facts)).max(initial=0.0)),  # highest at the end of a bin
        }

    def curve(self, points: int = 400) -> dict[str, list[float]]:
        """The precision-recall curve at the ends of bins, thinned to about `points` points."""
        runs = _Runs.of(self)
        hits = np.flatnonzero(runs.right)
        if not len(runs.size):
            return {"precision": [], "recall": []}
        kept = np.unique(np.r_[0, hits[np.linspace(0, len(hits) - 1, min(points, len(hits))).astype(int)]])
        found = (runs.found + runs.right)[kept]
        return {
            "precision": (found / (runs.before + runs.size)[kept]).round(5).tolist(),
            "recall": (found / max(self.facts, 1)).round(5).tolist(),
        }


def bins_of(scores: npt.NDArray[np.floating]) -> Ints:
    """(n,) the bin of every score. Raises DivergedError for NaN or infinite scores."""
    if not np.isfinite(scores).all():
        raise DivergedError("the model's scores are not numbers any more; lower training.lr")
    return np.searchsorted(_EDGES, scores.astype(np.float32).astype(np.float64), side="right")


def bin_centres() -> Floats:
    """(BINS,) the score in the middle of every bin."""
    edges: Floats = np.concatenate([[0.0], _EDGES, [1.0]])
    return (edges[:-1] + edges[1:]) / 2


@dataclass(frozen=True)
class _Runs:
    """The non-empty bins, highest first. Sums over the positions in a bin are closed forms, so that their cost does not
    depend on how many candidates a reply claims.

    If a bin holds n candidates, r of them right, and k predictions with c right ones precede it, the j-th candidate of
    the bin is right with probability r/n, and given that, c + (j-1)(r-1)/(n-1) right ones are expected before it.
    """

    size: Floats  # n
    right: Floats  # r
    before: Floats  # k
    found: Floats  # c

    @classmethod
    def of(cls, histogram: Histogram) -> _Runs:
        held = np.flatnonzero(histogram.right + histogram.wrong)[::-1]
        right, wrong = (counts[held].astype(np.float64) for counts in (histogram.right, histogram.wrong))
        size = right + wrong
        return cls(size, right, np.cumsum(size) - size, np.cumsum(right) - right)

    @property
    def total(self) -> int:
        return int(self.size.sum())

    def precision_sum(self, most: int) -> float:
        """The expected sum of the precision at every fact among the first `most` predictions."""
        return float((self._chance * self._at_facts(self._taken(most))).sum())

    def area(self, most: int) -> float:
        """The expected area under the precision curve of the first `most` predictions by the trapezoidal rule, where
        every fact has width 1.
        """
        taken = self._taken(most)
        first = np.where((self.before == 0) & (taken > 0), 1.0, 0.0)  # the curve starts at the first prediction
        sides = self._at_facts(taken) - first + self._before_facts(taken)
        return float((self._chance * sides).sum() / 2)

    @property
    def _chance(self) -> Floats:
        return self.right / self.size

    @property
    def _gain(self) -> Floats:
        """(r-1)/(n-1): the right candidates expected per position of the bin before a right one."""
        return np.maximum(self.right - 1, 0) / np.maximum(self.size - 1, 1)

    def _taken(self, most: int) -> Floats:
        return np.clip(most - self.before, 0, self.size)

    def _at_facts(self, taken: Floats) -> Floats:
        """Σ (c + (j-1)g + 1) / (k + j) for j = 1 … taken."""
        gain = self._gain
        steps = _harmonic(self.before + taken) - _harmonic(self.before)
        return gain * taken + (self.found + 1 - gain - gain * self.before) * steps

    def _before_facts(self, taken: Floats) -> Floats:
        """Σ (c + (j-1)g) / (k + j - 1) for j = 1 … taken; 0 for the very first prediction, which nothing precedes."""
        gain, more = self._gain, np.maximum(taken - 1, 0)
        steps = _harmonic(self.before + more) - _harmonic(self.before)
        first = np.divide(self.found, self.before, out=np.zeros_like(self.found), where=self.before > 0)
        return np.where(taken > 0, first + gain * more + (self.found - gain * self.before) * steps, 0.0)


_KNOWN = np.r_[0.0, np.cumsum(1 / np.arange(1, 65))]


def _harmonic(n: Floats) -> Floats:
    """1 + 1/2 + … + 1/n; for n > 64 by the Euler-Maclaurin formula, to 14 digits."""
    x = np.maximum(n, len(_KNOWN) - 1)
    far = np.log(x) + np.euler_gamma + 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4)
    return np.where(n < len(_KNOWN), _KNOWN[np.minimum(n, len(_KNOWN) - 1).astype(int)], far)


def _share(part: float, whole: int) -> float:
    return float(part / whole) if whole else 0.0
