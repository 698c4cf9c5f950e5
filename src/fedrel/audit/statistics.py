"""How well an attack tells members from non-members, and the 95 % intervals of what it finds.

A score is higher where the attacker believes more in "member". Intervals are bootstraps: members and non-members, or
platforms, are drawn again 500 times with replacement. Where all draws are alike, the interval of Clopper and Pearson
is added, since a few right answers in a row prove little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrel.evaluation.context import share_interval

Floats = npt.NDArray[np.float64]
FEW_FALSE = 0.01  # the share of non-members that an attacker may take for members
_DRAWS, _SEED, _ENDS = 500, 1, (2.5, 97.5)


@dataclass(frozen=True)
class Measure:
    """A number that an attack reached, what chance gives, and the ends of its 95 % interval."""

    name: str
    value: float
    chance: float
    low: float
    high: float


def auc(members: Floats, others: Floats) -> float:
    """The area under the ROC curve: how often a member's score (n,) is above a non-member's (m,); a tie counts half."""
    ordered = np.sort(others)
    below, up_to = np.searchsorted(ordered, members, "left"), np.searchsorted(ordered, members, "right")
    return float((below + up_to).mean() / (2 * len(others)))


def threshold(others: Floats, false: float = FEW_FALSE) -> float:
    """The score that at most this share of the non-members exceed."""
    return float(np.sort(others)[::-1][int(false * len(others))])


def true_positives(members: Floats, others: Floats) -> float:
    """The share of the members that are found, where at most 1 % of the non-members are taken for one."""
    return float((members > threshold(others)).mean())


def told_apart(members: Floats, others: Floats) -> list[Measure]:
    """`auc`, and `tpr`, the true positives at 1 % false positives, with their intervals."""
    area, found = auc(members, others), true_positives(members, others)
    return [
        Measure("auc", area, 0.5, *_drawn(auc, members, others, area)),
        Measure("tpr", found, FEW_FALSE, *_drawn(true_positives, members, others, found)),
    ]


def _drawn(score: Callable[[Floats, Floats], float], members: Floats, others: Floats, at: float) -> tuple[float, float]:
    draw = np.random.default_rng(_SEED)
    scores = [score(draw.choice(members, len(members)), draw.choice(others, len(others))) for _ in range(_DRAWS)]
    low, high = (float(end) for end in np.percentile(scores, _ENDS))
    if low == high:
        few = min(len(members), len(others))
        exact = share_interval(round(at * few), few)
        low, high = min(low, exact[0]), max(high, exact[1])
    return low, high


def mean_of(name: str, values: Sequence[float], chance: float) -> Measure:
    """The mean over platforms, and its interval: platforms are drawn again."""
    found, draw = np.asarray(values, np.float64), np.random.default_rng(_SEED)
    means = draw.choice(found, (_DRAWS, len(found))).mean(1)
    low, high = np.percentile(means, _ENDS)
    return Measure(name, float(found.mean()), chance, float(low), float(high))


def share_of(name: str, hits: int, of: int, chance: float) -> Measure:
    """A share with its exact interval."""
    return Measure(name, hits / of, chance, *share_interval(hits, of))
