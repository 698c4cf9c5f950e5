"""Calibration: turns log-odds into confidences by a temperature and an offset fitted on dev, so that nine in ten of the
facts with confidence 0.9 are right (Platt 1999; Guo et al., ICML 2017).

"Right" means whatever the labels of dev mean: in distant supervision, that the knowledge base has the fact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints
from fedrel.evaluation.heldout import truth_table

Floats = npt.NDArray[np.floating]
Bools = npt.NDArray[np.bool_]

SURE = 0.9  # what people ask for; a dev set that supports less has too few facts to tell how far confidences are off
_BINS = 15
_STEPS = 100  # of Newton's method, which needs about ten
_SMALLEST = 1e-10  # step size at which the line search gives up
BEND = 0.5  # log-odds over which confidences bend towards the highest
_FLATTEST = 1e-3  # slope; a smaller one would make all confidences alike


@dataclass(frozen=True)
class Calibration:
    """A map from scores, which are log-odds, to confidences; the default gives their probability."""

    temperature: float = 1.0
    offset: float = 0.0
    ece_before: float | None = None  # on dev; None: not fitted
    ece_after: float | None = None
    most: float = 1.0  # no confidence is higher: what as many right candidates as dev has can support

    def confidence(self, scores: Floats) -> Floats:
        """The confidences of log-odds, in the same shape: σ(score / temperature + offset)."""
        return sigmoid(self.log_odds(scores))

    def log_odds(self, scores: Floats) -> Floats:
        """The log-odds of confidences. Towards the highest that dev supports they rise ever more slowly, so that no two
        are equal unless the scores are: what they lack to it falls like 1/score, not like e^-score, of which nine
        digits would soon show nothing.
        """
        free: Floats = np.asarray(scores, np.float64) / self.temperature + self.offset
        if self.most >= 1:
            return free
        bound = np.log(self.most) - np.log1p(-self.most)
        below = (bound - free) / BEND
        half = np.log(2.0)  # what a score at the bound lacks; value and slope of both branches agree there
        lacking = np.where(below > 0, np.logaddexp(0.0, below), half / (1.0 - np.minimum(below, 0.0) / (2.0 * half)))
        bent: Floats = bound - BEND * lacking
        return bent


def fit_calibration(scores: Floats, right: Bools, times: Ints | None = None) -> Calibration:
    """Fits temperature and offset by maximum likelihood. `scores` (n,) are the log-odds of candidate facts, `right`
    (n,) whether each is a fact, `times` (n,) how often each occurs (None: once). Returns the default calibration if all
    candidates are right or all wrong, or if higher scores are not better, but for the highest confidence.
    """
    times = np.ones(len(scores), np.int64) if times is None else times
    unfitted = Calibration(most=supported(int(times[right].sum())))
    if not len(scores) or right.all() or not right.any():
        return unfitted
    slope, offset = _logistic(np.asarray(scores, np.float64), right, times)
    if slope < _FLATTEST:
        return unfitted
    fitted = replace(unfitted, temperature=1.0 / slope, offset=offset)
    before, after = (ece(confidence, right, times) for confidence in (sigmoid(scores), fitted.confidence(scores)))
    return replace(fitted, ece_before=before, ece_after=after)


def supported(right: int) -> float:
    """The highest confidence that so many right candidates support: if all of them were right and none wrong, the lower
    end of a one-sided 95 % interval of their precision, 0.05^(1/n). That is 0.9 for 29 of them (the rule of three).
    """
    return float(0.05 ** (1 / max(right, 1)))


def candidates(scores: Floats, facts: Ints, *, na: bool = True) -> tuple[Floats, Bools]:
    """The score of each pair's best relation other than NA, (P,), and whether that relation is a fact, (P,).

    `scores` (P, R) of every pair and relation, relation 0 being NA if `na`; `facts` (F, 2) the true (pair, relation).
    """
    truth = truth_table(scores.shape, facts)
    pairs, best = np.arange(len(scores)), scores[:, int(na) :].argmax(axis=1) + int(na)
    return scores[pairs, best], truth[pairs, best]


def ece(confidence: Floats, right: Bools, times: Ints | None = None) -> float:
    """Expected calibration error: the mean distance between confidence and accuracy over 15 bins of equal width.

    `confidence` (n,) from 0 to 1, `right` (n,), `times` (n,) how often each occurs (None: once).
    """
    place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    times = np.ones(len(confidence), np.int64) if times is None else times
    size = np.bincount(place, times, _BINS)
    gap = np.abs(np.bincount(place, right * times, _BINS) - np.bincount(place, confidence * times, _BINS))
    return float(gap[size > 0].sum() / times.sum()) if len(confidence) else 0.0


def sigmoid(log_odds: Floats) -> npt.NDArray[np.float64]:
    """The probabilities of log-odds, in the same shape."""
    tail = np.exp(-np.abs(np.asarray(log_odds, np.float64)))
    return np.where(np.asarray(log_odds) < 0, tail, 1.0) / (1.0 + tail)


def readable(log_odds: float) -> float:
    """The probability of log-odds, rounded to nine digits of what it lacks to 0 or to 1: 0.999987123, not 1.0."""
    near = float(sigmoid(np.array(-abs(log_odds))))
    return float(f"{near:.9g}") if log_odds < 0 else float(1 - Decimal(f"{near:.9g}"))


def _logistic(x: npt.NDArray[np.float64], right: Bools, times: Ints) -> tuple[float, float]:
    """Slope and offset of a logistic regression by Newton's method with backtracking (Lin, Lin & Weng 2007). Platt's
    targets, not quite 0 and 1, keep both finite on separable data.
    """
    yes, no = int(times[right].sum()), int(times[~right].sum())
    target = np.where(right, (yes + 1) / (yes + 2), 1 / (no + 2))
    design = np.stack([x, np.ones_like(x)], axis=1)  # (n, 2)

    def loss(weights: npt.NDArray[np.float64]) -> float:
        z = design @ weights
        return float((times * (np.logaddexp(0, z) - target * z)).sum())

    weights = np.array([0.0, np.log((yes + 1) / (no + 1))])
    for _ in range(_STEPS):
        chance = sigmoid(design @ weights)
        gradient = design.T @ (times * (chance - target))
        curvature = (design * (times * chance * (1 - chance))[:, None]).T @ design + 1e-9 * np.eye(2)
        step, size = np.linalg.solve(curvature, gradient), 1.0
        while size > _SMALLEST and loss(weights - size * step) > loss(weights) - 1e-4 * size * gradient @ step:
            size /= 2
        if size <= _SMALLEST or np.abs(step).max() < 1e-9:
            break
        weights = weights - size * step
    return float(weights[0]), float(weights[1])
