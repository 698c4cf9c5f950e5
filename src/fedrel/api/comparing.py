"""Comparisons: methods × settings × seeds, their scores, figures and files; from Python and for the command line."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrel.api.experiments import Experiment
from fedrel.api.frames import to_frame
from fedrel.api.runs import Say, StrPath, nothing_said
from fedrel.config import as_toml
from fedrel.data import loading
from fedrel.data.partition import divide
from fedrel.errors import UserError
from fedrel.experiment.case_study import case_study
from fedrel.experiment.execution import Execution
from fedrel.experiment.results import read_json, read_result, read_rounds
from fedrel.sweeps.choosing import chosen_options, edges
from fedrel.sweeps.comparison import Cell, Comparison, read
from fedrel.sweeps.pool import Job, cache_data, run_here, run_in_processes, unfinished
from fedrel.sweeps.tables import scores, summarise
from fedrel.sweeps.warnings import warnings
from fedrel.util.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

_LATE = 15  # the later of the two rounds that the FedCMC paper shows; the last round if there are fewer


@dataclass(frozen=True)
class ComparisonResult:
    """A finished comparison, as `fedrel compare` leaves it in its folder."""

    folder: Path
    report: Mapping[str, Any]  # all of compare.json
    figures: tuple[Path, ...]

    def __repr__(self) -> str:
        several = len({column for _, column in self.means}) > 1
        means = ", ".join(
            f"{f'{row} ({column})' if several else row} {mean:.3f}"
            for (row, column), mean in self.means.items()
            if mean is not None
        )
        return f"ComparisonResult({self.report['metric']}: {means})"

    @property
    def means(self) -> dict[tuple[str, str], float | None]:
        """The mean test score of each row and column over its seeds; None: every run diverged."""
        return {(entry["row"], entry["column"]): entry["mean"] if entry["n"] else None for entry in self._summary}

    @property
    def _summary(self) -> list[dict[str, Any]]:
        summary: list[dict[str, Any]] = self.report["summary"]
        return summary

    @property
    def warnings(self) -> list[str]:
        """What one should know before believing the scores."""
        return list(self.report["warnings"])

    def to_pandas(self) -> pd.DataFrame:
        """A line a run: row, column, seed, and its scores on test."""
        return to_frame(
            [
                {**{key: cell[key] for key in ("row", "column", "seed", "rounds")}, **(cell["test"] or {})}
                for cell in self.report["cells"]
            ]
        )


def compare(
    experiment: Experiment | StrPath | None = None,
    *,
    methods: Sequence[str] = (),
    vary: Mapping[str, Sequence[object]] | None = None,
    seeds: int | None = None,
    metric: str | None = None,
    quick: bool = False,
    data: StrPath | None = None,
    worlds: int | Sequence[int] | None = None,
    splits: Sequence[str] = (),
    choose: Mapping[str, Sequence[object]] | None = None,
    choose_by: str = "",
    out: StrPath | None = None,
    jobs: int = 1,
    say: Say = nothing_said,
) -> ComparisonResult:
    """Compares methods over settings and seeds, as `fedrel compare` does:
    `compare(methods=["evidence", "none"], vary={"training.fraction": [0.2, 1.0]}, seeds=3)`. `experiment` is what all
    runs have in common, or a file with a [compare] section. Runs that are finished in the folder `out` are reused, so
    an interrupted comparison goes on. Errors are over seeds; over `worlds` (how many, or values of data.seed) or
    `splits` (folders below data.path) if these are given. Among the values of `choose`, settings as in `vary`, dev
    chooses for each row and column, or dev with names hidden (`choose_by="dev_ap_hidden"`). `jobs` above 1 runs so many
    at a time in processes of their own: a script then needs `if __name__ == "__main__":`. `say` is told a sentence for
    each run.

    Raises UserError for any mistake, in any run, before the first one starts.
    """
    written = (
        experiment.written if isinstance(experiment, Experiment) else None if experiment is None else Path(experiment)
    )
    asked = read(
        written,
        settings=[],
        methods=methods,
        vary=_lists(vary),
        seeds=seeds,
        metric=metric,
        quick=quick,
        data=None if data is None else Path(data),
        worlds="" if worlds is None else ",".join(map(str, [worlds] if isinstance(worlds, int) else worlds)),
        splits=",".join(splits),
        choose=_lists(choose),
        choose_by=choose_by,
    )
    if jobs < 1:
        raise UserError(f"jobs = {jobs}: how many runs at a time, at least 1")
    name = written.stem if isinstance(written, Path) else "world"
    folder = Path(out) if out is not None else Path("runs") / f"compare-{name}{'-quick' if quick else ''}"
    cells, left_out = available(asked)
    for sentence in left_out:
        say(sentence)
    begin = time.monotonic()
    missing = unfinished(jobs_of(cells, folder), "result.json")
    if jobs > 1:
        cache_data(missing, say)
    ended = run_in_processes(missing, finish_run, jobs) if jobs > 1 else run_here(missing, finish_run)
    for number, done in enumerate(ended, 1):
        say(f"{number}/{len(missing)}  {done.job.label}: {done.line}")
    report, figures = conclude(asked, cells, folder, time.monotonic() - begin)
    return ComparisonResult(folder, report, tuple(figures))


def _lists(settings: Mapping[str, Sequence[object]] | None) -> list[str]:
    """As the command line has them: key=value,value."""
    return [f"{key}={','.join(_text(key, value) for value in values)}" for key, values in (settings or {}).items()]


def _text(key: str, value: object) -> str:
    """A value of `vary` as the command line has it, where a comma separates values."""
    text = value if isinstance(value, str) else as_toml(value)
    if "," in text:
        raise UserError(f"vary: {key} = {text}: a value with a comma cannot be varied; make it a column of a file")
    return text


def available(asked: Comparison) -> tuple[list[Cell], list[str]]:
    """The runs whose data are here, and a sentence for each row and column that is left out."""
    cells = asked.with_data(asked.cells())
    columns, rows = {cell.column for cell in cells}, {cell.row for cell in cells}
    left_out = [
        f"{it.label}: left out, its data is missing ({asked.look.data})"
        for it in asked.columns
        if it.label not in columns
    ]
    left_out += [
        f"{it.label}: left out, its table of users is missing (feedback.table)"
        for it in asked.rows
        if it.label not in rows
    ]
    return cells, left_out


def jobs_of(cells: Sequence[Cell], folder: Path) -> list[Job]:
    """The runs of a comparison, each with its folder."""
    return [Job(it.label, it.experiment, _place(it, folder)) for it in cells]


def conclude(asked: Comparison, cells: list[Cell], folder: Path, seconds: float) -> tuple[dict[str, Any], list[Path]]:
    """Writes compare.json from the finished runs, and the figures; returns what it says, and where they are."""
    rows = [_row(asked, cell, folder) for cell in cells]
    if not any(row["test"] for row in rows):
        raise UserError("every run diverged; try a lower training.lr")
    best, options = chosen_options(rows)
    kept = [place for place, row in enumerate(rows) if row["option"] == best[row["row"], row["column"]]]
    cells, rows = [cells[place] for place in kept], [rows[place] for place in kept]
    report = _collect(asked, cells, rows, folder) | {"options": options, "seconds": seconds}
    report["warnings"] += edges(options)
    for entry in report["summary"]:
        entry["chosen"] = best.get((entry["row"], entry["column"]), [])
    write_atomic(folder / "compare.json", json.dumps(report, indent=1) + "\n")
    return report, _draw(asked, report, cells, folder)


def _place(cell: Cell, folder: Path) -> Path:
    return folder / "cells" / cell.name


def finish_run(execution: Execution, folder: Path) -> str:
    """The end of each run of a comparison, and a line for the log: its dev, which may still choose among runs."""
    result = execution.finish()
    metric = execution.setup.experiment.training.metric
    return f"dev {metric} {result['dev'][metric]:.3f}, best round {result['best_round']} of {result['rounds']}"


def _row(asked: Comparison, cell: Cell, folder: Path) -> dict[str, Any]:
    """A run as compare.json has it; without scores if it diverged."""
    path = _place(cell, folder)
    result = read_result(path) if (path / "result.json").is_file() else None
    return {
        "row": cell.row,
        "column": cell.column,
        "seed": cell.seed,
        "draw": cell.draw,
        "option": list(cell.option),
        "folder": str(Path("cells") / cell.name),
        "settings": cell.name.rpartition("-")[2],
        "scores": result and _scores(asked, cell, result, path),
        "right": result and read_json(path / "details.json", ()).get("right"),
        "test": result and result["test"],
        "dev": result and result["dev"],
        "dev_score": result and _dev_score(asked, cell, result),
        "selection": result and result["selection"],
        "best_round": result and result["best_round"],
        "rounds": result and result["rounds"],
        "seconds": result and result["seconds"]["total"],
        **{key: result and result.get(key, "") for key in ("version", "commit", "device")},
    }


def _dev_score(asked: Comparison, cell: Cell, result: dict[str, Any]) -> float:
    chooser = asked.look.choose_by
    found = result["dev"][cell.experiment.training.metric] if chooser == "dev" else result.get(chooser)
    if found is None:
        raise UserError(f'{cell.label}: this run has no {chooser} to choose by; use choose_by = "dev"')
    return float(found)


def _collect(asked: Comparison, cells: list[Cell], rows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
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
        "metrics": list(asked.metrics),
        "reference": asked.reference,
        "variation": {
            **vars(asked.variation),
            "draws": list(asked.variation.draws),
            "seeds": max(len(column.seeds) for column in asked.columns),
        },
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
