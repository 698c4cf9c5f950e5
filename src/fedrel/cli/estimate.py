"""`fedrel feedback estimate`: how reliable users are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.review import labelled_source
from fedrel.config import Data
from fedrel.data import loading
from fedrel.errors import UserError
from fedrel.feedback import stored_verdicts
from fedrel.feedback.estimates import (
    Estimate,
    Estimates,
    GradedVerdict,
    Prior,
    Rate,
    estimate_users,
    read_verdicts,
    write_users,
)
from fedrel.util.escaping import shown

_SHOWN = 20  # users in the table


def estimate(
    file: Annotated[
        Path,
        typer.Argument(
            help="Verdicts on predictions whose truth is known: .jsonl, .csv or .tsv with user, "
            "verdict (right, wrong or unknown) and correct (true or false); or a store of fedrel review and --data."
        ),
    ],
    data: Annotated[
        Path | None, typer.Option("--data", help="With a store: data with true labels for the same sentences.")
    ] = None,
    source: Annotated[str, typer.Option("--source", "--format", help="Format of the data [default: detected].")] = "",
    users: Annotated[
        Path | None, typer.Option(help="Write a table of users for feedback.table, with shrunk rates.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Draw the users' rates, errors and answers.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print all users as JSON.")] = False,
) -> None:
    """Estimate how often users judge a correct prediction right (γ) and an incorrect one wrong (δ)."""
    try:
        found = estimate_users(read_verdicts(file) if data is None else _judged(file, data, source))
    except UserError as error:
        raise error if str(error).startswith(str(file)) else UserError(f"{file}: {error}") from None
    if users:
        write_users(found, users)
    if png:
        from fedrel.report.feedback_figures import users_figure

        users_figure({file.stem: found}, png)
    if json_:
        print_json(json.dumps(summary(found), indent=1))
        return
    out.print(estimates_table(found))
    for name, path in (("users", users), ("figure", png)):
        if path:
            tell(f"{name:<7} {path}")


def _judged(store: Path, data: Path, source: str) -> list[GradedVerdict]:
    """The verdicts of a store on sentences for which the data has labels. Raises UserError if there are none."""
    dataset = loading.load(Data(source=labelled_source(data, source), path=str(data)), say=say)
    verdicts = list(stored_verdicts.read_verdicts(store))
    judged = stored_verdicts.graded(verdicts, dataset)
    if verdicts and not judged:
        raise UserError(f"{store}: none of its {len(verdicts):,} verdicts is about a sentence of {data}")
    if len(judged) < len(verdicts):
        say(f"{len(verdicts) - len(judged):,} of {len(verdicts):,} verdicts are on sentences that {data} does not have")
    return judged


def summary(found: Estimates) -> dict[str, Any]:
    """All estimates as JSON values; unknown rates are None."""
    return {
        "users": [_entry(it) for it in found.users],
        "pooled": {key: value for key, value in _entry(found.pooled).items() if key != "user"},
        "mean": {"gamma": _mean(found, "gamma"), "delta": _mean(found, "delta")},
        "prior": {"gamma": vars(found.gamma), "delta": vars(found.delta)},
    }


def estimates_table(found: Estimates) -> Table:
    """The users with the most judgments, and all users together."""
    table = Table(
        title="How often users are right, in percent (95 % intervals)", title_justify="left", title_style="bold"
    )
    table.add_column("user")
    for name in ("judgments", "γ̂", "δ̂", "don't know", "γ shrunk", "δ shrunk"):
        table.add_column(name, justify="right")
    table.add_row(f"all {len(found.users)}", *_cells(found.pooled)[:4], "", "", style="bold", end_section=True)
    for it in found.users[:_SHOWN]:
        table.add_row(Text(shown(it.user, 100)), *_cells(it))
    hidden = len(found.users) - _SHOWN
    notes = [f"{hidden:,} users with fewer judgments are not shown (--json has them)"] if hidden > 0 else []
    means = [_mean(found, name) for name in ("gamma", "delta")]
    notes += [
        f"mean over users: γ̂ {_percent(means[0])}, δ̂ {_percent(means[1])}",
        "γ: says right if the prediction is correct; δ: says wrong if it is incorrect; don't know is neither",
        f"shrunk: towards the mean of the prior, which weighs as much as {_strength(found.gamma)} judgments for γ and "
        f"{_strength(found.delta)} for δ",
    ]
    table.caption, table.caption_justify = "\n".join(notes), "left"
    return table


def _entry(it: Estimate) -> dict[str, Any]:
    return {
        "user": it.user,
        "judgments": it.judgments,
        "gamma": _rate(it.gamma),
        "delta": _rate(it.delta),
        "unknown": it.unknown,
        "errors": it.errors,
        "counts": dict(it.counts),
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"value": rate.value, **vars(rate)}


def _mean(found: Estimates, name: str) -> float | None:
    """The paper's mean: each user has the same weight, whatever the number of judgments."""
    values = [value for it in found.users if (value := getattr(it, name).value) is not None]
    return sum(values) / len(values) if values else None


def _cells(it: Estimate) -> tuple[str, ...]:
    return (
        f"{it.judgments:,}",
        *(
            f"{_percent(rate.value)} ({_percent(rate.low, 0)}–{_percent(rate.high, 0)})" if rate.cases else "–"
            for rate in (it.gamma, it.delta)
        ),
        _percent(it.unknown),
        _percent(it.gamma.shrunk),
        _percent(it.delta.shrunk),
    )


def _percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{100 * share:.{digits}f}"


def _strength(prior: Prior) -> str:
    return f"{prior.strength:,.0f}" if prior.strength >= 10 else f"{prior.strength:.1f}"
