"""`fedrel methods`: what there is, each with its paper."""

import json
from dataclasses import MISSING, fields
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedrel.algorithms import METHODS, FedAvg, Method
from fedrel.cli.console import out, print_json


def methods(json_: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the methods, their papers and their own settings."""
    if json_:
        described = {
            name: {"paper": m.paper, "summary": m.summary, "settings": _settings(m), "cohort": _cohort(m)}
            for name, m in METHODS.items()
        }
        print_json(json.dumps(described, indent=1))
        return
    table = Table(show_lines=False)
    for column in ("method.name", "what it does", "paper", "its settings", "as one"):
        table.add_column(column)
    for name, method in METHODS.items():
        settings = ", ".join(f"{key} = {value!r}" for key, value in _settings(method).items())
        table.add_row(Text(name, "bold"), method.summary, method.paper, settings or "–", _cohort(method))
    out.print(table)
    out.print(
        "As one: with engine.cohort, as on a GPU, all platforms of a round train as one program; of some methods only "
        "the encoder does, and their loss is found platform after platform, which is slower.",
        soft_wrap=True,
    )
    out.print("Use one with: fedrel run --set method.name=one", soft_wrap=True)


def _cohort(method: Method) -> str:
    return "all of it" if method.algorithm.loss is FedAvg.loss else "the encoder"


def _settings(method: Method) -> dict[str, object]:
    return {f.name: f.default for f in fields(method.algorithm) if f.default is not MISSING}
