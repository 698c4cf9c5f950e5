"""How attacks are scored: against scikit-learn, and at the ends."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from fedrel.audit.statistics import auc, mean_of, share_of, told_apart, true_positives


@pytest.mark.parametrize("digits", [0, 1, 6])  # with many ties, some, none
def test_auc_and_true_positives_are_those_of_scikit_learn(digits):
    draw = np.random.default_rng(3)
    members, others = draw.normal(1, 1, 300).round(digits), draw.normal(0, 1, 400).round(digits)
    truth, scores = np.r_[np.ones(300), np.zeros(400)], np.r_[members, others]
    assert auc(members, others) == pytest.approx(roc_auc_score(truth, scores))
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert true_positives(members, others) == pytest.approx(true[false <= 0.01].max())


def test_intervals_hold_the_value_and_shrink_with_more_sentences():
    draw = np.random.default_rng(5)
    few, many = (told_apart(draw.normal(1, 1, n), draw.normal(0, 1, n))[0] for n in (50, 2000))
    assert few.low < few.value < few.high
    assert many.high - many.low < (few.high - few.low) / 3


def test_a_perfect_attack_on_few_sentences_proves_little():
    area, found = told_apart(np.ones(20), np.zeros(20))
    assert (area.value, found.value) == (1.0, 1.0)
    assert area.low < 0.9
    assert share_of("share", 0, 20, 0.0).high > 0.1


def test_the_interval_of_a_mean_over_platforms():
    measure = mean_of("auc", [0.6, 0.8], 0.5)
    assert (measure.value, measure.low, measure.high) == (pytest.approx(0.7), pytest.approx(0.6), pytest.approx(0.8))
