"""Histograms of scores: what platforms report about the candidate facts they hold out, so that the ranking of all
candidates can be evaluated without bringing their sentences together.

Scores are log-odds. A unit of them has 4,096 bins from -16 to 64, where predictions are made, and 256 below and above;
beyond ±256, where only models that diverge are, a bin doubles in width with the score. Counts of platforms add up
exactly. The order inside a bin is unknown, and a metric is its mean over all orders.

What a histogram reveals: how many candidates and how many facts a platform holds out, and the distribution of their
scores. Most bins hold one candidate (with 256 per unit, few would): its score is known to four digits, though not
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
from fedrel.evaluation.ranking import Bools, Floats, Ranking

_FINE, _COARSE = 4096, 256  # bins per unit
_LOWEST, _LOW, _HIGH, _HIGHEST = -256, -16, 64, 256  # where bins are coarse, fine, coarse
_OCTAVES = 24  # beyond, on either side


def _edges() -> Floats:
    """The lower bounds of all bins but the first. They are binary fractions, so that no machine rounds them."""
    far = _HIGHEST * np.concatenate([2.0**e * np.arange(1, 2, 1 / _COARSE) for e in range(_OCTAVES)])
    below = np.arange(_LOWEST, _LOW, 1 / _COARSE)
    middle = np.arange(_LOW, _HIGH, 1 / _FINE)
    above = np.arange(_HIGH, _HIGHEST, 1 / _COARSE)
    return np.concatenate([-far[:0:-1], below, middle, above, far])


_EDGES = _edges()
BINS = len(_EDGES) + 1


@dataclass(frozen=True)
class Histogram:
    """The numbers of right and wrong candidates by bin of their score, lowest first."""

    right: Ints  # (BINS,)
    wrong: Ints  # (BINS,)

    @classmethod
    def of(cls, scores: npt.NDArray[np.floating], right: Bools) -> Histogram:
        """The histogram of candidates: `scores` (n,), log-odds, and whether each is a fact, `right` (n,).

        Raises DivergedError for NaN or infinite scores.
        """
        place = bins_of(scores)
        return cls(np.bincount(place[right], minlength=BINS), np.bincount(place[~right], minlength=BINS))

    @property
    def facts(self) -> int:
        """The number of candidates that are facts."""
        return int(self.right.sum())

    @property
    def ranking(self) -> Ranking:
        """The candidates by bin, the highest first."""
        held = np.flatnonzero(self.right + self.wrong)[::-1]
        right, wrong = (counts[held].astype(np.float64) for counts in (self.right, self.wrong))
        return Ranking(right + wrong, right)


def bins_of(scores: npt.NDArray[np.floating]) -> Ints:
    """(n,) the bin of every score. Raises DivergedError for NaN or infinite scores."""
    if not np.isfinite(scores).all():
        raise DivergedError("the model's scores are not numbers any more; lower training.lr")
    return np.searchsorted(_EDGES, scores.astype(np.float32).astype(np.float64), side="right")


def bin_centres() -> Floats:
    """(BINS,) the score in the middle of every bin."""
    edges: Floats = np.concatenate([[2 * _EDGES[0]], _EDGES, [2 * _EDGES[-1]]])
    return (edges[:-1] + edges[1:]) / 2
