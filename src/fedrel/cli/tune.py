"""`fedrel tune`: a search for settings, ranked by dev score."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedrel import config
from fedrel.cli.console import out, print_json, tell
from fedrel.cli.pool import run_missing
from fedrel.errors import UserError
from fedrel.experiment.results import read_json
from fedrel.sweeps import tuning
from fedrel.sweeps.pool import Job
from fedrel.util.files import write_atomic

_SHOWN = 20  # trials in the printed table; tune.json has them all


def tune(
    experiment: Annotated[Path, typer.Argument(help="An experiment file with a [tune] section: what to try.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="The file's small scale: takes minutes, on built-in data.")
    ] = False,
    data: Annotated[Path | None, typer.Option("--data", metavar="PATH", help="The data.")] = None,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a value in all trials.")] = [],  # noqa: B006
    out_: Annotated[Path | None, typer.Option("--out", help="Folder; finished trials in it are reused.")] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Trials in parallel; 0: one per core.")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print the ranking as JSON.")] = False,
) -> None:
    """Search for settings by their dev score; the test split is not used."""
    asked = tuning.read(experiment, settings=set_, quick=quick, data=data)
    folder = out_ or Path("runs") / f"tune-{experiment.stem}{'-quick' if quick else ''}"
    place = {trial.name: folder / "trials" / trial.name for trial in asked.trials}
    jobs_ = [Job(", ".join(trial.flags), trial.experiment, place[trial.name]) for trial in asked.trials]
    run_missing(jobs_, tuning.end_trial, tuning.TRIAL, jobs)
    ranking = tuning.ranked(asked, {name: _result(path) for name, path in place.items()})
    if ranking[0]["score"] is None:
        raise UserError("every trial diverged; try a lower training.lr")
    best = next(trial for trial in asked.trials if f"trials/{trial.name}" == ranking[0]["folder"])
    report = {
        "metric": asked.metric,
        "search": asked.search.search,
        "quick": asked.quick,
        "best": ranking[0],
        "trials": ranking,
    }
    write_atomic(folder / "best.toml", config.to_toml(config.to_table(best.experiment)))
    write_atomic(folder / "tune.json", json.dumps(report, indent=1) + "\n")
    if json_:
        print_json(json.dumps(report, indent=1))
        return
    out.print(_table(report))
    tell(" ".join(f"--set {shlex.quote(flag)}" for flag in best.flags), "bold")
    tell(f"best    {folder / 'best.toml'}   (test it: fedrel run {folder / 'best.toml'})")
    tell(f"result  {folder / 'tune.json'}")


def _result(folder: Path) -> dict[str, Any] | None:
    path = folder / tuning.TRIAL
    return read_json(path, ("dev", "best_round", "rounds", "seconds")) if path.is_file() else None


def _table(report: dict[str, Any]) -> Table:
    trials = report["trials"]
    scale = "QUICK SCALE: " if report["quick"] else ""
    table = Table(
        title=f"{scale}{len(trials)} trials by dev {report['metric']}; test is not used", title_justify="left"
    )
    for key in trials[0]["settings"]:
        table.add_column(Text(key), justify="right")
    table.add_column(f"dev {report['metric']}", justify="right")
    table.add_column("best round", justify="right")
    for trial in trials[:_SHOWN]:
        score = "diverged" if trial["score"] is None else f"{trial['score']:.3f}"
        rounds = "–" if trial["score"] is None else f"{trial['best_round']} of {trial['rounds']}"
        table.add_row(*(Text(str(value)) for value in trial["settings"].values()), score, rounds)
    if len(trials) > _SHOWN:
        table.caption = f"and {len(trials) - _SHOWN} more in tune.json"
    return table
