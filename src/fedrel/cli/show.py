"""`fedrel show`: a finished run in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedrel.cli.console import duration, megabytes, out, print_json
from fedrel.errors import UserError


def show(
    folder: Annotated[Path, typer.Argument(help="The folder of a run or of a comparison.")],
    json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show what a run or a comparison found."""
    if (folder / "compare.json").is_file():
        from fedrel.cli.compare import comparison_table

        text = (folder / "compare.json").read_text(encoding="utf-8")
        if json_:
            print_json(text)
        else:
            out.print(comparison_table(json.loads(text)))
        return
    result = read_result(folder)
    if json_:
        print_json(json.dumps(result, indent=1))
        return
    out.print(result_table(result))
    out.print(f"report  {folder / 'report.html'}", soft_wrap=True)


def read_result(folder: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        return result
    except FileNotFoundError:
        if (folder / "experiment.toml").is_file():
            raise UserError(f"{folder}: not finished; go on with: fedrel run --resume {folder}") from None
        raise UserError(f"{folder}: no run in this folder") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / 'result.json'}: unreadable ({error})") from None


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
    table.caption = "\n".join(notes)
    table.caption_justify = "left"
    return table
