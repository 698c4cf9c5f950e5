"""`fedrel compare`: methods × settings × seeds in one table, one figure and one JSON file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrel.api.comparing import available, conclude, finish_run, jobs_of
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.pool import run_missing
from fedrel.sweeps.comparison import read
from fedrel.sweeps.tables import comparison_table

__all__ = ["compare", "comparison_table", "tell_warnings"]


def compare(
    experiment: Annotated[
        Path | None, typer.Argument(help="An experiment file, with a [compare] section for rows and columns.")
    ] = None,
    methods: Annotated[str, typer.Option(help="Rows, e.g. evidence,one,none; the first is the reference.")] = "",
    vary: Annotated[list[str], typer.Option(help="Columns, e.g. training.fraction=0.1,0.5,1.0")] = [],  # noqa: B006
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs per cell.")] = None,
    metric: Annotated[str | None, typer.Option(help="The score in the table.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The file's small scale: takes minutes, on built-in data.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="PATH", help="The data; for several data sets, their folder.")
    ] = None,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a value in all runs.")] = [],  # noqa: B006
    out_: Annotated[Path | None, typer.Option("--out", help="Folder; finished runs in it are reused.")] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Runs in parallel; 0: one per core.")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare methods: scores over seeds, paired differences, figures, and a paper's numbers next to ours."""
    asked = read(
        experiment,
        settings=set_,
        methods=[name.strip() for name in methods.split(",") if name.strip()],
        vary=vary,
        seeds=seeds,
        metric=metric,
        quick=quick,
        data=data,
    )
    name = f"compare-{experiment.stem if experiment else 'world'}{'-quick' if quick else ''}"
    folder = out_ or Path("runs") / name
    cells, left_out = available(asked)
    for sentence in left_out:
        say(sentence)
    begin = time.monotonic()
    run_missing(jobs_of(cells, folder), finish_run, "result.json", jobs)
    report, figures = conclude(asked, cells, folder, time.monotonic() - begin)
    if json_:
        print_json(json.dumps(report, indent=1))
        return
    out.print(comparison_table(report))
    tell_warnings(report)
    for figure in figures:
        tell(f"figure  {figure}")
    tell(f"result  {folder / 'compare.json'}   (again: fedrel show {folder})")


def tell_warnings(report: dict[str, Any]) -> None:
    """What a reader of the table should know before believing it; comparisons of older versions do not say."""
    for warning in report.get("warnings", ()):
        tell(f"warning: {warning}", "yellow")
