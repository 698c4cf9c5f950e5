"""What a model gets wrong on test, with the sentences: for the report of a run whose text is all in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from fedrel.data.store import Ints
from fedrel.evaluation.calibration import Calibration, Floats
from fedrel.evaluation.heldout import truth_table
from fedrel.evaluation.task import Classification
from fedrel.experiment.assembly import Setup

_SHOWN, _SENTENCES = 8, 2  # mistakes of a kind; sentences of a pair
_OF_ONE = 2  # mistakes of a kind that are of one relation


def mistakes(setup: Setup, scores: Floats, calibration: Calibration, cut: float | None) -> dict[str, Any]:
    """`wrong`: predictions that test does not have, the surest first. `missed`: facts that were not predicted, the
    least sure first; of gold labels none, since each is taken for another label. `scores` (bags, R) are those of test;
    of a ranking, what scores `cut` or more is predicted.
    """
    if isinstance(setup.evaluation, Classification):
        return {"wrong": _taken_for_others(setup, scores, calibration), "missed": []}
    if cut is None:
        return {"wrong": [], "missed": []}
    right = truth_table(scores.shape, setup.dataset.test.facts)
    right[:, 0] = True  # NA is no prediction
    wrong = np.argwhere((scores >= cut) & ~right)
    right[:, 0] = False
    missed = np.argwhere((scores < cut) & right)
    rows, starts = setup.evaluation.bags(setup.dataset.test)

    def shown(places: Ints) -> Iterable[dict[str, Any]]:
        for bag, relation in places:
            yield {
                "relation": setup.dataset.relations[relation],
                "confidence": float(calibration.confidence(scores[bag, relation])),
                "truth": [setup.dataset.relations[it] for it in np.flatnonzero(right[bag])],
                "sentences": [_sentence(setup, int(row)) for row in rows[starts[bag] : starts[bag + 1]][:_SENTENCES]],
                "of": int(starts[bag + 1] - starts[bag]),
            }

    return {"wrong": _some(shown(_by(scores, wrong, -1))), "missed": _some(shown(_by(scores, missed, 1)))}


def _taken_for_others(setup: Setup, scores: Floats, calibration: Calibration) -> list[dict[str, Any]]:
    """Sentences with another gold label than the one predicted."""
    labels, predicted = np.asarray(setup.dataset.test.labels).astype(np.int64), scores.argmax(axis=1)
    wrong = np.flatnonzero(predicted != labels)
    places = np.stack([wrong, predicted[wrong]], axis=1)
    relations = setup.dataset.relations
    return _some(
        {
            "relation": relations[label],
            "confidence": float(calibration.confidence(scores[row, label])),
            "truth": [relations[labels[row]]],
            "sentences": [_sentence(setup, int(row))],
            "of": 1,
        }
        for row, label in _by(scores, places, -1)
    )


def _by(scores: Floats, places: Ints, sign: int) -> Ints:
    """(n, 2) places in the order of their scores, rising or falling."""
    return places[np.argsort(sign * scores[places[:, 0], places[:, 1]], kind="stable")]


def _some(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first few, of different relations."""
    kept: list[dict[str, Any]] = []
    seen = Counter[str]()
    for it in found:
        if seen[it["relation"]] < _OF_ONE:
            seen[it["relation"]] += 1
            kept.append(it)
        if len(kept) == _SHOWN:
            break
    return kept


def _sentence(setup: Setup, row: int) -> dict[str, Any]:
    test = setup.dataset.test
    return {
        "tokens": setup.dataset.sentence(test, row),
        "head": test.spans[row, :2].tolist(),
        "tail": test.spans[row, 2:].tolist(),
    }
