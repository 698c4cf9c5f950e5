"""Tests of differences between rows, beside what scipy says and what can be counted by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrel.evaluation.significance import randomisation, sign_test


def test_right_and_wrong_answers_are_a_toss_of_coins():
    """Of items that only one of the two models gets right, eight go to the first and one to the second."""
    first, second = [1] * 8 + [0] + [1] * 50 + [0] * 5, [0] * 8 + [1] + [1] * 50 + [0] * 5
    assert randomisation(first, second) == pytest.approx(2 * (1 + 9) / 2**9)
    assert randomisation(second, first) == randomisation(first, second)
    assert randomisation(first, first) == 1
    assert randomisation([], []) == 1
    assert randomisation([1], [0]) == 1


def test_few_items_are_counted_out():
    first, second = [0.9, 0.7, 0.4], [0.2, 0.3, 0.3]  # differences 0.7, 0.4, 0.1: all alike in 2 of 8 exchanges
    assert randomisation(first, second) == pytest.approx(2 / 8)
    assert randomisation([0.9, 0.3, 0.4], [0.2, 0.7, 0.3]) == pytest.approx(6 / 8)  # 0.4 or more: 6 of 8


def test_draws_come_near_to_the_exact_value():
    chance = np.random.default_rng(3)
    first, second = chance.random(14), chance.random(14) - 0.2
    gaps = first - second
    sums = [abs(np.dot(signs, gaps)) for signs in itertools.product((1, -1), repeat=14)]
    exact = np.mean(np.array(sums) >= abs(gaps.sum()) - 1e-9)
    assert randomisation(first, second) == pytest.approx(exact)
    many = np.concatenate([first, chance.normal(0, 1e-6, 10)]), np.concatenate([second, np.zeros(10)])
    assert randomisation(*many) == pytest.approx(exact, abs=0.02)
    assert randomisation(*many) == randomisation(*many)


def test_p_values_of_chance_are_uniform():
    chance = np.random.default_rng(1)
    values = [randomisation(chance.random(40), chance.random(40), draws=500) for _ in range(400)]
    assert np.mean(np.array(values) < 0.05) == pytest.approx(0.05, abs=0.025)
    assert np.mean(np.array(values) < 0.5) == pytest.approx(0.5, abs=0.08)


def test_a_clear_difference_is_clear_on_many_items():
    chance = np.random.default_rng(2)
    truth = chance.random(1_821)
    assert randomisation(truth < 0.85, chance.random(1_821) < 0.77) < 1e-4
    assert sign_test(0, 4_000) == 0 or sign_test(0, 4_000) < 1e-300
    assert sign_test(2_000, 4_000) == 1


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_that_of_scipy(wins, losses):
    if wins + losses:
        assert sign_test(wins, wins + losses) == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)
