"""`fedrel compare`: methods × settings × seeds in one table, one figure and one JSON file."""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.pool import Job, run_missing
from fedrel.cli.show import read_json, read_result, read_rounds
from fedrel.data import loading
from fedrel.data.partition import divide
from fedrel.errors import UserError
from fedrel.experiment.case_study import case_study
from fedrel.experiment.execution import Execution
from fedrel.sweeps.comparison import Cell, Comparison, read
from fedrel.sweeps.tables import comparison_table, scores, summarise
from fedrel.sweeps.warnings import warnings
from fedrel.util.files import write_atomic

__all__ = ["compare", "comparison_table", "tell_warnings"]
_LATE = 15  # the later of the two rounds that the FedCMC paper shows; the last round if there are fewer


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
    cells = asked.with_data(asked.cells())
    for column in asked.columns:
        if not any(cell.column == column.label for cell in cells):
            say(f"{column.label}: left out, its data is missing ({asked.look.data})")
    for row in asked.rows:
        if not any(cell.row == row.label for cell in cells):
            say(f"{row.label}: left out, its table of users is missing (feedback.table)")
    begin = time.monotonic()
    finished = [
        Job(f"{cell.row}, {cell.column}, seed {cell.seed}", cell.experiment, _place(cell, folder)) for cell in cells
    ]
    run_missing(finished, _finish, "result.json", jobs)
    report = _collect(asked, cells, folder)
    report["seconds"] = time.monotonic() - begin
    write_atomic(folder / "compare.json", json.dumps(report, indent=1) + "\n")
    figures = _draw(asked, report, cells, folder)
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


def _place(cell: Cell, folder: Path) -> Path:
    return folder / "cells" / cell.name


def _finish(execution: Execution, folder: Path) -> str:
    result = execution.finish()
    metric = execution.setup.experiment.training.metric
    return f"test {metric} {result['test'][metric]:.3f}, best round {result['best_round']} of {result['rounds']}"


def _collect(asked: Comparison, cells: list[Cell], folder: Path) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for cell in cells:
        path = _place(cell, folder)
        result = read_result(path) if (path / "result.json").is_file() else None
        rows.append(
            {
                "row": cell.row,
                "column": cell.column,
                "seed": cell.seed,
                "folder": str(Path("cells") / cell.name),
                "scores": result and _scores(asked, cell, result, path),
                "right": result and read_json(path / "details.json", ()).get("right"),
                "test": result and result["test"],
                "dev": result and result["dev"],
                "selection": result and result["selection"],
                "best_round": result and result["best_round"],
                "rounds": result and result["rounds"],
                "seconds": result and result["seconds"]["total"],
            }
        )
    if not any(row["test"] for row in rows):
        raise UserError("every run diverged; try a lower training.lr")
    summary = summarise(asked, rows)
    losses, labels = _last_losses(rows, folder)
    for row in rows:
        del row["right"]  # long, and no longer needed
    for entry in summary:
        entry["selection"] = _selection(
            [row["selection"] for row in rows if (row["row"], row["column"]) == (entry["row"], entry["column"])]
        )
    return {
        "metric": asked.metric,
        "metrics": asked.metrics,
        "reference": asked.reference,
        "quick": asked.quick,
        "dev_metric": cells[0].experiment.training.metric,
        **vars(asked.look),
        "target": asked.look.target or None,
        "warnings": warnings(cells, rows, losses, labels),
        "summary": summary,
        "cells": rows,
    }


def _last_losses(rows: list[dict[str, Any]], folder: Path) -> tuple[list[float | None], int]:
    """The training loss of the last round of each run, and the number of labels."""
    losses: list[float | None] = []
    labels = 0
    for row in rows:
        losses.append(read_rounds(folder / row["folder"])[-1]["loss"] if row["test"] else None)
        if row["test"] and not labels:
            labels = len(read_json(folder / row["folder"] / "details.json", ("data",))["data"]["relations"])
    return losses, labels


def _scores(asked: Comparison, cell: Cell, result: dict[str, Any], path: Path) -> dict[str, float | None]:
    details = read_json(path / "details.json", ())
    return scores(asked, result, read_rounds(path), details, cell.experiment.training.metric)


def _selection(chosen: list[dict[str, float] | None]) -> dict[str, float] | None:
    known = [selection for selection in chosen if selection]
    if not known:
        return None
    return {
        "mean": sum(selection["precision"] for selection in known) / len(known),
        "base_rate": sum(selection["base_rate"] for selection in known) / len(known),
    }


def _draw(asked: Comparison, report: dict[str, Any], cells: list[Cell], folder: Path) -> list[Path]:
    """Draws the figures that the comparison asks for, or else those that suit its data. Returns their paths."""
    from fedrel.report import figures

    done = [(cell, folder / row["folder"]) for cell, row in zip(cells, report["cells"], strict=True) if row["test"]]
    kind = asked.look.figure or ("pr" if "pr" in read_json(done[0][1] / "details.json", ()) else "bars")
    bars = folder / "bars.png"
    if kind == "bars":
        figures.bars_figure(report, bars)
        return [bars]
    if kind == "similarity":
        return _similarity(done, folder)
    if kind == "cases":
        first = [
            (cell, path) for cell, path in done if cell.seed == done[0][0].seed and cell.column == done[0][0].column
        ]
        ordered = sorted(first, key=lambda it: it[0].row != asked.reference)
        cases = case_study([(cell.row, cell.experiment, path) for cell, path in ordered])
        write_atomic(folder / "cases.md", cases, private=True)  # quotes sentences
        return [folder / "cases.md"]
    drawn = [] if kind == "none" else _by_column(kind, done, folder)
    if kind == "rounds" and len(drawn) > 1:  # the final scores, side by side
        figures.bars_figure(report, bars)
        drawn.append(bars)
    return drawn


def _by_column(kind: str, done: list[tuple[Cell, Path]], folder: Path) -> list[Path]:
    """Draws one figure per column with all rows: pr.png for the first, pr-<column>.png for the others; or rounds.png …
    Returns their paths.
    """
    from fedrel.report.figures import pr_figure, rounds_figure

    drawn: list[Path] = []
    for column in dict.fromkeys(cell.column for cell, _ in done):
        suffix = "" if not drawn else "-" + re.sub(r"[^a-z0-9.]+", "-", column.lower()).strip("-")
        path = folder / f"{kind}{suffix}.png"
        mine = [(cell, place) for cell, place in done if cell.column == column]
        if kind == "pr":
            curves: dict[str, list[tuple[list[float], list[float]]]] = {}
            for cell, place in mine:
                curve = read_json(place / "details.json", ("pr",))["pr"]
                curves.setdefault(cell.row, []).append((curve["precision"], curve["recall"]))
            pr_figure(curves, path, title=column)
        else:
            metric = mine[0][0].experiment.training.metric
            lines: dict[str, list[list[float]]] = {}
            selection: dict[str, list[list[float]]] = {}
            base_rate = math.nan
            for cell, place in mine:
                rounds = read_rounds(place)
                lines.setdefault(cell.row, []).append([line["dev"][metric] for line in rounds])
                found = [line.get("selection") or {} for line in rounds]
                selection.setdefault(cell.row, []).append([it.get("precision", math.nan) for it in found])
                base_rate = next((it["base_rate"] for it in found if it), base_rate)
            shown = f"dev {metric}"
            rounds_figure(lines, path, title=column, metric=shown, selection=selection, base_rate=base_rate)
        drawn.append(path)
    return drawn


def _similarity(done: list[tuple[Cell, Path]], folder: Path) -> list[Path]:
    """Draws label counts next to the similarity of classifier vectors, of the first run that recorded it."""
    from fedrel.report.figures import similarity_figure

    for cell, place in done:
        traced = {line["round"]: line["trace"] for line in read_rounds(place) if line.get("trace")}
        if not traced:
            continue
        dataset = loading.load(cell.experiment.data)
        division = divide(dataset, cell.experiment.partition, cell.experiment.seed)
        rounds = sorted({min(traced), max(number for number in traced if number <= _LATE or number == min(traced))})
        names = list(division.platforms)
        similarity_figure(
            dataset.relations,
            dict(zip(names, division.label_counts(dataset).tolist(), strict=True)),
            {number: {name: traced[number].get(f"similarity/{name}") for name in names} for number in rounds},
            folder / "similarity.png",
        )
        return [folder / "similarity.png"]
    raise UserError('figure = "similarity" needs a row whose method is fedcmc')
