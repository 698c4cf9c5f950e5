import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score

from fedrel.evaluation.heldout import by_relation, rank
from fedrel.evaluation.ranking import worth_showing
from fedrel.evaluation.selection import selection_quality
from tests.helpers import random_split


def test_a_ranking_by_hand():
    # pairs × (NA, r1, r2); true: (0, r1) and (1, r2)
    scores = np.array([[0.9, 0.8, 0.3], [0.0, 0.7, 0.6]])
    ranking = rank(scores, np.array([[0, 1], [1, 2]]))
    assert ranking.right.tolist() == [1, 0, 1, 0]
    metrics = ranking.metrics()
    assert metrics["ap"] == pytest.approx((1 + 2 / 3) / 2)
    assert not [name for name in metrics if name.startswith("p@")]  # no hundred predictions
    assert metrics["ties"] == 0
    assert metrics["max_f1"] == pytest.approx(0.8)
    assert metrics["auc"] == pytest.approx((1 / 2 + 2 / 3) / 2 * 0.5)  # from recall .5 to 1


@given(st.integers(0, 2**16), st.integers(2, 30), st.integers(2, 5))
def test_areas_agree_with_scikit_learn(seed, pairs, relations):
    draw = np.random.default_rng(seed)
    scores = draw.permutation(pairs * relations).reshape(pairs, relations) / (pairs * relations)
    truth = draw.random((pairs, relations)) < 0.3
    truth[0, 1] = True
    facts = np.argwhere(truth[:, 1:])
    facts[:, 1] += 1
    ranking = rank(scores, facts)
    metrics = ranking.metrics()
    expected = average_precision_score(truth[:, 1:].reshape(-1), scores[:, 1:].reshape(-1))
    assert metrics["ap"] == pytest.approx(expected)
    assert metrics["auc"] == pytest.approx(auc(ranking.recall, ranking.precision) if len(ranking.recall) > 1 else 0)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["facts first", "facts last"])
def test_equal_scores_favour_nobody(order):
    facts = np.stack([np.arange(10)[order], np.ones(10, int)], axis=1)
    where = facts if order.step is None else np.stack([990 + facts[:, 0], facts[:, 1]], axis=1)
    metrics = rank(np.zeros((1_000, 2)), where).metrics()
    assert metrics["p@100"] == pytest.approx(0.01)
    # the mean over all orders: a little above the share of facts, since a fact counts itself
    assert metrics["ap"] == pytest.approx(0.01, abs=0.008)
    assert metrics["ties"] == 1_000


def test_ties_of_facts_among_themselves_change_nothing():
    metrics = rank(np.array([[0, 3], [0, 3], [0, 1], [0, 1]]), np.array([[0, 1], [1, 1]])).metrics()
    assert (metrics["ap"], metrics["ties"]) == (1.0, 0)


def test_precision_of_the_first_n_exists_where_there_are_n():
    found = [rank(np.arange(2 * n).reshape(n, 2), np.array([[0, 1]])).metrics() for n in (99, 100, 299, 300)]
    names = [{name for name in metrics if name.startswith("p@")} for metrics in found]
    assert names == [
        set(),
        {"p@100", "p@mean"},
        {"p@100", "p@200", "p@mean"},
        {"p@100", "p@200", "p@300", "p@mean"},
    ]


def test_precision_of_the_first_n_is_worth_showing_where_there_are_n_facts():
    for facts, names in (
        (99, []),
        (100, ["p@100"]),
        (299, ["p@100", "p@200"]),
        (300, ["p@100", "p@200", "p@300", "p@mean"]),
    ):
        metrics = rank(np.arange(2_000).reshape(1_000, 2), np.array([[n, 1] for n in range(facts)])).metrics()
        assert metrics["facts"] == facts
        assert worth_showing(metrics) == ["auc", "auc_2000", "ap", *names, "max_f1"]
    assert worth_showing({"ap": 0.5, "p@100": 0.2}) == ["ap", "p@100"], "facts unknown"
    assert worth_showing({"micro_f1": 0.5}) == ["micro_f1"]


def test_auc_2000_looks_at_the_first_2000_predictions_only():
    draw = np.random.default_rng(0)
    scores = draw.random((1500, 3))
    facts = np.array([[i, 1] for i in range(0, 1500, 2)])
    metrics = rank(scores, facts).metrics()
    assert 0 < metrics["auc_2000"] < metrics["auc"]


def test_recall_counts_all_facts_of_the_split():
    ranking = rank(np.zeros((2, 2)), np.array([[0, 1]]))
    assert ranking.recall[-1] == 1.0


def test_relations_are_ranked_alone():
    scores = np.array([[0.0, 0.9, 0.1], [0.0, 0.2, 0.8], [0.0, 0.5, 0.9]])
    rows = by_relation(scores, np.array([[0, 1], [1, 2]]), ["NA", "a", "b", "never"][:3])
    assert rows == [{"relation": "a", "ap": 1.0, "facts": 1}, {"relation": "b", "ap": 0.5, "facts": 1}]


def test_the_drawn_curve_lies_on_the_true_one():
    draw = np.random.default_rng(0)
    ranking = rank(draw.random((900, 3)), np.array([[i, 1] for i in range(700)]))
    drawn = ranking.curve(points=50)
    points = set(zip(ranking.precision.round(5).tolist(), ranking.recall.round(5).tolist(), strict=True))
    assert set(zip(drawn["precision"], drawn["recall"], strict=True)) <= points


def test_selection_is_measured_on_sentences_with_a_relation():
    split = random_split(60, seed=3)
    labelled = np.flatnonzero(np.asarray(split.labels) > 0)
    truth = labelled[np.asarray(split.expressed)[labelled] == 1]
    perfect = selection_quality(split, truth)
    assert perfect is not None
    assert (perfect["precision"], perfect["recall"], perfect["facts"]) == (1.0, 1.0, 1.0)
    everything = selection_quality(split, np.arange(60))
    assert everything is not None
    assert everything["precision"] == pytest.approx(everything["base_rate"])


def test_selection_without_known_truth_is_not_measured():
    split = random_split(20)
    split.expressed[:] = -1
    assert selection_quality(split, np.arange(5)) is None
