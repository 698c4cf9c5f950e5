"""Predictions instead of a ranking: what is found, and what of it is right, where the ranking is cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedrel.data.store import Ints
from fedrel.evaluation.calibration import Floats
from fedrel.evaluation.heldout import truth_table


def best_cut(scores: Floats, facts: Ints) -> float | None:
    """The score from which on (pair, relation) are predicted so that F1 is highest; None if there is no fact. Relation
    0 is NA. `scores` (P, R), `facts` (F, 2).
    """
    if not len(facts):
        return None
    flat = scores[:, 1:].reshape(-1)
    order = np.argsort(-flat, kind="stable")
    found = np.cumsum(truth_table(scores.shape, facts)[:, 1:].reshape(-1)[order])
    ordered = flat[order]
    ends = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True])  # equal scores are predicted together
    f1 = 2 * found[ends] / (ends + 1 + len(facts))
    return float(ordered[ends[f1.argmax()]])


def counts_by_relation(scores: Floats, facts: Ints, relations: list[str], cut: float) -> dict[str, dict[str, int]]:
    """For each relation but NA, how many pairs are `predicted` to have it from this score on, and how many of these are
    `right`. `scores` (P, R), `facts` (F, 2).
    """
    is_predicted = scores >= cut
    is_right = is_predicted & truth_table(scores.shape, facts)
    predicted, right = is_predicted.sum(axis=0), is_right.sum(axis=0)
    return {
        name: {"predicted": int(predicted[number]), "right": int(right[number])}
        for number, name in enumerate(relations)
        if number
    }


def with_counts(rows: Iterable[Mapping[str, Any]], counts: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Rows of `heldout.by_relation`, each with the counts of its relation, precision and recall."""
    found = []
    for row in rows:
        mine = counts[str(row["relation"])]
        precision = mine["right"] / mine["predicted"] if mine["predicted"] else None
        found.append({**row, **mine, "precision": precision, "recall": mine["right"] / row["facts"]})
    return found
