"""The case study of the distant supervision paper: which sentences of the same facts each method trains on."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from fedrel.config import Experiment
from fedrel.data.store import Ints, fact_bags
from fedrel.errors import UserError
from fedrel.experiment.assembly import Setup, prepare
from fedrel.experiment.execution import BEST
from fedrel.experiment.showcase import look
from fedrel.protocol import checkpoint
from fedrel.util.escaping import shown

_FACTS, _SENTENCES = 5, 8


def case_study(runs: Sequence[tuple[str, Experiment, Path]]) -> str:
    """As Markdown, from (label, experiment, folder) of runs on the same platforms. The first chooses sentences; shown
    are the facts with the most sentences of which it takes some and leaves some. A method that does not choose
    trains on all.
    """
    taken: dict[str, Ints | None] = {}
    first: Setup | None = None
    for label, experiment, folder in runs:
        setup = prepare(experiment)
        first = first or setup
        state = checkpoint.load(folder / "checkpoint").state
        seen = look(setup, checkpoint.load_weights(folder / "checkpoint" / BEST), state)
        taken[label] = None if seen is None else seen.selected
    chosen = taken[runs[0][0]]
    if first is None or chosen is None:
        raise UserError(f'a case study needs a method that chooses sentences; "{runs[0][0]}" trains on all')
    return "\n\n".join(_fact(first, rows, taken) for rows in _facts(first, chosen)) + "\n"


def _facts(setup: Setup, chosen: Ints) -> list[Ints]:
    """The training rows of each fact, the largest facts first."""
    train = setup.dataset.train
    rows, starts = fact_bags(train, np.flatnonzero(np.asarray(train.labels) > 0))
    is_chosen = np.zeros(len(train), dtype=bool)
    is_chosen[chosen] = True
    bags = [rows[begin:end] for begin, end in pairwise(starts)]
    told_apart = [bag for bag in bags if 0 < is_chosen[bag].sum() < len(bag) <= _SENTENCES]
    return sorted(told_apart, key=len, reverse=True)[:_FACTS]


def _fact(setup: Setup, rows: Ints, taken: dict[str, Ints | None]) -> str:
    dataset, train = setup.dataset, setup.dataset.train
    holder = {int(row): name for name, held in setup.sites.rows.items() for row in held[np.isin(held, rows)]}
    tokens, (begin, end, first, last) = dataset.sentence(train, int(rows[0])), train.spans[rows[0]]
    head, tail = " ".join(tokens[begin:end]), " ".join(tokens[first:last])  # as the first sentence has them
    lines = [
        f"**{_cell(head)}** · {_cell(dataset.relations[train.labels[rows[0]]])} · **{_cell(tail)}**",
        "",
        f"| platform | sentence | expresses it | {' | '.join(map(_cell, taken))} |",
        f"|---|---|---|{'---|' * len(taken)}",
    ]
    for row in map(int, rows):
        text = _cell(" ".join(dataset.sentence(train, row)))
        truth = {-1: "unknown", 0: "no", 1: "yes"}[int(train.expressed[row])]
        marks = ("✓" if picked is None or row in picked else "✗" for picked in taken.values())
        lines.append(f"| {_cell(holder[row])} | {text} | {truth} | {' | '.join(marks)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text as it is, in one cell of a table: Markdown would take a tag in it for HTML."""
    return html.escape(shown(text), quote=False).replace("|", "\\|")
