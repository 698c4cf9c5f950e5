"""Metrics of everybody's candidates, from counts in bins: those of the exact ranking, as far as bins tell its order."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrel.errors import DivergedError
from fedrel.evaluation import classification
from fedrel.evaluation.calibration import ece, fit_calibration
from fedrel.evaluation.federated import packed, pooled, pooled_confusion
from fedrel.evaluation.histograms import BINS, Histogram, bin_centres, bins_of
from fedrel.evaluation.ranking import Ranking
from fedrel.learning.named import Named

log_odds = st.floats(-1e4, 1e4, width=32) | st.floats(-20, 20, width=32)
candidates = st.lists(st.tuples(log_odds, st.booleans()), min_size=1, max_size=60)


def columns(drawn):
    return np.array([score for score, _ in drawn], np.float32), np.array([right for _, right in drawn], bool)


def exact(scores, right):
    """Of the candidates in this order, where scores are equal."""
    order = np.argsort(-scores, kind="stable")
    return Ranking(np.ones(len(scores)), right[order].astype(float)).metrics()


# ---------------------------------------------------------------------------------------------------- bins


@given(st.lists(log_odds, min_size=1))
def test_a_higher_score_is_never_in_a_lower_bin(scores):
    ordered = np.sort(np.array(scores, np.float32))
    found = bins_of(ordered)
    assert (np.diff(found) >= 0).all()
    assert found.min() >= 0
    assert found.max() < BINS
    assert np.array_equal(bins_of(bin_centres()[found]), found)


def test_bins_are_narrow_where_predictions_are():
    for score in (-15.0, -1.0, 0.0, 5.0, 17.0, 40.0):  # a probability in 32 bits is 1 from 17 on
        assert len(set(bins_of(np.array([score, score + 1 / 4096], np.float32)))) == 2
    for score in (-200.0, 100.0, 255.0):
        assert len(set(bins_of(np.array([score, score + 1 / 256], np.float32)))) == 2
    assert len(set(bins_of(np.array([-1e30, -1e6, -257, 257, 1e6, 1e30])))) == 6


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(DivergedError, match=r"lower training\.lr"):
        bins_of(np.array([0.5, np.nan], np.float32))


# ------------------------------------------------------------------------------------------------- metrics


@given(candidates)
def test_where_no_bin_is_mixed_every_metric_is_exact(drawn):
    scores, right = columns(drawn)
    histogram = Histogram.of(scores, right)
    mixed = (histogram.right > 0) & (histogram.wrong > 0)
    kept = ~mixed[bins_of(scores)]
    found = Histogram.of(scores[kept], right[kept]).ranking.metrics()
    assert found["ties"] == 0
    assert found == pytest.approx(exact(scores[kept], right[kept]), abs=1e-9)


@given(st.lists(st.tuples(st.sampled_from([-2, 6]), st.booleans()), min_size=1, max_size=6))
def test_inside_a_bin_a_metric_is_its_mean_over_all_orders(drawn):
    scores, right = columns(drawn)
    tried = [exact(scores[list(order)], right[list(order)]) for order in permutations(range(len(scores)))]
    found = Histogram.of(scores, right).ranking.metrics()
    assert found == pytest.approx(Ranking.of(scores, right).metrics())
    for name in ("ap", "auc", "auc_2000"):
        assert found[name] == pytest.approx(np.mean([one[name] for one in tried]), abs=1e-9), name
    assert found["max_f1"] <= max(one["max_f1"] for one in tried) + 1e-12


@given(st.integers(0, 2**16), st.floats(0.3, 4), st.floats(-6, 0))
def test_of_thousands_of_scores_that_lie_close_no_metric_is_a_thousandth_off(seed, spread, centre):
    scores, right = ranked(seed, 20_000, spread, centre)
    found, true = Histogram.of(scores, right).ranking.metrics(), exact(scores, right)
    assert {name: abs(found[name] - true[name]) for name in ("ap", "auc", "auc_2000")} == pytest.approx(
        dict.fromkeys(("ap", "auc", "auc_2000"), 0), abs=0.001
    )
    assert abs(found["max_f1"] - true["max_f1"]) < 0.002
    assert all(abs(found[f"p@{n}"] * n - true[f"p@{n}"] * n) < 1 for n in (100, 200, 300))  # less than one prediction


def ranked(seed, size, spread, centre):
    draw = np.random.default_rng(seed)
    right = draw.random(size) < 0.02
    logit = draw.normal(centre, spread, size) + 2 * spread * right
    return logit.astype(np.float32), right


def test_the_first_2000_predictions_alone():
    scores, right = ranked(3, 9_000, 2.0, -2.0)
    distinct = np.unique(bins_of(scores), return_index=True)[1]  # one candidate a bin
    scores, right = scores[distinct], right[distinct]
    found, true = Histogram.of(scores, right).ranking, exact(scores, right)
    assert len(scores) > 2000
    assert 0 < true["auc_2000"] < true["auc"]
    assert found.metrics() == pytest.approx(true, abs=1e-9)
    assert found.curve() == Ranking.of(scores, right).curve()


def test_counts_that_nobody_has_cost_nothing():
    many = Histogram(np.full(BINS, 10**9), np.full(BINS, 10**9))
    found = many.ranking.metrics()
    assert all(0.49 < value < 0.67 for name, value in found.items() if name not in ("auc_2000", "ties", "facts"))
    nothing = Histogram(np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)).ranking.metrics()
    assert nothing == dict.fromkeys(("auc", "auc_2000", "ap", "max_f1", "ties", "facts"), 0.0)
    assert Histogram.of(np.zeros(0), np.zeros(0, bool)).ranking.curve() == {"precision": [], "recall": []}


# -------------------------------------------------------------------------------------------- many platforms


@given(candidates, st.data())
def test_it_does_not_matter_who_holds_what(drawn, data):
    scores, right = columns(drawn)
    holder = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(scores), max_size=len(scores))))
    parts = [packed(Histogram.of(scores[holder == n], right[holder == n])) for n in range(4)]
    whole, summed = Histogram.of(scores, right), pooled(parts)
    assert np.array_equal(summed.right, whole.right)
    assert np.array_equal(summed.wrong, whole.wrong)
    assert summed.ranking.metrics() == whole.ranking.metrics()
    assert summed.facts == right.sum()
    assert all(len(part["bin"]) <= (holder == n).sum() for n, part in enumerate(parts))


@given(st.integers(1, 40), st.integers(2, 5), st.integers(0, 2**16), st.booleans())
def test_predictions_of_all_platforms_are_counted_exactly(size, classes, seed, na):
    draw = np.random.default_rng(seed)
    scores, labels, holder = draw.random((size, classes)), draw.integers(0, classes, size), draw.integers(0, 3, size)
    parts = [classification.count(scores[holder == n], labels[holder == n]) for n in range(3)]
    counts = pooled_confusion((Named(counts=torch_of(part)) for part in parts), classes)
    assert classification.metrics_of(counts, na=na) == classification.metrics(scores, labels, na=na)
    assert np.array_equal(counts, classification.count(scores, labels))


def torch_of(counts):
    import torch

    return torch.from_numpy(counts)


@given(arrays(np.int64, 6, elements=st.integers(1, 5)), arrays(np.float64, 6, elements=st.floats(0, 1)))
def test_a_score_that_occurs_often_is_that_score_often(times, scores):
    right = np.array([True, False, True, True, False, False])
    counted, listed = (
        fit_calibration(scores, right, times),
        fit_calibration(np.repeat(scores, times), np.repeat(right, times)),
    )
    assert counted.confidence(scores) == pytest.approx(listed.confidence(scores), abs=1e-3)
    scores = 1 / (1 + np.exp(-scores))
    assert ece(scores, right, times) == pytest.approx(ece(np.repeat(scores, times), np.repeat(right, times)))
