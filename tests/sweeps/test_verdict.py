"""The rule of verdicts, by hand: the mean ± t · standard error, t = 2.7764 for five pairs, 4.3027 for three."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.sweeps.verdict import RULE, interval, verdict

RESULTS = Path(__file__).parents[2] / "docs" / "results.md"

FIVE = [1.0, 2.0, 3.0, 4.0, 5.0]  # mean 3, standard error sqrt(2.5 / 5) = .70711


def test_the_interval_of_a_mean_is_students():
    assert interval(FIVE) == pytest.approx((3 - 2.7764 * 0.7071068, 3 + 2.7764 * 0.7071068))
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.3027 * 0.5773503, 2 + 4.3027 * 0.5773503))
    assert interval([1.0]) is None
    assert interval([]) is None


@pytest.mark.parametrize(("n", "t"), [(21, 2.0860), (22, 2.0796), (31, 2.0423), (121, 1.9799), (10_001, 1.9602)])
def test_quantiles_beyond_the_table_go_on_from_it(n, t):
    half = [1.0, -1.0] * (n // 2) + [0.0] * (n % 2)
    low, high = interval(half)
    error = ((n - n % 2) / (n - 1) / n) ** 0.5
    assert high / error == pytest.approx(t, abs=1e-4)
    assert low == -high


@pytest.mark.parametrize(
    ("differences", "p", "said"),
    [
        (FIVE, None, "confirmed"),
        ([-it for it in FIVE], None, "refuted"),
        ([-1.0, 2.0, -3.0, 4.0, 1.0], None, "not seen"),
        ([0.0] * 5, None, "not seen"),
        (FIVE, 0.9, "confirmed"),  # five pairs are enough by themselves
        (FIVE[:4], None, "not decided"),
        ([1.0, 1.1, 1.2], None, "not decided"),  # clear over seeds, but nothing is known of items
        ([1.0, 1.1, 1.2], 0.04, "confirmed"),
        ([-1.0, -1.1, -1.2], 0.04, "refuted"),
        ([1.0, 1.1, 1.2], 0.05, "not decided"),
        ([1.0, 2.0, 3.0], 0.001, "not decided"),  # 2 ± 2.48: clear over items alone
        ([1.0], 0.001, "not decided"),
        ([], None, "not decided"),
    ],
)
def test_the_rule(differences, p, said):
    assert verdict(differences, p) == said


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12), st.floats(0, 1))
def test_the_opposite_claim_gets_the_opposite_verdict(differences, p):
    opposite = {"confirmed": "refuted", "refuted": "confirmed"}
    said = verdict(differences, p)
    assert verdict([-it for it in differences], p) == opposite.get(said, said)


def test_the_page_of_results_states_the_rule():
    assert RULE in RESULTS.read_text(encoding="utf-8")
