"""Gaussian noise that many platforms add to one sum, each its share, so that nobody is trusted with all of it.

Every platform adds round(N_k), N_k normal with deviation σ_k, in fixed point. Of n platforms that were asked, at least
m stay, or no sum is opened; up to a share c of the n may tell the coordinator their noise. What is left, of
h = m - ⌊c·n⌋ honest platforms, has to suffice: σ_k = noise · Δ / √h, where Δ is the longest that one contribution can
be. With all n the sum has √(n/h) times the deviation that is promised; nobody may count on that.

*Rounding loses nothing.* Let G be normal with variance h·σ_k², and U_i uniform on [-1/2, 1/2]. By Poisson's summation
formula the characteristic functions of Σ_k round(N_k) and of round(G + U_2 + … + U_h) agree but for terms of
exp(-π²σ_k²/2) and less: below 10^-20000 for σ_k ≥ 100 steps of the fixed point, which `Mechanism` demands. What
platforms contribute are whole numbers of steps, so the second is computed from the contributions plus G, and gives away
no more than the Gaussian mechanism. That the numbers are reduced mod 2^32 is computed from it too.

*Numbers.* Noise is drawn by Box and Muller's transformation, in double precision, from a stream of SHAKE-256 under a
key of 32 bytes that only its platform has. Doubles reach 8.5 deviations, and each normal has one of 2^53 radii:
rounding to steps of at most a hundredth of σ_k hides the gaps between them. Beyond 8.5 deviations lies 2·10^-17 of the
distribution; that much is added to δ for every number drawn.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrel.errors import UserError
from fedrel.privacy.shares import threshold

_PIECE = 2**16  # normals at once
_COARSE = 100.0  # steps of the fixed point that a platform's deviation must have


@dataclass(frozen=True)
class Mechanism:
    """How much of each contribution counts, and how much noise hides it.

    `clip`: no contribution (a platform's change of the weights, or a sentence's gradient) is longer. `noise`: the
    deviation of the honest platforms' noise in the sum, as a multiple of the longest contribution. `colluders`: the
    share of platforms that may help the coordinator. `least`: platforms without which no sum is opened.
    """

    unit: str
    clip: float
    noise: float
    colluders: float = 0.2
    least: int = 3

    def enough(self, parties: int) -> int:
        """How many of those asked must stay, for a sum to be opened."""
        return max(self.least, threshold(parties))

    def honest(self, parties: int) -> int:
        """Whose noise is counted on: at least one platform's, as three in five stay and one in two tells it at most."""
        return self.enough(parties) - math.floor(self.colluders * parties)

    def deviation(self, parties: int, longest: float) -> float:
        """σ_k in steps of the fixed point, if the longest contribution has so many. UserError if the steps are too
        coarse for what is promised.
        """
        found = self.noise * longest / math.sqrt(self.honest(parties))
        if found < _COARSE:
            raise UserError(
                "the noise would be too fine for sums of 32 bits; lower dp.epsilon, or let fewer platforms and "
                "sentences take part in a round (training.fraction)"
            )
        return found


def normals(key: bytes, count: int) -> NDArray[np.float64]:
    """(count,) standard normals that nobody can tell from others who lacks the key."""
    found = np.empty(count + count % 2)
    for piece, start in enumerate(range(0, len(found), _PIECE)):
        some = found[start : start + _PIECE]
        half = len(some) // 2
        drawn = hashlib.shake_256(key + piece.to_bytes(8, "big")).digest(8 * len(some))
        uniform = ((np.frombuffer(drawn, "<u8") >> np.uint64(11)) + 0.5) * 2.0**-53  # in (0, 1)
        radius, angle = np.sqrt(-2 * np.log(uniform[:half])), 2 * np.pi * uniform[half:]
        some[:half], some[half:] = radius * np.cos(angle), radius * np.sin(angle)
    return found[:count]
