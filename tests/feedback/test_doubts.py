"""Whose verdicts count: those that go with what the model and the labels say."""

import numpy as np
import pytest

from fedrel.feedback.doubts import LEAST, informed, judge_people


def verdicts(gamma, delta, chance, seed=1):
    """Of somebody with this reliability, where the chance that a prediction is right is known exactly."""
    draw = np.random.default_rng(seed)
    correct = draw.random(len(chance)) < chance
    said = draw.random(len(chance))
    return np.where(correct, said < gamma, said >= delta)


def chances(count, seed=2):
    return np.random.default_rng(seed).uniform(0.2, 0.9, count)


@pytest.mark.parametrize(
    ("gamma", "delta", "low", "high"),
    [(0.9, 0.9, 0.65, 0.95), (0.76, 0.7, 0.3, 0.65), (0.5, 0.5, -0.15, 0.15), (0.1, 0.1, -0.95, -0.65)],
)
def test_reliability_is_told_without_the_truth(gamma, delta, low, high):
    chance = chances(2_000)
    assert low < informed(chance, verdicts(gamma, delta, chance)) < high


@pytest.mark.parametrize("answer", [True, False])
def test_the_same_answer_to_everything_says_nothing(answer):
    assert abs(informed(chances(200), np.full(200, answer))) < 0.1


def test_few_verdicts_have_the_benefit_of_the_doubt():
    assert informed(np.zeros(0), np.zeros(0, bool)) == pytest.approx(0.6, abs=0.02)
    assert informed(np.full(3, 0.8), np.array([True, True, False])) > LEAST


def test_a_sentence_says_why_somebody_is_left_out():
    chance = np.tile(chances(300), 3)
    said = np.r_[verdicts(0.9, 0.9, chance[:300]), verdicts(0.1, 0.1, chance[:300]), np.full(300, True)]
    people = judge_people(["anna"] * 300 + ["bert"] * 300 + ["cleo"] * 300, chance, said)
    assert list(people) == ["anna", "bert", "cleo"]
    assert people["anna"].doubt is None
    assert "contradict what the model and the labels" in str(people["bert"].doubt)
    assert str(people["cleo"].doubt).startswith('said "right" to 300 of 300 predictions, where about 16')
    assert "do not depend on the question" in str(people["cleo"].doubt)
