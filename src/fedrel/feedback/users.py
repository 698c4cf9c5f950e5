"""Simulated users who judge predictions with a known reliability (Sharma et al., NAACL 2022, sections 3.2 and 5.4.2).

A user calls a correct prediction right with probability γ and an incorrect one wrong with probability δ. Measured users
are read from a CSV or TSV file with a header row; `weight` is optional:

    user,gamma,delta,weight
    w1,0.91,0.64,38
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedrel.corpus.columns import shortened
from fedrel.corpus.lines import numbered_lines
from fedrel.errors import UserError, suggest
from fedrel.util.seeds import derive, generator

_SKEW = 10  # of the paper's Beta(10, 1) and Beta(1, 10)
# The signs of γ and δ: + draws from Beta(10, 1), near 1, and - from Beta(1, 10), near 0.
_SKEWED = {"low-noise": "++", "adversarial": "--", "always-positive": "+-", "always-negative": "-+"}
BEHAVIOURS = ("fixed", *_SKEWED, "table")
_COLUMNS = ("user", "gamma", "delta")
_WEIGHT = "weight"
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class User:
    """How reliably a user judges."""

    gamma: float  # P(says right | the prediction is correct)
    delta: float  # P(says wrong | the prediction is incorrect)


def draw_users(
    behaviour: str,
    count: int,
    seed: int,
    *,
    gamma: float = 1.0,
    delta: float = 1.0,
    table: Path | None = None,
) -> list[User]:
    """`count` users of one of BEHAVIOURS. "fixed" uses `gamma` and `delta`; "table" draws from the measured users of a
    file, without replacement if there are enough of them, as the paper does. Raises UserError for an unknown behaviour,
    a rate outside 0 to 1, or a missing or malformed table.
    """
    if behaviour not in BEHAVIOURS:
        raise UserError(f'feedback.users = "{behaviour}" is not a behaviour{suggest(behaviour, BEHAVIOURS)}')
    if behaviour == "fixed":
        for name, rate in (("gamma", gamma), ("delta", delta)):
            if not 0 <= rate <= 1:
                raise UserError(f"feedback.{name} = {rate:g} is not a probability; it must be between 0 and 1")
        return [User(gamma, delta)] * count
    if behaviour == "table":
        if table is None:
            raise UserError('feedback.users = "table" needs feedback.table, a file with columns user, gamma, delta')
        return _drawn(table, count, seed)
    return [User(*_skewed(_SKEWED[behaviour], derive(seed, "user", place))) for place in range(count)]


def judge(predicted: Tensor, truth: Tensor, user: User, generator: torch.Generator) -> Tensor:
    """The user's verdicts on predictions (S,) with these true labels (S,): int8 (S,), 1 right, 0 wrong (Algorithm 1 in
    the paper's appendix).
    """
    chance = torch.rand(len(predicted), generator=generator, device=generator.device).to(predicted.device)  # [0, 1)
    right = torch.where(predicted == truth, chance < user.gamma, chance >= user.delta)
    return right.to(torch.int8)


def read_users(path: Path) -> list[tuple[User, float]]:
    """The users of a table with their weights, 1 if it has none. Raises UserError for a malformed table."""
    users: dict[str, tuple[User, float]] = {}
    for where, row in named_rows(path, _COLUMNS, may=(_WEIGHT,)):
        if not row["user"]:
            raise UserError(f"{where}: the user has no name")
        if row["user"] in users:
            raise UserError(f'{where}: the user "{shortened(row["user"])}" is listed twice')
        rates = (_number(row[name], name, where, high=1.0) for name in ("gamma", "delta"))
        users[row["user"]] = User(*rates), _number(row.get(_WEIGHT, "1"), _WEIGHT, where)
    if not any(weight for _, weight in users.values()):
        raise UserError(f"{path}: no user {'has a weight above 0' if users else 'is in the table'}")
    return list(users.values())


def named_rows(
    path: Path, must: Sequence[str], *, may: Sequence[str] | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV or TSV file by column name, each with its place, file:line. The first line is the header row;
    if it has a tab, tabs separate the columns, else commas.

    Raises UserError if a column of `must` is missing, a column is listed twice, or one is in neither `must` nor `may`
    (with `may` None, other columns are allowed), and for malformed rows.
    """
    lines = numbered_lines(path)
    number, header = next(lines, (1, ""))
    where, delimiter = f"{path}:{number}", "\t" if "\t" in header else ","
    names = [name.lower() for name in _cells(header, delimiter, where)]
    needed = f"the header row needs {', '.join(must)}" + (f" and may have {', '.join(may)}" if may else "")
    if missing := [name for name in must if name not in names]:
        raise UserError(f'{where}: the column "{missing[0]}" is missing; {needed}')
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f'{where}: the column "{shortened(twice[0])}" is listed twice; {needed}')
    if may is not None and (unknown := [name for name in names if name not in (*must, *may)]):
        raise UserError(f'{where}: unknown column "{shortened(unknown[0])}"; {needed}')
    for number, line in lines:
        where = f"{path}:{number}"
        cells = _cells(line, delimiter, where)
        if len(cells) != len(names):
            raise UserError(f"{where}: {len(cells)} cells where the header row has {len(names)}")
        yield where, dict(zip(names, cells, strict=True))


def _cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return [cell.strip() for row in csv.reader([line], delimiter=delimiter, strict=True) for cell in row]
    except csv.Error as error:
        raise UserError(f"{where}: not a row of a table ({error}); double the quotes inside a cell") from None


def _number(text: str, name: str, where: str, high: float = math.inf) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and 0 <= number <= high):
        allowed = "a number between 0 and 1" if high == 1 else "a number of at least 0"
        raise UserError(f'{where}: {name} is "{shortened(text)}"; it must be {allowed}')
    return number


def _drawn(path: Path, count: int, seed: int) -> list[User]:
    measured = [(user, weight) for user, weight in read_users(path) if weight > 0]
    weights = torch.tensor([weight for _, weight in measured], dtype=torch.float64)
    chosen = torch.multinomial(
        weights / weights.max(),
        count,
        replacement=len(measured) < count,
        generator=generator(derive(seed, "users"), _CPU),
    )
    return [measured[place][0] for place in chosen.tolist()]


def _skewed(signs: str, seed: int) -> tuple[float, float]:
    """(γ, δ), each from Beta(10, 1) or its mirror image: the tenth root of a uniform number has that distribution."""
    chances = torch.rand(2, dtype=torch.float64, generator=generator(seed, _CPU)) ** (1 / _SKEW)
    gamma, delta = (chance if sign == "+" else 1 - chance for sign, chance in zip(signs, chances.tolist(), strict=True))
    return gamma, delta
