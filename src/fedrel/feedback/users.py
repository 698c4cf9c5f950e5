"""Users who judge predictions, and how often they are right (Sharma et al., NAACL 2022, sections 3.2 and 5.4.2).

A user calls a correct prediction right with probability γ and an incorrect one wrong with probability δ. Measured users
come from a table, CSV or TSV, with a header; `weight` may be left out:

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

RIGHT, WRONG = 1, 0  # verdicts
_SKEW = 10  # of the paper's Beta(10, 1) and Beta(1, 10)
# The signs of γ and δ: + is Beta(10, 1), near 1, and - is Beta(1, 10), near 0.
_SKEWED = {"low-noise": "++", "adversarial": "--", "always-positive": "+-", "always-negative": "-+"}
BEHAVIOURS = ("fixed", *_SKEWED, "table")
_COLUMNS = ("user", "gamma", "delta")
_WEIGHT = "weight"
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class User:
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
    """`count` users of one behaviour. "fixed" takes `gamma` and `delta`, "table" draws from the users measured in a
    file: each at most once where there are enough of them, as the paper does, else with repetition.
    """
    if behaviour not in BEHAVIOURS:
        raise UserError(f'feedback.users = "{behaviour}" is no behaviour{suggest(behaviour, BEHAVIOURS)}')
    if behaviour == "fixed":
        for name, rate in (("gamma", gamma), ("delta", delta)):
            if not 0 <= rate <= 1:
                raise UserError(f"feedback.{name} = {rate:g} is no probability; it must lie between 0 and 1")
        return [User(gamma, delta)] * count
    if behaviour == "table":
        if table is None:
            raise UserError('feedback.users = "table" needs feedback.table, a file with columns user, gamma, delta')
        return _drawn(table, count, seed)
    return [User(*_skewed(_SKEWED[behaviour], derive(seed, "user", place))) for place in range(count)]


def judge(predicted: Tensor, truth: Tensor, user: User, generator: torch.Generator) -> Tensor:
    """What the user says of predictions (S,): 1 right, 0 wrong, as int8 (S,) (Algorithm 1 of the paper's appendix)."""
    chance = torch.rand(len(predicted), generator=generator, device=generator.device).to(predicted.device)  # [0, 1)
    right = torch.where(predicted == truth, chance < user.gamma, chance >= user.delta)
    return right.to(torch.int8)


def read_users(path: Path) -> list[tuple[User, float]]:
    """The users of a table and their weights, 1 where the table has none."""
    users: dict[str, tuple[User, float]] = {}
    for where, row in named_rows(path, _COLUMNS, may=(_WEIGHT,)):
        if not row["user"]:
            raise UserError(f"{where}: the user has no name")
        if row["user"] in users:
            raise UserError(f'{where}: the user "{shortened(row["user"])}" is there twice')
        rates = (_number(row[name], name, where, high=1.0) for name in ("gamma", "delta"))
        users[row["user"]] = User(*rates), _number(row.get(_WEIGHT, "1"), _WEIGHT, where)
    if not any(weight for _, weight in users.values()):
        raise UserError(f"{path}: no user {'has a weight above 0' if users else 'is in the table'}")
    return list(users.values())


def named_rows(
    path: Path, must: Sequence[str], *, may: Sequence[str] | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a table whose first line names its columns, each with its place, file:line. Columns lie between tabs
    where the first line has one, else between commas. Beside those it must have, a table has none but those that it
    may; without `may`, any.
    """
    lines = numbered_lines(path)
    number, headline = next(lines, (1, ""))
    where, delimiter = f"{path}:{number}", "\t" if "\t" in headline else ","
    names = [name.lower() for name in _cells(headline, delimiter, where)]
    told = f"the first line names {', '.join(must)}" + (f" and perhaps {', '.join(may)}" if may else "")
    if missing := [name for name in must if name not in names]:
        raise UserError(f'{where}: the column "{missing[0]}" is missing; {told}')
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f'{where}: the column "{shortened(twice[0])}" is there twice; {told}')
    if may is not None and (unknown := [name for name in names if name not in (*must, *may)]):
        raise UserError(f'{where}: the column "{shortened(unknown[0])}" is not known; {told}')
    for number, line in lines:
        where = f"{path}:{number}"
        cells = _cells(line, delimiter, where)
        if len(cells) != len(names):
            raise UserError(f"{where}: {len(cells)} cells where the first line names {len(names)} columns")
        yield where, dict(zip(names, cells, strict=True))


def _cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return [cell.strip() for row in csv.reader([line], delimiter=delimiter, strict=True) for cell in row]
    except csv.Error as error:
        raise UserError(f"{where}: not a row of a table ({error}); a quote in a cell is written twice") from None


def _number(text: str, name: str, where: str, high: float = math.inf) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and 0 <= number <= high):
        allowed = "a number between 0 and 1" if high == 1 else "a number from 0"
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
    """(γ, δ), each Beta(10, 1) or its mirror image: the tenth root of a uniform number is Beta(10, 1)."""
    chances = torch.rand(2, dtype=torch.float64, generator=generator(seed, _CPU)) ** (1 / _SKEW)
    gamma, delta = (chance if sign == "+" else 1 - chance for sign, chance in zip(signs, chances.tolist(), strict=True))
    return gamma, delta
