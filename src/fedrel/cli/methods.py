"""`fedrel methods`: what there is, each with its paper."""

import json
from dataclasses import MISSING, fields, is_dataclass
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
            name: {
                "paper": m.paper,
                "summary": m.summary,
                "settings": _settings(m),
                "stacked": _stacked(m),
                "package": str(METHODS.origin(name) or "fedrel"),
            }
            for name, m in METHODS.items()
        }
        print_json(json.dumps(described, indent=1))
        return
    table = Table(show_lines=False)
    for column in ("method.name", "what it does", "paper", "its settings", "stacked"):
        table.add_column(column)
    for name, method in METHODS.items():
        origin = METHODS.origin(name)
        paper = method.paper if origin is None else f"{method.paper} (plug-in: {origin})".strip()
        settings = ", ".join(f"{key} = {value!r}" for key, value in _settings(method).items())
        table.add_row(Text(name, "bold"), method.summary, paper, settings or "–", _stacked(method))
    out.print(table)
    out.print(
        "Stacked: on a GPU, or with engine.stacked=on, all platforms of a round train as one program. For methods "
        "with a loss of their own only the encoder does; the loss is computed platform by platform, which is slower.",
        soft_wrap=True,
    )
    out.print("Use one with: fedrel run --set method.name=one", soft_wrap=True)


def _stacked(method: Method) -> str:
    return "all of it" if getattr(method.algorithm, "loss", None) is FedAvg.loss else "the encoder"


def _settings(method: Method) -> dict[str, object]:
    if not is_dataclass(method.algorithm):
        return {}
    return {it.name: it.default for it in fields(method.algorithm) if it.default is not MISSING}
