"""`fedrel compare`: methods × settings × seeds in one table, one figure, one JSON."""

from __future__ import annotations

import json
import multiprocessing
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from fedrel import config
from fedrel.assembly import prepare
from fedrel.cli.console import duration, err, out, print_json, say, tell
from fedrel.cli.show import read_json, read_result
from fedrel.comparison import Cell, Comparison, read
from fedrel.config import Experiment
from fedrel.errors import DivergedError, UserError
from fedrel.execution import Execution
from fedrel.files import write_whole
from fedrel.parallel import cores

_DIVERGED = "diverged.txt"


def compare(
    experiment: Annotated[
        Path | None, typer.Argument(help="An experiment file, with a [compare] section for rows and columns.")
    ] = None,
    methods: Annotated[str, typer.Option(help="Rows, e.g. lazy-mil,one,none; the first is the reference.")] = "",
    vary: Annotated[list[str], typer.Option(help="Columns, e.g. training.fraction=0.1,0.5,1.0")] = [],  # noqa: B006
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs per cell.")] = None,
    metric: Annotated[str | None, typer.Option(help="The test score in the table.")] = None,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change one value for all.")] = [],  # noqa: B006
    out_: Annotated[Path | None, typer.Option("--out", help="Folder; finished runs in it are used again.")] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Runs side by side; 0: one per core.")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare methods: mean ± deviation over seeds, paired differences, precision-recall curves."""
    asked = read(
        experiment,
        settings=set_,
        methods=[name.strip() for name in methods.split(",") if name.strip()],
        vary=vary,
        seeds=seeds,
        metric=metric,
    )
    folder = out_ or Path("runs") / f"compare-{experiment.stem if experiment else 'world'}"
    cells = asked.cells()
    begin = time.monotonic()
    try:
        _run_missing(cells, folder / "cells", jobs)
    except KeyboardInterrupt:
        err.print("what was finished is kept; the same command goes on from there")
        raise
    report = _collect(asked, cells, folder)
    report["seconds"] = time.monotonic() - begin
    write_whole(folder / "compare.json", json.dumps(report, indent=1) + "\n")
    figures = _draw(report, folder)
    if json_:
        print_json(json.dumps(report, indent=1))
        return
    out.print(comparison_table(report))
    for figure in figures:
        tell(f"figure  {figure}")
    tell(f"result  {folder / 'compare.json'}   (again: fedrel show {folder})")


def comparison_table(report: dict[str, Any]) -> Table:
    columns = list(dict.fromkeys(entry["column"] for entry in report["summary"]))
    rows = list(dict.fromkeys(entry["row"] for entry in report["summary"]))
    entries = {(entry["row"], entry["column"]): entry for entry in report["summary"]}
    table = Table(
        title=f"test {report['metric']}, mean ± standard deviation over seeds; the best round is chosen on dev",
        title_justify="left",
        show_lines=True,
        caption=f"Δ: how far {escape(report['reference'])} is ahead, mean paired difference ± its standard error; "
        "* more than twice its standard error",
        caption_justify="left",
    )
    table.add_column("method")
    for column in columns:
        table.add_column(escape(column), justify="right")
    for row in rows:
        table.add_row(escape(row), *(_cell_text(entries[row, column], report) for column in columns))
    return table


def _cell_text(entry: dict[str, Any], report: dict[str, Any]) -> str:
    if entry["mean"] is None:
        return "–"
    best = max(e["mean"] for e in report["summary"] if e["column"] == entry["column"] and e["mean"] is not None)
    mean = f"[bold]{entry['mean']:.3f}[/]" if entry["mean"] == best else f"{entry['mean']:.3f}"
    lines = [mean + (f" ± {entry['std']:.3f}" if entry["std"] is not None else "") + f" (n={entry['n']})"]
    if ahead := entry["reference_ahead"]:
        error = f" ± {ahead['standard_error']:.3f}" if ahead["standard_error"] is not None else ""
        lines.append(f"[dim]Δ {ahead['mean']:+.3f}{error}{'*' if ahead['clear'] else ''}[/]")
    if entry["selection"]:
        lines.append(f"[dim]selection {entry['selection']['mean']:.2f} of {entry['selection']['base_rate']:.2f}[/]")
    return "\n".join(lines)


def _run_missing(cells: list[Cell], folder: Path, jobs: int) -> None:
    cells = list({cell.name: cell for cell in cells}.values())  # fraction=1 and fraction=1.0 are one run
    missing = [cell for cell in cells if not _is_over(folder / cell.name)]
    if len(missing) < len(cells):
        say(f"{len(cells) - len(missing)} of {len(cells)} runs are finished already and are used again")
    if not missing:
        return
    side_by_side = min(jobs or (1 if torch.cuda.is_available() else cores()), len(missing))
    say(f"{len(missing)} runs, {side_by_side} side by side")
    prepare(missing[0].experiment, say=say)  # reads the data once, before several processes would
    with _progress() as bar, ProcessPoolExecutor(side_by_side, multiprocessing.get_context("spawn")) as pool:
        task = bar.add_task("", total=len(missing), left="")
        begin = time.monotonic()
        try:
            futures = _submit(pool, missing, folder, side_by_side)
            for count, (cell, line) in enumerate(_as_they_finish(futures), 1):
                left = (time.monotonic() - begin) / count * (len(missing) - count)
                bar.update(task, completed=count, left=f"about {duration(left)} left")
                news = f"{count}/{len(missing)}  {cell.row}, {cell.column}, seed {cell.seed}: {line}"
                err.print(news, soft_wrap=True, markup=False)
        except BaseException:
            for process in pool._processes.values():
                process.terminate()  # a half-finished run goes on from its checkpoint next time
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _submit(pool: ProcessPoolExecutor, cells: list[Cell], folder: Path, side_by_side: int) -> dict[Future[str], Cell]:
    """Starts the processes deaf to Ctrl-C, which a terminal sends to all: this one tells them when to stop."""
    hearing = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return {
            pool.submit(run_cell, _shared(cell.experiment, side_by_side), str(folder / cell.name)): cell
            for cell in cells
        }
    finally:
        signal.signal(signal.SIGINT, hearing)


def _shared(experiment: Experiment, side_by_side: int) -> dict[str, object]:
    """As a table, since it goes to another process; runs side by side share the cores."""
    workers = max(1, cores() // side_by_side)
    return config.to_table(replace(experiment, engine=replace(experiment.engine, workers=workers)))


def _is_over(folder: Path) -> bool:
    """Finished, or diverged, which it would do again."""
    return (folder / "result.json").is_file() or (folder / _DIVERGED).is_file()


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} runs"),
        BarColumn(),
        TextColumn("{task.fields[left]}"),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def _as_they_finish(futures: dict[Future[str], Cell]) -> Iterator[tuple[Cell, str]]:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield futures[future], future.result()


def run_cell(table: dict[str, object], folder: str) -> str:
    """One run in a process of its own, gone on with where it was cut off; answers with a line for the log."""
    experiment = config.parse(table)
    path = Path(folder)
    begin = time.monotonic()
    try:
        execution = Execution(prepare(experiment), path, resume=path.is_dir())
        for _ in execution.rounds():
            pass
        result = execution.finish()
    except DivergedError as error:
        write_whole(path / _DIVERGED, str(error))
        return str(error)
    metric = experiment.training.metric
    spent = duration(time.monotonic() - begin)
    return (
        f"test {metric} {result['test'][metric]:.3f}, best round {result['best_round']} of {result['rounds']}, {spent}"
    )


def _collect(asked: Comparison, cells: list[Cell], folder: Path) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for cell in cells:
        path = folder / "cells" / cell.name
        result = read_result(path) if (path / "result.json").is_file() else None
        rows.append(
            {
                "row": cell.row,
                "column": cell.column,
                "seed": cell.seed,
                "folder": str(Path("cells") / cell.name),
                "test": result and result["test"],
                "dev": result and result["dev"],
                "selection": result and result["selection"],
                "best_round": result and result["best_round"],
                "rounds": result and result["rounds"],
                "seconds": result and result["seconds"]["total"],
            }
        )
    summary = asked.summary(rows)
    for entry in summary:
        chosen = [
            row["selection"]
            for row in rows
            if row["row"] == entry["row"] and row["column"] == entry["column"] and row["selection"]
        ]
        entry["selection"] = (
            {
                "mean": sum(selection["precision"] for selection in chosen) / len(chosen),
                "base_rate": sum(selection["base_rate"] for selection in chosen) / len(chosen),
            }
            if chosen
            else None
        )
    if not any(row["test"] for row in rows):
        raise UserError("every run diverged; lower training.lr")
    return {"metric": asked.metric, "reference": asked.reference, "summary": summary, "cells": rows}


def _draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """One precision-recall figure a column: pr.png for the first, pr-<column>.png for the others."""
    from fedrel.report.charts import pr_figure

    figures: list[Path] = []
    for column in dict.fromkeys(cell["column"] for cell in report["cells"]):
        curves: dict[str, list[tuple[list[float], list[float]]]] = {}
        for cell in report["cells"]:
            if cell["column"] == column and cell["test"]:
                details = read_json(folder / cell["folder"] / "details.json", ("pr",))
                curves.setdefault(cell["row"], []).append((details["pr"]["precision"], details["pr"]["recall"]))
        suffix = "" if not figures else "-" + re.sub(r"[^a-z0-9.]+", "-", column.lower()).strip("-")
        path = folder / f"pr{suffix}.png"
        pr_figure(curves, path, title=column)
        figures.append(path)
    return figures
