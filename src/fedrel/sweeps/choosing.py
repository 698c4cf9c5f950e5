"""Settings that dev chooses for each row and column of a table: `choose = {"evaluation.bags" = ["max", "mean"]}`.

Every row is given the same search, and the test of what was not chosen is not looked at.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedrel.config import as_setting
from fedrel.errors import UserError

Grid = tuple[tuple[str, tuple[str, ...]], ...]  # settings as key=value, by key
Options = tuple[tuple[str, ...], ...]


def read_grid(value: object, what: str) -> Grid:
    """Of a section with a list of values for each key. UserError, which begins with `what`, for anything else."""
    if not isinstance(value, dict):
        raise UserError(f'{what} must be a section of lists, for example {{"evaluation.bags" = ["max", "mean"]}}')
    for key, values in value.items():
        if not isinstance(values, list) or not values or any(isinstance(it, list | dict) for it in values):
            raise UserError(f"{what}: {key} must be a list of values to choose from")
    return tuple((key, tuple(as_setting(key, it) for it in values)) for key, values in value.items())


def read_choices(choices: Iterable[str]) -> Grid:
    """Of options as the command line has them: `evaluation.bags=max,mean`."""
    found = []
    for choice in choices:
        key, equals, values = choice.partition("=")
        if not equals or not all(values.split(",")):
            raise UserError(f"--choose {choice}: write it as key=value,value, for example evaluation.bags=max,mean")
        found.append((key.strip(), tuple(f"{key.strip()}={value}" for value in values.split(","))))
    return tuple(found)


def options_of(grid: Grid) -> Options:
    """All combinations of a value for each key; of no keys one, which is empty."""
    return tuple(itertools.product(*(settings for _, settings in grid)))


def chosen_options(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[tuple[str, str], list[str]], list[Any]]:
    """By row and column, the settings that do best on dev, over runs that are given with `row`, `column`, `option` and
    `dev_score`; and for compare.json, how all did there. Of equal ones the first; those that diverged in the fewest
    runs go first.
    """
    scores: dict[tuple[str, str], dict[tuple[str, ...], list[float | None]]] = {}
    for row in rows:
        mine = scores.setdefault((row["row"], row["column"]), {})
        mine.setdefault(tuple(row["option"]), []).append(row["dev_score"])
    best, told = {}, []
    for (row_, column), found in scores.items():
        known = {option: [it for it in values if it is not None] for option, values in found.items()}
        means = {option: statistics.fmean(it) if it else -math.inf for option, it in known.items()}
        lost = {option: len(values) - len(known[option]) for option, values in found.items()}
        ranked = sorted(means, key=lambda it: (lost[it], -means[it]))
        best[row_, column] = list(ranked[0])
        if len(found) > 1:
            told += [
                {
                    "row": row_,
                    "column": column,
                    "settings": list(it),
                    "dev": means[it] if known[it] else None,
                    "n": len(known[it]),
                }
                | {"chosen": it == ranked[0]}
                for it in found
            ]
    return best, told


def edges(told: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each row whose chosen number lies at an end of three or more that it could be: beyond it may lie a
    better one.
    """
    found = []
    for option in told:
        if not option["chosen"]:
            continue
        tried = [it["settings"] for it in told if (it["row"], it["column"]) == (option["row"], option["column"])]
        for place, setting in enumerate(option["settings"]):
            key, _, value = setting.partition("=")
            numbers = {_number(it[place].partition("=")[2]) for it in tried}
            known = sorted(it for it in numbers if it is not None)
            if len(known) == len(numbers) >= 3 and _number(value) in (known[0], known[-1]):
                found.append(
                    f"{option['row']}, {option['column']}: the best {key} on dev, {value}, lies at an end of what was "
                    "tried; try values beyond it"
                )
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
