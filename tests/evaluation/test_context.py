"""Intervals and trivial answers, beside which a score is read."""

import numpy as np
import pytest

from fedrel.evaluation import classification
from fedrel.evaluation.context import (
    ap_interval,
    classification_interval,
    constant_ranking,
    trivial_labels,
    trivial_rankings,
)
from fedrel.evaluation.heldout import rank


def drawn(pairs, seed=0, shift=2.0):
    draw = np.random.default_rng(seed)
    facts = np.argwhere(draw.random((pairs, 3)) < 0.1)
    facts = facts[facts[:, 1] > 0]
    scores = draw.normal(size=(pairs, 3))
    scores[tuple(facts.T)] += shift
    return scores, facts


def test_an_interval_holds_the_score_and_narrows_with_more_pairs():
    widths = []
    for pairs in (50, 500, 5_000):
        scores, facts = drawn(pairs)
        low, high = ap_interval(scores, facts)
        assert low < rank(scores, facts).metrics()["ap"] < high
        widths.append(high - low)
    assert widths[0] > 2 * widths[1] > 4 * widths[2]


def test_the_interval_covers_what_fresh_pairs_score():
    scores, facts = drawn(800, seed=1)
    low, high = ap_interval(scores, facts)
    fresh = [rank(*drawn(800, seed=seed)).metrics()["ap"] for seed in range(2, 22)]
    assert sum(low <= score <= high for score in fresh) >= 12  # two intervals' worth of chance lie between them


def test_nothing_to_find_has_no_interval():
    assert ap_interval(np.zeros((4, 2)), np.zeros((0, 2), int)) is None
    assert classification_interval("accuracy", np.zeros((0, 2)), np.zeros(0, int), na=True) is None


def test_one_wrong_of_ten_by_binomial_chance():
    scores, labels = np.tile([0.0, 1.0], (10, 1)), np.r_[np.ones(9, int), 0]
    low, high = classification_interval("accuracy", scores, labels, na=True)
    assert (low, high) == (pytest.approx(0.7, abs=0.05), 1.0)


def test_trivial_rankings_by_hand():
    facts = np.array([[0, 1], [1, 1], [2, 2]])
    found = trivial_rankings("ap", (4, 3), facts, np.array([0, 1, 1, 2]))
    assert found["constant"] == pytest.approx(rank(np.zeros((4, 3)), facts).metrics()["ap"])
    assert found["frequency"] == pytest.approx(rank(np.tile([1.0, 2.0, 1.0], (4, 1)), facts).metrics()["ap"])
    assert found["frequency"] > found["constant"]
    assert constant_ranking("ap", rank(np.random.default_rng(0).random((4, 3)), facts))["constant"] == pytest.approx(
        found["constant"]
    )


def test_trivial_labels_by_hand():
    labels, train = np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 2])
    assert trivial_labels("accuracy", labels, train, 3, na=True) == {"majority": 0.6, "related": 0.2}
    assert trivial_labels("micro_f1", labels, train, 3, na=True) == {
        "majority": 0.0,
        "related": pytest.approx(classification.metrics(np.tile([0, 1, 0], (5, 1)), labels, na=True)["micro_f1"]),
    }
    assert list(trivial_labels("accuracy", labels, train, 3, na=False)) == ["majority"]


@pytest.mark.parametrize("places", [range(20), range(380, 400), range(0, 400, 20)])
def test_the_interval_of_equal_scores_does_not_depend_on_where_the_facts_stand(places):
    """All candidates alike: what matters is how many of them are facts, not which."""
    facts = np.array([(pair, 1) for pair in places])
    expected = rank(np.zeros((400, 2)), facts).metrics()["ap"]
    low, high = ap_interval(np.zeros((400, 2)), facts)
    assert low < expected < high
    assert high < 4 * expected


@pytest.mark.parametrize(("facts", "low"), [(1, 0.025), (3, 0.292), (30, 0.884), (300, 0.988)])
def test_all_right_is_no_certainty(facts, low):
    """Of a share of 0.292 three are all right once in 40 times: 0.292³ = 0.025 (Clopper and Pearson)."""
    truth = np.array([(pair, 1) for pair in range(facts)])
    scores = np.stack([np.zeros(2 * facts), np.arange(2 * facts, 0.0, -1)], axis=1)
    assert ap_interval(scores, truth) == pytest.approx((low, 1.0), abs=1e-3)
    labels = np.ones(facts, int)
    right, wrong = np.tile([0.0, 1.0], (facts, 1)), np.tile([1.0, 0.0], (facts, 1))
    assert classification_interval("accuracy", right, labels, na=True) == pytest.approx((low, 1.0), abs=1e-3)
    assert classification_interval("accuracy", wrong, labels, na=True) == pytest.approx((0.0, 1 - low), abs=1e-3)
