"""`fedrel compare`: methods × settings × seeds in one table, one figure and one JSON file."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrel.api.comparing import available, conclude, finish_run, jobs_of
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.pool import run_missing
from fedrel.sweeps.comparison import read
from fedrel.sweeps.publishing import place_on
from fedrel.sweeps.publishing import publish as write_into
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
    worlds: Annotated[
        str, typer.Option(metavar="N|SEEDS", help="Errors over worlds: how many, or their data.seed, e.g. 11,12,13.")
    ] = "",
    splits: Annotated[str, typer.Option(metavar="FOLDERS", help="Errors over these folders below data.path.")] = "",
    choose: Annotated[
        list[str], typer.Option(help="Dev chooses for each row, e.g. evaluation.bags=max,mean,attention")
    ] = [],  # noqa: B006
    choose_by: Annotated[str, typer.Option(metavar="dev|dev_ap_hidden", help="The score that chooses.")] = "",
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a value in all runs.")] = [],  # noqa: B006
    publish: Annotated[
        str, typer.Option(metavar="PAGE[#TABLE]", help="Write the table into this page, and its JSON beside it.")
    ] = "",
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
        worlds=worlds,
        splits=splits,
        choose=choose,
        choose_by=choose_by,
    )
    name = f"compare-{experiment.stem if experiment else 'world'}{'-quick' if quick else ''}"
    folder = out_ or Path("runs") / name
    cells, left_out = available(asked)
    for sentence in left_out:
        say(sentence)
    place = place_on(publish, experiment.stem if experiment else "world") if publish else None
    begin = time.monotonic()
    run_missing(jobs_of(cells, folder), finish_run, "result.json", jobs)
    report, figures = conclude(asked, cells, folder, time.monotonic() - begin)
    if place:
        again = _again(experiment, methods, vary, seeds, metric, quick, data, worlds, splits, choose, choose_by, set_)
        say(f"page  {place[0]}, from {write_into(*place, again, report)}")
    if json_:
        print_json(json.dumps(report, indent=1))
        return
    out.print(comparison_table(report))
    tell_warnings(report)
    for figure in figures:
        tell(f"figure  {figure}")
    tell(f"result  {folder / 'compare.json'}   (again: fedrel show {folder})")


def _again(
    experiment: Path | None,
    methods: str,
    vary: list[str],
    seeds: int | None,
    metric: str | None,
    quick: bool,
    data: Path | None,
    worlds: str,
    splits: str,
    choose: list[str],
    choose_by: str,
    set_: list[str],
) -> str:
    """The command that makes the same table elsewhere, where the data lie in another folder."""
    named: dict[str, Sequence[object]] = {"--methods": [methods], "--vary": vary, "--seeds": [seeds]}
    named |= {"--metric": [metric], "--worlds": [worlds], "--splits": [splits], "--choose": choose}
    named |= {"--choose-by": [choose_by], "--set": set_}
    words = ["fedrel", "compare"]
    if experiment:
        words.append(experiment.name if experiment.is_absolute() else experiment.as_posix())
    words += ["--quick"] if quick else []
    words += ["--data", "FOLDER"] if data else []
    words += [word for option, values in named.items() for value in values if value for word in (option, str(value))]
    return shlex.join(words)


def tell_warnings(report: dict[str, Any]) -> None:
    """What a reader of the table should know before believing it; comparisons of older versions do not say."""
    for warning in report.get("warnings", ()):
        tell(f"warning: {warning}", "yellow")
