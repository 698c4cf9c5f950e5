"""Whose verdicts say something, as far as one can tell without knowing the truth.

Of every verdict it is known how likely the prediction was right: by the model's confidence, and by the label of the
sentence where there is one. A person's verdicts must go with that. They are taken to call right predictions right with
probability γ and wrong ones wrong with δ; γ + δ - 1 is 1 for somebody who is always right, 0 for somebody whose answers
have nothing to do with the question ("right" to everything, say), and negative for somebody who says the opposite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEAST = 0.2  # of γ + δ - 1, for verdicts to count
LABEL = 0.8  # log-odds that a label for or against a prediction adds to the model's confidence
_GRID = np.linspace(0.01, 0.99, 50)
_BINS = 50
_GOOD, _BAD = 4.0, 1.0  # of the prior of γ and δ, a Beta distribution: most people answer well


@dataclass(frozen=True)
class Person:
    """Of somebody's verdicts "right" and "wrong"."""

    verdicts: int
    right: int  # of them
    expected: float  # "right" of somebody who knows the truth
    informed: float  # γ + δ - 1, as far as it can be told

    @property
    def doubt(self) -> str | None:
        """Why these verdicts should not count; None: they may."""
        if self.informed >= LEAST:
            return None
        said = f'"right" to {self.right:,} of {self.verdicts:,} predictions, where about {self.expected:,.0f} are right'
        if self.right in (0, self.verdicts):
            return f"said {said}: the answers do not depend on the question"
        how = "contradict" if self.informed < -LEAST else "have nothing to do with"
        return f"said {said}, and the answers {how} what the model and the labels of the text say"


def judge_people(users: Sequence[str], chance: Floats, right: npt.NDArray[np.bool_]) -> Mapping[str, Person]:
    """Of n verdicts, each with who gave it, the chance (n,) that the prediction was right, and whether the verdict (n,)
    is "right".
    """
    who = np.array(users)
    return {
        str(user): Person(
            int(mine.sum()), int(right[mine].sum()), float(chance[mine].sum()), informed(chance[mine], right[mine])
        )
        for user in dict.fromkeys(users)
        for mine in [who == user]
    }


def informed(chance: Floats, right: npt.NDArray[np.bool_]) -> float:
    """The posterior mean of γ + δ - 1, on a grid."""
    gamma, delta = _GRID[:, None], _GRID[None, :]
    log_p = (_GOOD - 1) * (np.log(gamma) + np.log(delta)) + (_BAD - 1) * (np.log1p(-gamma) + np.log1p(-delta))
    place = np.clip((chance * _BINS).astype(np.int64), 0, _BINS - 1)
    for bin_ in np.unique(place):
        p, said = (bin_ + 0.5) / _BINS, right[place == bin_]
        says_right = p * gamma + (1 - p) * (1 - delta)
        log_p = log_p + said.sum() * np.log(says_right) + (~said).sum() * np.log1p(-says_right)
    weight = np.exp(log_p - log_p.max())
    return float(((gamma + delta - 1) * weight).sum() / weight.sum())
