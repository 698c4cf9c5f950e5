"""ε and δ of Gaussian noise, against what others compute and against the definition itself."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from fedrel.privacy.accounting import composed, delta_of, epsilon_of, mu_of

# noise, sums, δ and ε, by the accountant of privacy loss distributions of Google's dp-accounting 0.6.0
# (PLDAccountant, SelfComposedDpEvent of GaussianDpEvent), which rounds ε up by some 10^-8
REFERENCE = [
    (1.0, 1, 1e-5, 4.37717810002493),
    (4.0, 1, 1e-5, 0.9263415237343752),
    (5.0, 100, 1e-5, 9.99725615024243),
    (20.0, 100, 1e-6, 2.2540846566590376),
    (2.0, 30, 1e-5, 14.82994154541144),
    (0.5, 1, 1e-5, 9.99725615024243),
]


@pytest.mark.parametrize(("noise", "sums", "delta", "epsilon"), REFERENCE)
def test_epsilon_is_that_of_a_library(noise, sums, delta, epsilon):
    assert epsilon_of(composed([noise] * sums), delta) == pytest.approx(epsilon, rel=1e-7)


def hockey_stick(mu, epsilon):
    """δ by its definition, the integral of max(p - e^ε·q, 0) over the outcomes, for N(μ, 1) and N(0, 1)."""

    def excess(x):
        return max(norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x), 0.0)

    crossing = epsilon / mu + mu / 2  # from here on p > e^ε·q
    return quad(excess, crossing, crossing + 40, epsabs=1e-14, limit=200)[0]


@given(st.floats(0.05, 6), st.floats(0, 12))
def test_delta_is_the_hockey_stick_divergence(mu, epsilon):
    assert delta_of(mu, epsilon) == pytest.approx(hockey_stick(mu, epsilon), rel=1e-7, abs=1e-13)


@given(st.floats(0.01, 50), st.floats(1e-12, 0.1))
def test_epsilon_and_mu_undo_each_other(mu, delta):
    epsilon = epsilon_of(mu, delta)
    assert delta_of(mu, epsilon) <= delta
    if epsilon > 0:
        assert delta_of(mu, epsilon * (1 - 1e-9)) > delta * (1 - 1e-6)
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-6)
        assert delta_of(mu_of(epsilon, delta), epsilon) <= delta


@given(st.floats(0.01, 20), st.floats(0.01, 20), st.floats(0, 30))
def test_more_noise_gives_less_away(one, other, epsilon):
    least, most = sorted((one, other))
    assert delta_of(least, epsilon) <= delta_of(most, epsilon) + 1e-15


def test_extremes_are_no_errors():
    assert delta_of(0, 1) == 0
    assert epsilon_of(0, 1e-5) == 0
    assert epsilon_of(1e5, 1e-5) == math.inf
    assert 137 < mu_of(1e4, 1e-5) < 138
    assert delta_of(1e-3, 5) == 0


def test_sums_compose_like_one():
    assert composed([2.0] * 100) == pytest.approx(5.0)
    assert composed([1.0, 2.0]) == pytest.approx(math.sqrt(1.25))
    assert composed([]) == 0
