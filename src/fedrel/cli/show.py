"""`fedrel show`: a finished run in the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedrel.cli.console import duration, out, print_json, tell
from fedrel.errors import UserError
from fedrel.units import megabytes


def show(
    folder: Annotated[Path, typer.Argument(help="The folder of a run or of a comparison.")],
    json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show what a run or a comparison found."""
    if (folder / "compare.json").is_file():
        from fedrel.cli.compare import comparison_table

        report = read_json(folder / "compare.json", ("metric", "reference", "summary", "cells"))
        if json_:
            print_json(json.dumps(report, indent=1))
        else:
            out.print(comparison_table(report))
        return
    result = read_result(folder)
    if json_:
        print_json(json.dumps(result, indent=1))
        return
    out.print(result_table(result))
    tell(f"report  {folder / 'report.html'}")


def read_result(folder: Path) -> dict[str, Any]:
    if not (folder / "result.json").exists():
        if (folder / "experiment.toml").is_file():
            raise UserError(f"{folder}: not finished; go on with: fedrel run --resume {folder}")
        raise UserError(f"{folder}: no run in this folder")
    return read_json(folder / "result.json", _RESULT)


_RESULT = ("method", "seed", "rounds", "best_round", "dev", "test", "selection", "bytes", "seconds")


def read_json(path: Path, keys: Iterable[str]) -> dict[str, Any]:
    """A file that we wrote; one that lacks a key is not."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not content.keys() >= set(keys):
            raise ValueError("something else than we wrote")
        return content
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: unreadable ({error})") from None


def result_table(result: dict[str, Any]) -> Table:
    title = f"{result['method']}, seed {result['seed']}: best of {result['rounds']} rounds is {result['best_round']}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for metric in result["test"]:
        table.add_column(metric, justify="right")
    table.add_row("dev", *(f"{value:.3f}" for value in result["dev"].values()), style="dim")
    table.add_row("test", *(f"[bold]{value:.3f}[/]" for value in result["test"].values()))
    selection = result["selection"]
    notes = [
        f"{megabytes(result['bytes']['up'])} up, {megabytes(result['bytes']['down'])} down",
        f"{duration(result['seconds']['total'])} at {result['sentences_per_second']:,.0f} sentences/s",
    ]
    if selection:
        notes.insert(
            0,
            f"selected sentences that express their fact: {selection['precision']:.0%} "
            f"(all sentences: {selection['base_rate']:.0%})",
        )
    if calibration := result.get("calibration"):  # a run of an earlier version has none
        before, after = (calibration["test"][name] for name in ("ece_before", "ece_after"))
        notes.append(f"calibration error on test {before:.3f}, with the temperature fitted on dev {after:.3f}")
    table.caption = "\n".join(notes)
    table.caption_justify = "left"
    return table
