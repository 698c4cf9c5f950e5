"""How relations score on sentences that are labelled with none: what a sentence that states nothing looks like.

Kept as sums, which several platforms can add up: n sentences, and for every relation r the sums of z and z² over them,
where z is the log-odds of r. Their mean and standard deviation follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ENOUGH = 30  # sentences: the sums of fewer would tell about single ones, and their deviation says little
_LEAST_DEVIATION = 1e-3  # of a model that has learnt nothing


@dataclass(frozen=True)
class Background:
    """Sums over sentences without a relation, in double precision."""

    sentences: int
    total: Tensor  # (R,) of the log-odds of every relation
    squares: Tensor  # (R,) of their squares

    @classmethod
    def of_nothing(cls, relations: int) -> Background:
        return cls(0, *torch.zeros(2, relations, dtype=torch.float64))

    @classmethod
    def of(cls, z: Tensor) -> Background:
        """Of log-odds (S, R)."""
        return cls(len(z), z.sum(0), (z * z).sum(0))

    def __add__(self, other: Background) -> Background:
        return Background(self.sentences + other.sentences, self.total + other.total, self.squares + other.squares)

    def if_enough(self) -> Background:
        """Itself, or nothing where there are too few sentences."""
        return self if self.sentences >= ENOUGH else self.of_nothing(len(self.total))

    def bar(self, deviations: float) -> Tensor:
        """(R,) for every relation, so many standard deviations above its mean; minus infinity where there are too few
        sentences to tell.
        """
        if self.sentences < ENOUGH:
            return torch.full_like(self.total, -torch.inf)
        mean = self.total / self.sentences
        variance = self.squares / self.sentences - mean * mean
        return mean + deviations * variance.clamp_min(_LEAST_DEVIATION**2).sqrt()
