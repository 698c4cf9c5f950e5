"""Held-out evaluation: ranks every (pair, relation) by its log-odds and compares the ranking with the facts of the
split.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints
from fedrel.evaluation.ranking import Bools, Ranking


def rank(scores: npt.NDArray[np.floating], facts: Ints) -> Ranking:
    """Ranks every pair and relation other than NA. `scores` (P, R), relation 0 being NA; `facts` (F, 2) the true (pair,
    relation).
    """
    return Ranking.of(scores[:, 1:].reshape(-1), truth_table(scores.shape, facts)[:, 1:].reshape(-1))


def truth_table(shape: tuple[int, ...], facts: Ints) -> Bools:
    """(P, R) whether each pair has each relation; `shape` is (P, R), `facts` (F, 2) the true (pair, relation)."""
    truth = np.zeros(shape, dtype=bool)
    truth[facts[:, 0], facts[:, 1]] = True
    return truth


def by_relation(scores: npt.NDArray[np.floating], facts: Ints, relations: list[str]) -> list[dict[str, float | str]]:
    """The average precision and number of facts of every relation, best first; relations without a fact are left out.
    `scores` (P, R) and `facts` (F, 2) are those of `rank`.
    """
    rows: list[dict[str, float | str]] = []
    for number, name in enumerate(relations[1:], 1):
        mine = facts[facts[:, 1] == number]
        if len(mine):
            alone = rank(scores[:, [0, number]], np.stack([mine[:, 0], np.ones(len(mine), int)], axis=1))
            rows.append({"relation": name, "ap": alone.metrics()["ap"], "facts": len(mine)})
    return sorted(rows, key=lambda row: -float(row["ap"]))
