"""`fedrel privacy`: what a run gives away, measured by attacks, and said in plain words."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from fedrel.audit import audit as measure
from fedrel.audit.explaining import explain as explained
from fedrel.audit.files import audit_file, read_audit, write_audit
from fedrel.audit.limits import read_limits
from fedrel.cli.console import duration, err, out, print_json, say, tell
from fedrel.cli.run import AsJson, Settings
from fedrel.config import Experiment
from fedrel.errors import UserError
from fedrel.experiment.assembly import read_experiment
from fedrel.experiment.results import read_result
from fedrel.report.page import write_report

_PLAIN_EVERY = 5.0  # seconds between lines where there is no terminal
Place = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run, or an experiment file.")]


def audit(
    run: Place,
    set_: Settings = [],  # noqa: B006 - typer copies it
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to train and to attack, at most.")] = 20,
    sentences: Annotated[int, typer.Option(min=20, help="Sentences asked about: members, and as many others.")] = 1000,
    shadows: Annotated[int, typer.Option(min=0, help="Further trainings to compare the finished model with.")] = 2,
    limit: Annotated[
        list[str], typer.Option(metavar="[ATTACK.]MEASURE=NUMBER", help="Fail above it, e.g. auc=0.6")
    ] = [],  # noqa: B006
    json_: AsJson = False,
) -> None:
    """Attack a run of your own as a curious coordinator would: train it again with a tenth of the sentences held out.

    Exit code 1: a limit is exceeded.
    """
    limits = read_limits(limit)
    experiment = _experiment_of(run, set_)
    with _AuditProgress(str(experiment.method["name"])) as progress:
        report = measure(experiment, rounds=rounds, sentences=sentences, shadows=shadows, tick=progress.tick, say=say)
    exceeded = [line for it in limits for line in it.exceeded(report)]
    report |= {"limits": limit, "exceeded": exceeded}
    write_audit(report, audit_file(run))
    if run.is_dir():
        write_report(run)
    if json_:
        print_json(json.dumps(report, indent=1))
    else:
        _show(report, run)
    for line in exceeded:
        say(f"limit exceeded: {line}")
    if exceeded:
        raise typer.Exit(1)


def explain(
    run: Place,
    set_: Settings = [],  # noqa: B006
    json_: AsJson = False,
) -> None:
    """Say in plain lines what leaves a platform, who could read what, and which settings reveal less."""
    lines = explained(_experiment_of(run, set_), None if set_ else read_audit(audit_file(run)), say)
    if json_:
        print_json(json.dumps({"lines": lines}, indent=1))
        return
    for line in lines:
        out.print(Text(line))


def _experiment_of(place: Path, settings: list[str]) -> Experiment:
    if place.is_dir():
        read_result(place)  # a finished run
        if settings:
            raise UserError(f"{place}: a run's settings are what they were; --set goes with an experiment file")
        return read_experiment(place / "experiment.toml")
    return read_experiment(place, settings)


def _show(report: dict[str, Any], run: Path) -> None:
    platforms = "one holder" if report["platforms"] == 1 else f"{report['platforms']:,} platforms"
    tell(f"{report['method']}, {platforms}, {report['rounds']} rounds", "bold")
    tell(f"asked about {report['members']:,} sentences that were trained on, {report['non_members']:,} that were not")
    table = Table("attack", "measure")
    for name in ("found", "95 %", "chance"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for it in report["attacks"]:
        rows = [(name, *_numbers(found)) for name, found in it["measures"].items()] or [("–", "", "", "")]
        for number, row in enumerate(rows, 1):
            attack, verdict = (it["attack"], it["verdict"]) if number == 1 else ("", "")
            table.add_row(attack, *row, Text(verdict), end_section=number == len(rows))
    out.print(table)
    for it in report["attacks"]:
        tell(f"{it['attack']}: {it['wants']}", "dim")
    tell("auc: how often a true case is ranked above a false one; tpr: true cases found at 1 % false alarms", "dim")
    tell(f"took {duration(report['seconds'])}; all figures: {audit_file(run)}")
    if run.is_dir():
        tell(f"report  {run / 'report.html'}")


def _numbers(found: Mapping[str, Any]) -> tuple[str, str, str]:
    low, high = found["interval"]
    return f"{found['value']:.3f}", f"{low:.3f}–{high:.3f}", f"{found['chance']:.3f}"


class _AuditProgress:
    """A progress bar on a terminal; elsewhere a line every 5 seconds."""

    def __init__(self, name: str) -> None:
        self.name, self.last_line = name, 0.0
        self.first: tuple[int, float] | None = None  # when a round was done first: what comes before is preparation
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn(name, style="bold", markup=False),
            TextColumn("round {task.completed:.0f}/{task.total:.0f} of all trainings"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        )
        self.task = self.bar.add_task("", total=1, left="")

    def __enter__(self) -> _AuditProgress:
        self.bar.start()
        return self

    def __exit__(self, *what: object) -> None:
        self.bar.stop()

    def tick(self, done: int, of: int) -> None:
        now = time.monotonic()
        self.first = self.first or (done, now)
        begun, since = self.first
        left = f"about {duration((now - since) / (done - begun) * (of - done))} left" if done > begun else ""
        self.bar.update(self.task, completed=done, total=of, left=left)
        if not err.is_terminal and now - self.last_line >= _PLAIN_EVERY:
            self.last_line = now
            err.print(f"{self.name}  round {done}/{of} of all trainings  {left}", soft_wrap=True)
