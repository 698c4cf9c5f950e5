"""Whether the difference between two rows of a table is significant: a paired, two-sided test over test items.

Sharma et al. (NAACL 2022) mark differences "at p < 0.05" without naming their test.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_ENUMERATED = 16  # up to this many differing items, every assignment is enumerated
_CHUNK = 4_000_000  # numbers drawn at once
_TIE = 1e-9  # rounding error between sums of the same differences in another order


def randomisation(first: npt.ArrayLike, second: npt.ArrayLike, *, draws: int = 10_000, seed: int = 1) -> float:
    """The p value of the difference between two models' mean scores on the same items, (n,) each, by approximate
    randomisation (Noreen 1989): the probability of a difference at least as large if the two scores of each item were
    swapped at random. A score is 1 for a right answer and 0 for a wrong one, or the share of seeds that got it right.

    Exact if all differences are of one size, as for right and wrong answers of two runs (then it is McNemar's exact
    test), or if at most 16 items differ; otherwise estimated from `draws` random draws.
    """
    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    gaps = gaps[np.abs(gaps) > _TIE]
    n = len(gaps)
    if not n:
        return 1.0
    sizes = np.abs(gaps)
    if np.ptp(sizes) <= _TIE:
        return sign_test(int((gaps > 0).sum()), n)
    observed = abs(gaps.sum()) - _TIE * n
    if n <= _ENUMERATED:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)  # (2^n, n)
        return float((np.abs(signs @ sizes) >= observed).mean())
    chance, larger = np.random.default_rng(seed), 0
    for begin in range(0, draws, size := max(_CHUNK // n, 1)):
        signs = 1 - 2 * chance.integers(0, 2, (min(size, draws - begin), n), dtype=np.int8)
        larger += int((np.abs(signs @ sizes) >= observed).sum())
    return (larger + 1) / (draws + 1)


def sign_test(wins: int, n: int) -> float:
    """The two-sided p value of `wins` heads in n tosses of a fair coin."""
    few = min(wins, n - wins)
    log_all = n * math.log(2)
    tail = math.fsum(
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - log_all) for k in range(few + 1)
    )
    return min(2 * tail, 1.0)
