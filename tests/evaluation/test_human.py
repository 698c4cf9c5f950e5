"""Scores by what people say of sentences, and shares with their intervals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from fedrel.evaluation.context import share_interval
from fedrel.evaluation.human import human_score, judged_sentences
from fedrel.evaluation.selection import selection_quality, truth_is_known
from tests.helpers import random_split


def judged_split(labels, expressed):
    split = random_split(len(labels), seed=1)
    return replace(split, labels=np.array(labels, np.int32), expressed=np.array(expressed, np.int8))


def test_a_sentence_that_does_not_express_its_label_states_nothing():
    split = judged_split([2, 1, 3, 0], [1, 0, -1, -1])
    rows, stated = judged_sentences(split, labelled_by_people=False)
    assert (rows.tolist(), stated.tolist()) == ([0, 1], [2, 0])
    rows, stated = judged_sentences(split, labelled_by_people=True)
    assert (rows.tolist(), stated.tolist()) == ([0, 1, 2, 3], [2, 0, 3, 0])


def test_ap_human_ranks_sentences_with_relations():
    scores = np.array([[0.0, 3.0, -9.0], [0.0, 2.0, -8.0], [0.0, 1.0, -7.0]])  # relation 1: the second is wrong
    found = human_score(scores, np.array([[0, 1], [2, 1]]))
    assert found is not None
    assert found["ap_human"] == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert (found["sentences"], found["stating"]) == (3, 2) and found["interval"][0] <= found["ap_human"]
    assert human_score(scores, np.zeros((0, 2), np.int64)) is None


@pytest.mark.parametrize(("hits", "of"), [(0, 7), (7, 7), (1, 2), (36, 100), (180, 675), (3_000, 5_000), (0, 0)])
def test_intervals_of_shares_are_those_of_clopper_and_pearson(hits, of):
    expected = binomtest(hits, of).proportion_ci(0.95, "exact") if of else (0.0, 1.0)
    assert share_interval(hits, of) == pytest.approx(tuple(expected), abs=1e-6)


def test_judged_sentences_among_unjudged_are_enough():
    split = judged_split([1, 1, 2, 2, 3, 0], [1, 0, 1, -1, -1, -1])
    split = replace(split, pairs=np.array([0, 0, 1, 2, 3, 4], np.int32))
    assert truth_is_known(split)
    found = selection_quality(split, np.array([0, 1, 3, 5]))
    assert found is not None
    assert (found["precision"], found["recall"], found["base_rate"]) == (0.5, 0.5, pytest.approx(2 / 3))
    assert (found["judged"], found["selected"], found["facts"], found["stated"]) == (3, 2, 0.5, 1.0)
    assert found["interval"] == list(share_interval(1, 2))
    unstated = replace(split, expressed=np.array([0, 0, 1, -1, -1, -1], np.int8))
    found = selection_quality(unstated, np.array([0]))
    assert found is not None and (found["stated"], found["precision"]) == (0.5, 0.0)
