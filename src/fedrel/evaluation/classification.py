"""Metrics for gold data, where every sentence has one label and the prediction is the label with the highest score.

`na` says whether class 0 is NA, "no relation". Micro and macro scores leave NA out, since a system is evaluated on the
relations it finds; accuracy counts every sentence. A score with a denominator of 0 is 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

METRICS = ("micro_f1", "micro_precision", "micro_recall", "macro_f1", "accuracy")


def metrics(scores: npt.NDArray[np.floating], labels: Ints, *, na: bool) -> dict[str, float]:
    """The metrics named in METRICS, from `scores` (S, R) and `labels` (S,).

    Micro scores pool all classes other than NA: with NA and one relation, micro F1 is the binary F1 of the relation;
    without NA, it is accuracy. `macro_f1` is the mean over the classes other than NA that occur in the labels or among
    the predictions: a class in neither cannot be right or wrong.
    """
    return metrics_of(count(scores, labels), na=na)


def metrics_of(counts: Counts, *, na: bool) -> dict[str, float]:
    """The metrics named in METRICS, from the confusion matrix `counts` (R, R) by label and prediction."""
    found, predicted, true = (per_class[int(na) :] for per_class in _per_class(counts))
    occurs = predicted + true > 0
    macro = _f1(found, predicted, true)[occurs]
    every = np.stack([found.sum(), predicted.sum(), true.sum()])[:, None]  # (3, 1): all classes as one
    return {
        "micro_f1": float(_f1(*every)[0]),
        "micro_precision": float(_ratio(every[0], every[1])[0]),
        "micro_recall": float(_ratio(every[0], every[2])[0]),
        "macro_f1": float(macro.mean()) if len(macro) else 0.0,
        "accuracy": float(np.trace(counts) / max(counts.sum(), 1)),
    }


def by_class(counts: Counts, relations: list[str], *, na: bool) -> list[dict[str, float | str]]:
    """Precision, recall, F1 and support of every class, best F1 first, from the confusion matrix `counts` (R, R). NA is
    left out, and so are classes that are neither in the labels nor among the predictions.
    """
    found, predicted, true = _per_class(counts)
    precision, recall, f1 = _ratio(found, predicted), _ratio(found, true), _f1(found, predicted, true)
    rows: list[dict[str, float | str]] = [
        {
            "relation": name,
            "precision": float(precision[number]),
            "recall": float(recall[number]),
            "f1": float(f1[number]),
            "support": int(true[number]),
        }
        for number, name in enumerate(relations)
        if number >= int(na) and predicted[number] + true[number]
    ]
    return sorted(rows, key=lambda row: -float(row["f1"]))


def count(scores: npt.NDArray[np.floating], labels: Ints) -> Counts:
    """The confusion matrix (R, R) by label and prediction, NA included, from `scores` (S, R) and `labels` (S,). Of
    equal scores the first wins, so that results are reproducible.
    """
    classes = scores.shape[1]
    predictions = scores.argmax(axis=1)  # (S,)
    return np.bincount(labels * np.int64(classes) + predictions, minlength=classes**2).reshape(classes, classes)


def _per_class(counts: Counts) -> tuple[Counts, Counts, Counts]:
    """By class, (R,) each: the sentences predicted correctly, predicted, and labelled."""
    return np.diagonal(counts), counts.sum(axis=0), counts.sum(axis=1)


def _ratio(part: Counts, whole: Counts) -> Floats:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _f1(found: Counts, predicted: Counts, true: Counts) -> Floats:
    return _ratio(2 * found, predicted + true)
