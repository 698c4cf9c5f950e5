"""Whether one row of a table is better than another by more than chance.

Sharma et al. (NAACL 2022) mark differences "at p < 0.05" without naming their test. There are two ways for a difference
to be chance, and a test for each: other test items (`randomisation`, over items that both models judged) and other
seeds (`paired_t`, over runs of the same seeds). Both are paired and two-sided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_ENUMERATED = 16  # items that differ up to which every exchange is tried
_CHUNK = 4_000_000  # numbers drawn at once
_TIE = 1e-9  # sums of the same differences in another order


@dataclass(frozen=True)
class PairedT:
    """Over seeds: the mean difference, the reach of its 95 % interval to either side, and p."""

    n: int
    mean: float
    reach: float
    p: float


def randomisation(first: npt.ArrayLike, second: npt.ArrayLike, *, draws: int = 10_000, seed: int = 1) -> float:
    """p of the difference of two models' mean scores on the same items (n,): how often it would be as large if, item by
    item, chance decided which score is whose (Noreen 1989). A score is 1 for a right answer and 0 for a wrong one, or
    the share of seeds that answered rightly.

    Exact where all differences are of one size, as with right and wrong answers of two runs (it is McNemar's exact test
    then), or where few items differ; elsewhere from random draws.
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
    """p of `wins` heads of n coins, two-sided."""
    few = min(wins, n - wins)
    log_all = n * math.log(2)
    tail = math.fsum(
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - log_all) for k in range(few + 1)
    )
    return min(2 * tail, 1.0)


def paired_t(first: Sequence[float], second: Sequence[float]) -> PairedT | None:
    """Student's paired t-test of the scores of two rows, seed by seed; None with fewer than two seeds. With three, only
    large and steady differences can be told from chance.
    """
    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n = len(gaps)
    if n < 2:
        return None
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1) / math.sqrt(n))
    if error <= 1e-12 * max(abs(mean), 1.0):
        return PairedT(n, mean, 0.0, 1.0 if abs(mean) <= 1e-12 else 0.0)
    return PairedT(n, mean, error * _t_quantile(n - 1), t_tail(mean / error, n - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """p of each comparison when there are several of them (Holm 1979): the chance of even one false alarm."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min((len(p_values) - rank) * p_values[place], 1.0))
        adjusted[place] = highest
    return adjusted


def t_tail(t: float, degrees: int) -> float:
    """P(|T| > t) of Student's t with whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(abs(t) / math.sqrt(degrees))
    cosine, term, total = math.cos(angle), 1.0, 0.0
    if degrees % 2:
        for k in range(1, degrees - 1, 2):  # cos, 2/3 cos³, 2·4/3·5 cos⁵, …
            term = cosine if k == 1 else term * cosine**2 * (k - 1) / k
            total += term
        inside = 2 / math.pi * (angle + math.sin(angle) * total)
    else:
        for k in range(0, degrees, 2):  # 1, 1/2 cos², 1·3/2·4 cos⁴, …
            term = 1.0 if k == 0 else term * cosine**2 * (k - 1) / k
            total += term
        inside = math.sin(angle) * total
    return min(max(1.0 - inside, 0.0), 1.0)


def _t_quantile(degrees: int) -> float:
    """The t that |T| exceeds in 5 % of cases, by bisection."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, degrees) > 0.05 else (low, middle)
    return high
