"""Precision and recall of what a ranking predicts, where it is cut; confidences in tenths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrel.evaluation.calibration import reliability
from fedrel.evaluation.cut import best_cut, counts_by_relation, with_counts
from fedrel.evaluation.heldout import by_relation

#                    NA   r1   r2
SCORES = np.array([[9.0, 3.0, 0.0], [9.0, 2.0, 1.0], [9.0, -1.0, 2.5], [9.0, 0.5, -2.0]])
FACTS = np.array([[0, 1], [2, 2], [3, 1]])


def test_the_cut_with_the_best_f1():
    # By score: right (3.0), right (2.5), wrong (2.0), wrong (1.0), right (0.5): F1 is 1/2, 4/5, 2/3, 4/7, 3/4
    assert best_cut(SCORES, FACTS) == 2.5
    assert best_cut(SCORES, FACTS[:0]) is None


def test_counts_of_each_relation():
    counts = counts_by_relation(SCORES, FACTS, ["NA", "r1", "r2"], 1.0)
    assert counts == {"r1": {"predicted": 2, "right": 1}, "r2": {"predicted": 2, "right": 1}}
    rows = with_counts(by_relation(SCORES, FACTS, ["NA", "r1", "r2"]), counts)
    assert {row["relation"]: (row["precision"], row["recall"]) for row in rows} == {"r1": (0.5, 0.5), "r2": (0.5, 1.0)}
    nothing = with_counts(rows, counts_by_relation(SCORES, FACTS, ["NA", "r1", "r2"], 99.0))
    assert {(row["precision"], row["recall"]) for row in nothing} == {(None, 0.0)}


@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), st.booleans()), min_size=1, max_size=12))
def test_no_other_cut_is_better(pairs):
    scores = np.array([[0.0, score] for score, _ in pairs])
    facts = np.array([[place, 1] for place, (_, right) in enumerate(pairs) if right]).reshape(-1, 2)
    cut = best_cut(scores, facts)
    if not len(facts):
        assert cut is None
        return

    def f1(at: float) -> float:
        predicted = [right for score, right in pairs if score >= at]
        return 2 * sum(predicted) / (len(predicted) + len(facts))

    assert f1(cut) == max(f1(at) for at in (-1.0, 0.0, 1.0, 2.0))


def test_confidences_in_tenths():
    found = reliability(np.array([0.05, 0.95, 1.0]), np.array([False, True, False]), np.array([10, 3, 1]))
    assert found == [
        {"low": 0.0, "count": 10, "right": 0, "confidence": 0.05},
        {"low": 0.9, "count": 4, "right": 3, "confidence": (3 * 0.95 + 1.0) / 4},
    ]
