import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, precision_recall_fscore_support

from fedrel.evaluation.classification import METRICS, by_class, count, metrics

RELATIONS = ["NA", "born_in", "works_for"]


def scores_of(predictions: list[int], classes: int) -> np.ndarray:
    """Scores (S, R) that make these predictions."""
    return np.eye(classes)[predictions]


@st.composite
def predicted(draw):
    """Scores (S, R), coarse so that ties are common, and labels (S,); classes may be missing from either."""
    sentences, classes = draw(st.integers(1, 40)), draw(st.integers(2, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    scores = random.integers(0, 4, (sentences, classes)) / 4
    return scores, random.integers(0, draw(st.integers(1, classes)), sentences)


def test_with_na_by_hand():
    # truth NA NA born born works; said NA born born works works
    labels = np.array([0, 0, 1, 1, 2])
    scores = scores_of([0, 1, 1, 2, 2], 3)
    assert metrics(scores, labels, na=True) == pytest.approx(
        {
            "micro_f1": 2 * 2 / (4 + 3),  # 2 of the 4 relations said are right, 2 of the 3 true ones found
            "micro_precision": 2 / 4,
            "micro_recall": 2 / 3,
            "macro_f1": (1 / 2 + 2 / 3) / 2,
            "accuracy": 3 / 5,
        }
    )
    assert by_class(count(scores, labels), RELATIONS, na=True) == [
        {"relation": "works_for", "precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "support": 1},
        {"relation": "born_in", "precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2},
    ]
    assert count(scores, labels).tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 1]]


def test_without_na_by_hand():
    labels = np.array([0, 0, 1, 1, 2])
    scores = scores_of([0, 1, 1, 2, 2], 3)
    found = metrics(scores, labels, na=False)
    assert found["micro_f1"] == found["micro_precision"] == found["micro_recall"] == found["accuracy"] == 3 / 5
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 / 2 + 2 / 3) / 3)
    assert [row["relation"] for row in by_class(count(scores, labels), RELATIONS, na=False)] == [
        "NA",
        "works_for",
        "born_in",
    ]


def test_of_equal_scores_the_first_class_is_the_prediction():
    assert count(np.array([[0.5, 0.5, 0.1], [0.1, 0.3, 0.3]]), np.array([1, 2])).tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
    ]


def test_nothing_to_find_and_nothing_found_is_zero():
    only_na = metrics(scores_of([0, 0], 3), np.array([0, 0]), na=True)
    assert only_na == dict.fromkeys(METRICS, 0.0) | {"accuracy": 1.0}
    assert metrics(np.zeros((0, 3)), np.zeros(0, np.int32), na=True) == dict.fromkeys(METRICS, 0.0)
    assert by_class(count(scores_of([0, 0], 3), np.array([0, 0])), RELATIONS, na=True) == []


def test_a_class_without_support_that_was_predicted_counts():
    labels, scores = np.array([1, 1]), scores_of([1, 2], 4)
    rows = by_class(count(scores, labels), [*RELATIONS, "never"], na=True)
    assert [(row["relation"], row["support"]) for row in rows] == [("born_in", 2), ("works_for", 0)]
    assert metrics(scores, labels, na=True)["macro_f1"] == pytest.approx((2 / 3 + 0) / 2)


def test_small_label_types_do_not_overflow():
    labels = np.full(3, 120, np.int8)
    assert count(scores_of([120] * 3, 121), labels)[120][120] == 3


@given(predicted(), st.booleans())
def test_scores_agree_with_scikit_learn(case, na):
    scores, labels = case
    predictions, classes = scores.argmax(axis=1), range(int(na), scores.shape[1])
    found = metrics(scores, labels, na=na)
    assert tuple(found) == METRICS
    micro = precision_recall_fscore_support(labels, predictions, labels=classes, average="micro", zero_division=0)
    assert (found["micro_precision"], found["micro_recall"], found["micro_f1"]) == pytest.approx(micro[:3])
    occurring = sorted(({*labels.tolist()} | {*predictions.tolist()}) & {*classes})
    macro = f1_score(labels, predictions, labels=occurring, average="macro", zero_division=0) if occurring else 0.0
    assert found["macro_f1"] == pytest.approx(macro)
    assert found["accuracy"] == pytest.approx(accuracy_score(labels, predictions))
    if not na:
        assert found["micro_f1"] == found["accuracy"]


@given(predicted(), st.booleans())
def test_classes_agree_with_scikit_learn(case, na):
    scores, labels = case
    predictions, names = scores.argmax(axis=1), [f"r{number}" for number in range(scores.shape[1])]
    rows = by_class(count(scores, labels), names, na=na)
    assert [row["f1"] for row in rows] == sorted((row["f1"] for row in rows), reverse=True)
    numbers = [names.index(str(row["relation"])) for row in rows]
    assert {*numbers} == ({*labels.tolist()} | {*predictions.tolist()}) - ({0} if na else set())
    if rows:
        expected = precision_recall_fscore_support(labels, predictions, labels=numbers, zero_division=0)
        for key, values in zip(("precision", "recall", "f1", "support"), expected, strict=True):
            assert [row[key] for row in rows] == pytest.approx(list(values))
    everything = confusion_matrix(labels, predictions, labels=range(scores.shape[1]))
    assert count(scores, labels).tolist() == everything.tolist()


@given(predicted())
def test_two_classes_with_na_are_the_binary_f1(case):
    scores, labels = case[0][:, :2], case[1] % 2
    predictions = scores.argmax(axis=1)
    assert metrics(scores, labels, na=True)["micro_f1"] == pytest.approx(f1_score(labels, predictions, zero_division=0))
