"""Whether runs bear out what a paper says of two rows: one rule, for every table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

Verdict = Literal["confirmed", "not seen", "refuted", "not decided"]

ENOUGH = 5  # differences
CHANCE = 0.05  # for p over test items

RULE = (
    "Verdicts. Runs are paired by seed, or by world or split where these vary, and the 95 % interval of the mean "
    f"difference is Student's. With {ENOUGH} pairs or more: confirmed if the interval lies on the paper's side of "
    "zero, refuted if it lies on the other, not seen if it holds zero. With fewer, confirmed or refuted only if the "
    "interval excludes zero and so does a paired test over the test items (p < .05), else not decided."
)

# The .975 quantiles of Student's t, by degrees of freedom from 1; beyond them, their expansion in 1/df
_T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
)


def interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of paired differences, by Student's t; None: fewer than two."""
    n = len(differences)
    if n < 2:
        return None
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(n)
    reach = _quantile(n - 1) * error
    return mean - reach, mean + reach


def verdict(differences: Sequence[float], p_items: float | None = None) -> Verdict:
    """What paired differences say of a claim that they are positive; `p_items` is of a paired test over the test items,
    None: there is none. The rule is RULE.
    """
    found = interval(differences)
    if found is None:
        return "not decided"
    low, high = found
    clear = low > 0 or high < 0
    if len(differences) < ENOUGH and not (clear and p_items is not None and p_items < CHANCE):
        return "not decided"
    if not clear:
        return "not seen"
    return "confirmed" if low > 0 else "refuted"


def _quantile(df: int) -> float:
    """Of Student's t with so many degrees of freedom, at .975."""
    if df <= len(_T):
        return _T[df - 1]
    z = 1.959964
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / df + second / df**2 + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
