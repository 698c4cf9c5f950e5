"""How often users are right, from verdicts on predictions whose truth is known (Sharma et al., NAACL 2022, appendix B).

A verdict file is JSON lines (.jsonl), or a table with a header row (.csv, .tsv); other fields are ignored:

    {"user": "w1", "verdict": "right", "correct": true}

`verdict` is right, wrong or unknown ("don't know"); `correct` says whether the prediction was correct. The paper counts

    n1 right, correct      n3 wrong, correct      n5 unknown, correct
    n2 right, incorrect    n4 wrong, incorrect    n6 unknown, incorrect

and estimates γ = n1 / (n1 + n3 + n5), δ = n4 / (n2 + n4 + n6): "don't know" counts as not right.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from fedrel.corpus.columns import shortened
from fedrel.corpus.lines import json_object, numbered_lines
from fedrel.errors import UserError
from fedrel.feedback.store import VERDICTS
from fedrel.feedback.users import named_rows
from fedrel.util.files import write_atomic

_TRUTH = {"true": True, "false": False}
_Z = 1.959964  # the 97.5th percentile of the normal distribution
# The search range of the prior: the log-odds of its mean, and the logarithm of its strength in judgments.
_ODDS, _STRENGTH = (-7.0, 7.0), (math.log(0.1), math.log(10_000.0))
_GRID, _ZOOMS = 25, 6


class GradedVerdict(NamedTuple):
    """A user's verdict on a prediction, and whether the prediction was correct."""

    user: str
    verdict: str
    correct: bool


@dataclass(frozen=True)
class Rate:
    """How often something happened, with a 95 % confidence interval. `shrunk` is the rate shrunk towards the prior of
    all users, the more so the fewer cases there are.
    """

    times: int
    cases: int
    low: float
    high: float
    shrunk: float

    @property
    def value(self) -> float | None:
        """The observed rate; None without a case."""
        return self.times / self.cases if self.cases else None


@dataclass(frozen=True)
class Prior:
    """A Beta distribution of the rates of all users: its mean, and its strength in judgments."""

    mean: float
    strength: float

    def shrink(self, times: int, cases: int) -> float:
        """The posterior mean of a rate observed `times` times in `cases` cases."""
        return (self.mean * self.strength + times) / (self.strength + cases)


@dataclass(frozen=True)
class Estimate:
    """The reliability of one user, or of all users together."""

    user: str
    counts: Mapping[str, int]  # n1 … n6
    gamma: Rate
    delta: Rate

    @property
    def judgments(self) -> int:
        """The number of verdicts."""
        return sum(self.counts.values())

    @property
    def unknown(self) -> float:
        """The share of verdicts that are "don't know"."""
        return (self.counts["n5"] + self.counts["n6"]) / self.judgments

    @property
    def errors(self) -> float | None:
        """The share of mistakes among the verdicts "right" and "wrong"; None if there are none."""
        known = self.judgments - self.counts["n5"] - self.counts["n6"]
        return (self.counts["n2"] + self.counts["n3"]) / known if known else None


@dataclass(frozen=True)
class Estimates:
    """The reliability of every user, and the priors that the rates are shrunk towards."""

    users: tuple[Estimate, ...]  # most judgments first
    pooled: Estimate  # all judgments together; the intervals allow for differences between users
    gamma: Prior
    delta: Prior


def read_verdicts(path: Path) -> Iterator[GradedVerdict]:
    """The verdicts of a .jsonl, .csv or .tsv file. Raises UserError for another suffix or a malformed line."""
    for where, row in _fields(path):
        user, verdict, correct = row.get("user"), row.get("verdict"), row.get("correct")
        if not isinstance(user, str) or not user.strip() or not user.isprintable():
            raise UserError(f'{where}: "user" must be a name, one line of text')
        if not isinstance(verdict, str) or verdict not in VERDICTS:
            raise UserError(f'{where}: "verdict" is {_quoted(verdict)}; it must be right, wrong or unknown')
        if not isinstance(correct, bool):
            raise UserError(f'{where}: "correct" is {_quoted(correct)}; it must be true or false')
        yield GradedVerdict(user.strip(), verdict, correct)


def estimate_users(verdicts: Iterable[GradedVerdict]) -> Estimates:
    """γ̂ and δ̂ of every user with Wilson intervals, and of all users pooled. Rates are shrunk by empirical Bayes,
    towards the Beta prior that maximises the beta-binomial likelihood of the users' counts. Raises UserError without a
    verdict.
    """
    seen: dict[str, Counter[str]] = {}
    for user, verdict, correct in verdicts:
        seen.setdefault(user, Counter())[f"n{2 * VERDICTS.index(verdict) + (1 if correct else 2)}"] += 1
    if not seen:
        raise UserError("no verdicts to estimate from")
    order = sorted(seen, key=lambda user: (-seen[user].total(), user))
    counts = {user: {f"n{number}": seen[user][f"n{number}"] for number in range(1, 7)} for user in order}
    of_gamma, of_delta = ([_cases(counts[user])[which] for user in order] for which in (0, 1))
    gamma, delta = fit_prior(of_gamma), fit_prior(of_delta)
    users = tuple(
        Estimate(user, counts[user], _of_user(right, gamma), _of_user(wrong, delta))
        for user, right, wrong in zip(order, of_gamma, of_delta, strict=True)
    )
    together = {name: sum(count[name] for count in counts.values()) for name in counts[order[0]]}
    return Estimates(users, Estimate("all", together, _of_all(of_gamma), _of_all(of_delta)), gamma, delta)


def fit_prior(cases: Sequence[tuple[int, int]]) -> Prior:
    """The Beta prior that maximises the likelihood of every user's (times, cases), by grid search in ever smaller
    ranges; the uniform distribution if there is no case.
    """
    known = torch.tensor([it for it in cases if it[1]], dtype=torch.float64).reshape(-1, 2)
    if not len(known):
        return Prior(0.5, 2.0)
    times, failures = known[:, 0], known[:, 1] - known[:, 0]  # (U,)
    odds, strength = _ODDS, _STRENGTH
    for _ in range(_ZOOMS):
        x, y = (torch.linspace(*ends, _GRID, dtype=torch.float64) for ends in (odds, strength))
        a = (torch.sigmoid(x)[:, None] * y.exp())[..., None]  # (G, G, 1)
        b = (torch.sigmoid(-x)[:, None] * y.exp())[..., None]
        likelihood = (_log_beta(a + times, b + failures) - _log_beta(a, b)).sum(-1)  # (G, G)
        i, j = divmod(int(likelihood.argmax()), _GRID)
        odds, strength = _around(x, i, _ODDS), _around(y, j, _STRENGTH)
    return Prior(torch.sigmoid(x[i]).item(), y[j].exp().item())


def wilson(times: int, cases: int) -> tuple[float, float]:
    """The Wilson score interval (low, high) of a rate at 95 %: never empty and within 0 to 1, however few the cases."""
    if not cases:
        return 0.0, 1.0
    rate, spread = times / cases, _Z**2 / cases
    middle = (rate + spread / 2) / (1 + spread)
    reach = _Z / (1 + spread) * math.sqrt(rate * (1 - rate) / cases + spread / (4 * cases))
    return (max(middle - reach, 0.0) if times else 0.0), (min(middle + reach, 1.0) if times < cases else 1.0)


def write_users(estimates: Estimates, path: Path) -> None:
    """Writes the table that simulated users are drawn from (`feedback.table`), tab-separated for .tsv and .tab. Its
    rates are shrunk: a user with three right answers out of three is not taken to be always right.
    """
    content = io.StringIO()
    writer = csv.writer(
        content, delimiter="\t" if path.suffix.lower() in (".tsv", ".tab") else ",", lineterminator="\n"
    )
    writer.writerow(("user", "gamma", "delta"))
    writer.writerows((it.user, f"{it.gamma.shrunk:.6f}", f"{it.delta.shrunk:.6f}") for it in estimates.users)
    write_atomic(path, content.getvalue())


def _fields(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        for number, line in numbered_lines(path):
            yield f"{path}:{number}", json_object(line, f"{path}:{number}")
    elif suffix in (".csv", ".tsv"):
        for where, row in named_rows(path, GradedVerdict._fields):
            yield where, {**row, "correct": _TRUTH.get(row["correct"].lower(), row["correct"])}
    else:
        raise UserError(f"{path}: a verdict file ends in .jsonl, .csv or .tsv; a store needs --data with true labels")


def _quoted(value: object) -> str:
    return "missing" if value is None else f'"{shortened(str(value))}"'


def _cases(n: Mapping[str, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """(times, cases) of γ and of δ."""
    return (n["n1"], n["n1"] + n["n3"] + n["n5"]), (n["n4"], n["n2"] + n["n4"] + n["n6"])


def _of_user(seen: tuple[int, int], prior: Prior) -> Rate:
    return Rate(*seen, *wilson(*seen), prior.shrink(*seen))


def _of_all(cases: Sequence[tuple[int, int]]) -> Rate:
    """The pooled rate. One user's judgments are correlated, so its interval treats users as the units (clusters)."""
    times, total = (sum(it[which] for it in cases) for which in (0, 1))
    known = [it for it in cases if it[1]]
    low, high = wilson(times, total)
    if len(known) > 1:
        rate = times / total
        squares = sum((part - rate * size) ** 2 for part, size in known)
        reach = _Z * math.sqrt(len(known) / (len(known) - 1) * squares) / total
        low, high = min(low, max(rate - reach, 0.0)), max(high, min(rate + reach, 1.0))
    return Rate(times, total, low, high, times / total if total else 0.5)


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def _around(points: Tensor, best: int, limits: tuple[float, float]) -> tuple[float, float]:
    """Two points to each side of the best one, within the limits."""
    step = (points[1] - points[0]).item()
    return max(points[best].item() - 2 * step, limits[0]), min(points[best].item() + 2 * step, limits[1])
