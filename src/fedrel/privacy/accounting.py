"""How much noisy sums give away, exactly: the Gaussian mechanism and its composition.

A sum of which one contribution has a length of at most Δ, with Gaussian noise of deviation σ = noise · Δ in every
number, is (ε, δ)-differentially private if and only if δ ≥ δ(ε; 1/noise), where, with the distribution function Φ of
the normal distribution,

    δ(ε; μ) = Φ(μ/2 - ε/μ) - e^ε · Φ(-μ/2 - ε/μ)                (Balle and Wang, ICML 2018, theorem 8).

T such sums, each of which may be asked for in the light of those before, are exactly as private as one with
μ² = Σ_t 1/noise_t² (Dong, Roth and Su, 2022, corollary 3.3). Nothing here is gained from platforms being drawn at
random: whoever reads the sums knows who took part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

PLATFORM, SENTENCE = "platform", "sentence"  # units: whose contribution noise hides

_FAR = 30.0  # deviations from which on a tail is its asymptotic series, to 15 digits
_HIGHEST = 1e6  # of what is searched for


def composed(noises: Iterable[float]) -> float:
    """μ of all sums together, from the noise of each as a multiple of the longest contribution."""
    return math.sqrt(sum(noise**-2 for noise in noises))


def delta_of(mu: float, epsilon: float) -> float:
    """The least δ with which sums of this μ are (ε, δ)-private."""
    if mu <= 0:
        return 0.0
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # e^ε · density(high) is density(low), so nothing overflows
    if low >= 0:
        return max(_density(low) * (_tail(low) - _tail(high)), 0.0)
    return 1.0 - math.erfc(-low / math.sqrt(2)) / 2 - _density(low) * _tail(high)


def epsilon_of(mu: float, delta: float) -> float:
    """The least ε with which sums of this μ are (ε, δ)-private; infinite beyond what anybody would call private."""
    return _least(lambda epsilon: delta_of(mu, epsilon) <= delta)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest μ that is (ε, δ)-private."""
    low = 1 / _least(lambda inverse: delta_of(1 / inverse, epsilon) <= delta if inverse else False)
    assert delta_of(low, epsilon) <= delta, "less noise than is needed would be none of it"
    return low


def _least(enough: Callable[[float], bool]) -> float:
    """The least number from 0 on that is enough, or hardly more, never less; infinite if it is beyond all bounds."""
    low, high = 0.0, 1.0
    if enough(low):
        return low
    while not enough(high):
        low, high = high, 2 * high
        if high > _HIGHEST:
            return math.inf
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _tail(x: float) -> float:
    """(1 - Φ(x)) / density(x), of an x that is not far below 0."""
    if x < _FAR:
        return math.erfc(x / math.sqrt(2)) / 2 / _density(x)
    return (1 - (1 - (3 - 15 / x**2) / x**2) / x**2) / x
