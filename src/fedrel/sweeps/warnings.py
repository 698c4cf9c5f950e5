"""What a reader of a comparison should know before believing it: rows that are one, warm-ups that never ended, training
that diverged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from fedrel.experiment.assembly import choose_method
from fedrel.experiment.divergence import LossLimit
from fedrel.sweeps.comparison import Cell

Row = Mapping[
    str, Any
]  # of a finished run: row, column, seed, test, dev, rounds, best_round; test is None if it failed


def warnings(cells: Sequence[Cell], rows: Sequence[Row], losses: Sequence[float | None], labels: int) -> list[str]:
    """A sentence for each thing that is wrong, given the runs in the order of their cells, the training loss of the
    last round of each, and the number of labels.
    """
    finished = [(cell, row, loss) for cell, row, loss in zip(cells, rows, losses, strict=True) if row["test"]]
    return [
        *_equal_rows([row for _, row, _ in finished]),
        *_unfinished_preparation([(cell, row) for cell, row, _ in finished]),
        *_divergence([(cell, loss) for cell, _, loss in finished], LossLimit(labels)),
    ]


def _equal_rows(rows: Sequence[Row]) -> list[str]:
    """Pairs of rows of which all runs, seed by seed, have the same scores to the last digit."""
    found: dict[str, dict[str, dict[tuple[str, int], object]]] = {}
    for row in rows:
        outcome = (row["dev"], row["test"], row["best_round"], row["rounds"])
        found.setdefault(row["column"], {}).setdefault(row["row"], {})[row.get("draw", ""), row["seed"]] = outcome
    return [
        f"{one} and {other} are one and the same in {column}: every score is equal to the last digit, for all seeds"
        for column, outcomes in found.items()
        for one, other in combinations(outcomes, 2)
        if outcomes[one] == outcomes[other]
    ]


def _unfinished_preparation(finished: Sequence[tuple[Cell, Row]]) -> list[str]:
    worst: dict[str, tuple[int, int]] = {}
    for cell, row in finished:
        preparation = choose_method(cell.experiment.method)[0].preparation
        if preparation >= row["rounds"]:
            worst[cell.row] = preparation, row["rounds"]
    return [
        f"{row}: its {preparation} preparatory rounds were not over after {rounds} rounds, so this is not the method "
        "itself; allow more training.rounds, or fewer rounds of preparation (method.warmup)"
        for row, (preparation, rounds) in worst.items()
    ]


def _divergence(finished: Sequence[tuple[Cell, float | None]], limit: LossLimit) -> list[str]:
    diverged = {cell.row: loss for cell, loss in finished if limit.exceeded(loss)}
    return [
        f"{row}: training diverged (a loss of {loss:.3g} in the last round, where guessing has {limit.guessing:.2g}); "
        "lower training.lr"
        for row, loss in diverged.items()
    ]
