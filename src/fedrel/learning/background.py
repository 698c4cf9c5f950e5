"""How relations score on their own sentences and on those labelled with none: what a sentence that states nothing looks
like, and how far the sentences of a relation stand out from it.

Kept as sums, which several platforms can add up: n sentences without a relation, and for every relation r the sums of z
and z² over them, where z is the log-odds of r; the same over the sentences labelled with r. Means, standard deviations
and bars follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.learning.named import Named

ENOUGH = 30  # sentences: the sums of fewer would tell about single ones, and their deviation says little
_LEAST_DEVIATION = 1e-3  # of a model that has learnt nothing
# A bar on d + D, in standard deviations of sentences without a relation: d is how far a sentence stands out from these,
# D how far its relation did before its sentences were learnt by heart. The bar is the mean over all labelled sentences,
# BETWEEN deviations between relations higher and WITHIN deviations within them lower. So where relations differ, the
# sentences of those that never stood out fall below it; where they are alike, few do.
_BETWEEN, _WITHIN = 1.25, 0.5


@dataclass(frozen=True)
class Background:
    """Sums over sentences, in double precision. R relations."""

    sentences: int  # without a relation
    total: Tensor  # (R,) of the log-odds of every relation on these
    squares: Tensor  # (R,) of their squares
    labelled: Tensor  # (R,) int64, how many sentences are labelled with each relation
    own: Tensor  # (R,) of the log-odds of their label on these
    own_squares: Tensor  # (R,) of their squares

    @classmethod
    def of_nothing(cls, relations: int) -> Background:
        return cls.of(torch.zeros(0, relations))

    @classmethod
    def of(cls, z: Tensor) -> Background:
        """Of sentences without a relation, by their log-odds (S, R)."""
        z = z.double()
        nothing = torch.zeros(z.shape[1], dtype=torch.float64)
        return cls(len(z), z.sum(0), (z * z).sum(0), nothing.long(), nothing, nothing)

    @classmethod
    def of_named(cls, sums: Named) -> Background:
        """As `named` has written it, wherever that was."""
        cpu = torch.device("cpu")
        return cls(int(sums["sentences"]), *(sums[name].to(cpu) for name in _SUMS))

    def named(self) -> Named:
        return Named(sentences=torch.tensor(self.sentences), **{name: getattr(self, name) for name in _SUMS})

    def with_own(self, z: Tensor, labels: Tensor) -> Background:
        """Beside the sums of sentences that are labelled with relations (S,), by their log-odds of these (S,)."""
        relations, z = len(self.total), z.double()
        own, own_squares = (torch.zeros(relations, dtype=torch.float64).index_add_(0, labels, it) for it in (z, z * z))
        labelled = torch.bincount(labels, minlength=relations)
        return Background(self.sentences, self.total, self.squares, labelled, own, own_squares)

    def __add__(self, other: Background) -> Background:
        sums = (getattr(self, name) + getattr(other, name) for name in _SUMS)
        return Background(self.sentences + other.sentences, *sums)

    @property
    def is_enough(self) -> bool:
        """Whether there are enough sentences without a relation to judge others by."""
        return self.sentences >= ENOUGH

    def if_enough(self) -> Background:
        """Itself, or nothing where it is not enough."""
        return self if self.is_enough else self.of_nothing(len(self.total))

    def standing_out(self) -> Tensor:
        """(R,) how many standard deviations the mean of a relation's own sentences is above those without one; 0 where
        it has none, or where there are too few without one.
        """
        if not self.is_enough:
            return torch.zeros_like(self.total)
        mean, deviation = self._without()
        return torch.where(self.labelled > 0, (self.own / self.labelled.clamp_min(1) - mean) / deviation, 0.0)

    def bars(self, before: Tensor) -> Tensor:
        """(R,) the log-odds from which on a sentence stands out as one that states its relation, given how far
        relations stood out (R,) before their sentences were learnt by heart; minus infinity where there are too few
        sentences to tell.
        """
        count = int(self.labelled.sum())
        if not self.is_enough or not count:
            return torch.full_like(self.total, -torch.inf)
        mean, deviation = self._without()
        shares, size = self.labelled / count, self.labelled.clamp_min(1)
        spread = (self.own_squares / size - (self.own / size) ** 2).clamp_min(0) / deviation**2
        level = self.standing_out() + before
        middle = (shares * level).sum()
        between, within = (shares * (level - middle) ** 2).sum().sqrt(), (shares * spread).sum().sqrt()
        return mean + deviation * (middle + _BETWEEN * between - _WITHIN * within - before)

    def _without(self) -> tuple[Tensor, Tensor]:
        """(R,) mean and (R,) standard deviation over sentences without a relation."""
        mean = self.total / self.sentences
        variance = self.squares / self.sentences - mean * mean
        return mean, variance.clamp_min(_LEAST_DEVIATION**2).sqrt()


_SUMS = ("total", "squares", "labelled", "own", "own_squares")
