"""Confidences: fitted as the formula says, better where there is something to learn, unharmed where there is not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from fedrel.evaluation.calibration import Calibration, candidates, ece, fit_calibration, readable, supported

shares = st.floats(0, 1)
log_odds = st.floats(-40, 40)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def drawn(slope, offset, size=4_000, seed=0):
    """Log-odds that are normal, and labels that come true with σ(slope·log-odds + offset)."""
    draw = np.random.default_rng(seed)
    logit = draw.normal(0, 1.5, size)
    return logit, draw.random(size) < sigmoid(slope * logit + offset)


# --------------------------------------------------------------------------------------------------- fitting


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (0.4, -1.0), (2.5, 0.7), (0.1, 2.0)])
def test_it_is_logistic_regression_on_the_log_odds(slope, offset):
    scores, right = drawn(slope, offset)
    theirs = LogisticRegression(C=np.inf, tol=1e-10).fit(scores[:, None], right)
    fitted = fit_calibration(scores, right)
    # Platt's targets shrink a little: by one sentence on either side, of thousands.
    assert 1 / fitted.temperature == pytest.approx(theirs.coef_[0, 0], rel=0.02, abs=0.01)
    assert fitted.offset == pytest.approx(theirs.intercept_[0], rel=0.02, abs=0.01)


@given(st.lists(st.tuples(log_odds, st.booleans()), min_size=2, max_size=60))
def test_no_slope_and_offset_near_by_make_the_targets_likelier(data):
    scores, right = np.array([s for s, _ in data]), np.array([r for _, r in data])
    fitted = fit_calibration(scores, right)
    if fitted.ece_after is None:
        assert fitted == Calibration(most=supported(right.sum()))
        return
    yes, no = right.sum(), (~right).sum()
    target = np.where(right, (yes + 1) / (yes + 2), 1 / (no + 2))

    def loss(slope, offset):
        z = slope * scores + offset
        return (np.logaddexp(0, z) - target * z).sum()

    best = loss(1 / fitted.temperature, fitted.offset)
    for d_slope, d_offset in [(1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)]:
        assert best <= loss(1 / fitted.temperature + d_slope, fitted.offset + d_offset) + 1e-6


def test_a_model_too_sure_of_itself_is_corrected():
    scores, right = drawn(0.4, -0.5)
    fitted = fit_calibration(scores, right)
    assert fitted.temperature == pytest.approx(2.5, rel=0.1)
    assert fitted.ece_before == pytest.approx(ece(sigmoid(scores), right))
    assert fitted.ece_before > 0.15
    assert fitted.ece_after == ece(fitted.confidence(scores), right) < 0.03
    unseen, truth = drawn(0.4, -0.5, seed=1)
    assert ece(fitted.confidence(unseen), truth) < 0.04


@pytest.mark.parametrize("threshold", [-14, 0, 14])
def test_data_that_a_threshold_divides_keeps_all_numbers_finite(threshold):
    scores = np.linspace(-18, 18, 200)
    fitted = fit_calibration(scores, scores > threshold)
    assert 0 < fitted.temperature < np.inf
    assert np.isfinite(fitted.offset)
    confidence = fitted.confidence(scores)
    assert np.isfinite(confidence).all()
    assert confidence[-1] > 0.8
    assert confidence[0] < 0.2


@pytest.mark.parametrize(
    ("scores", "right"),
    [
        ([], []),
        ([-2, 3], [True, True]),
        ([-2, 3], [False, False]),
        ([-4, -2, 2, 4], [True, True, False, False]),  # higher scores are worse
    ],
)
def test_where_there_is_nothing_to_learn_scores_stay(scores, right):
    fitted = fit_calibration(np.array(scores, np.float32), np.array(right, bool))
    assert fitted == Calibration(most=supported(sum(right)))
    assert (fitted.ece_before, fitted.ece_after) == (None, None)
    free = replace(fitted, most=1.0)
    np.testing.assert_allclose(free.confidence(np.array(scores)), sigmoid(np.array(scores)), atol=1e-9)


# ------------------------------------------------------------------------------------------------ confidence


@given(
    st.lists(st.floats(-1_000, 1_000, width=32), max_size=50),
    st.floats(0.05, 50),
    st.floats(-20, 20),
    st.sampled_from([np.float32, np.float64]),
)
def test_confidence_keeps_the_order_of_scores(scores, temperature, offset, kind):
    ordered = np.sort(np.array(scores, kind))
    confidence = Calibration(temperature, offset).confidence(ordered)
    assert (np.diff(confidence) >= 0).all()
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_confidence_is_the_formula():
    scores = np.array([[-2.5, 0.0], [2.2, 7.0]])
    expected = sigmoid(scores / 2 + 0.3)
    np.testing.assert_allclose(Calibration(2.0, 0.3).confidence(scores), expected, rtol=1e-12)


@pytest.mark.parametrize("right", [1, 11, 100])
def test_the_surest_of_a_small_dev_still_differ_in_what_is_written(right):
    """A model that is sure of what it says, with scores of 10 to 40, and a dev set that supports little."""
    z = np.sort(np.random.default_rng(1).uniform(10, 40, 2_000))
    found = Calibration(most=supported(right)).log_odds(z)
    assert (np.diff(found) > 0).all()
    for written in (found.round(9), np.array([readable(it) for it in found])):
        assert len(np.unique(written)) >= 0.999 * len(z)


@pytest.mark.parametrize(("right", "most"), [(0, 0.05), (1, 0.05), (5, 0.549), (29, 0.902), (300, 0.990)])
def test_no_confidence_is_higher_than_dev_supports(right, most):
    """The chance that n draws of a share of 0.9 are all right is below 5 % from n = 29 on."""
    assert supported(right) == pytest.approx(most, abs=5e-4)
    bounded = Calibration(1.5, 0.2, most=supported(right))
    z = np.linspace(-30, 30, 400)
    confidence = bounded.confidence(z)
    assert confidence.max() <= supported(right) + 1e-12
    assert (np.diff(bounded.log_odds(z)) > 0)[: np.searchsorted(z, 15)].all()
    far_below = z < np.log(most / (1 - most)) * 1.5 - 6
    np.testing.assert_allclose(confidence[far_below], sigmoid(z / 1.5 + 0.2)[far_below], rtol=0.02)


def test_one_fact_in_dev_makes_nobody_sure():
    fitted = fit_calibration(np.array([9.0, -8.0, -7.0, -9.0, -6.0]), np.array([True, False, False, False, False]))
    assert fitted.confidence(np.array([50.0]))[0] <= 0.05


def test_what_is_nearly_certain_is_told_apart():
    assert [readable(z) for z in (0.0, 2.0, -2.0)] == [0.5, 0.880797078, 0.119202922]
    assert readable(17.0) == 0.9999999586006245  # 1.0 in 32 bits, like everything above it
    assert readable(-17.0) == 4.13993755e-08
    shown = [readable(z) for z in np.arange(-30, 30, 0.01)]
    assert len(set(shown)) == len(shown)
    assert shown == sorted(shown)


# ------------------------------------------------------------------------------------------------------- ece


def slow_ece(confidence, right):
    bins = [[] for _ in range(15)]
    for c, r in zip(confidence, right, strict=True):
        bins[min(int(c * 15), 14)].append((c, r))
    gaps = [
        abs(sum(c for c, _ in inside) / len(inside) - sum(r for _, r in inside) / len(inside)) * len(inside)
        for inside in bins
        if inside
    ]
    return sum(gaps) / len(confidence) if confidence else 0.0


@given(st.lists(st.tuples(shares, st.booleans()), max_size=80))
def test_ece_is_the_mean_gap_between_confidence_and_accuracy(data):
    confidence, right = [c for c, _ in data], [r for _, r in data]
    assert ece(np.array(confidence), np.array(right, bool)) == pytest.approx(slow_ece(confidence, right), abs=1e-12)


def test_ece_by_hand():
    assert ece(np.array([1.0, 1.0, 0.0, 0.0]), np.array([True, True, False, False])) == 0
    assert ece(np.array([0.99, 0.99]), np.array([True, False])) == pytest.approx(0.49)
    assert ece(np.array([0.2, 0.9]), np.array([True, True])) == pytest.approx(0.45)


# ------------------------------------------------------------------------------------------------ candidates


def test_a_candidate_is_the_best_relation_of_a_pair_whatever_na_scores():
    scores = np.array([[0.9, 0.2, 0.3], [0.1, 0.8, 0.7], [0.5, 0.1, 0.1]])
    facts = np.array([[1, 1], [0, 1]])
    best, right = candidates(scores, facts)
    assert best.tolist() == [0.3, 0.8, 0.1]
    assert right.tolist() == [False, True, False]


def test_no_pairs_make_no_candidates():
    best, right = candidates(np.zeros((0, 3)), np.zeros((0, 2), int))
    assert (len(best), len(right)) == (0, 0)
    assert fit_calibration(best, right) == Calibration(most=supported(0))
