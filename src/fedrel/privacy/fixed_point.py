"""Numbers as integers that add up exactly.

A real x is kept as round(x · 2^f) mod 2^32, so a sum of integers is the sum of the numbers however it is ordered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]  # integers mod 2^32

MOST = 2**31 - 1  # the sum's absolute value
_BOUNDS = (1e-30, 1e30)
_PIECE = 2**14  # numbers at once: they stay in the CPU's cache


@dataclass(frozen=True)
class FixedPoint:
    """How numbers of absolute value `bound` at most are kept, so that no sum over `parties` of them overflows."""

    bound: float
    parties: int

    def __post_init__(self) -> None:
        if not _BOUNDS[0] <= self.bound <= _BOUNDS[1]:
            raise ValueError(f"bound = {self.bound:g}: must be from {_BOUNDS[0]:g} to {_BOUNDS[1]:g}")
        if not 1 <= self.parties <= MOST // 2:
            raise ValueError(f"parties = {self.parties}: must be from 1 to {MOST // 2}")

    @property
    def scale(self) -> float:
        """2^f, as large as can be with parties · (bound · 2^f + 1/2) ≤ 2^31 - 1."""
        return 2.0 ** (math.frexp((MOST / self.parties - 0.5) / self.bound)[1] - 1)

    def encode(self, numbers: NDArray[np.floating]) -> Words:
        """(n,) from reals (n,). Raises ValueError for a number beyond the bound, and for NaN: a sum with it would be
        wrong without a sign.
        """
        encoded = np.empty(len(numbers), np.uint32)
        for start in range(0, len(numbers), _PIECE):
            exact = numbers[start : start + _PIECE].astype(np.float64)
            if not bool((np.abs(exact) <= self.bound).all()):
                raise ValueError(f"a number is not within {self.bound:g}")
            encoded[start : start + _PIECE] = np.rint(exact * self.scale).astype(np.int32).view(np.uint32)
        return encoded

    def decode(self, total: Words) -> NDArray[np.float64]:
        """The sum, each number off by at most parties / (2 · scale)."""
        return total.view(np.int32) / self.scale
