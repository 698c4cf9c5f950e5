"""`fedrel audit show`: connections, commands and refusals of a node."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedrel.cli.console import out, print_json, tell
from fedrel.errors import UserError
from fedrel.federation.nodes import audit
from fedrel.util.escaping import shown

_RED = ("refused", "invalid message", "failure", "outlier", "server ended", "transport ended", "run interrupted")


def show(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The kit of a coordinator or a platform.")],
    event: Annotated[str, typer.Option("--event", help="Only events of this kind, like refused.")] = "",
    last: Annotated[int, typer.Option("--last", min=1, help="How many events to show.")] = 100,
    json_: Annotated[bool, typer.Option("--json", help="Print as JSON, one line per event.")] = False,
) -> None:
    """Show the audit trail of a node, newest last."""
    if not (kit / "kit.json").is_file():
        raise UserError(f"{kit}: not a kit (it has no kit.json)")
    every = list(audit.read(kit))
    found = [it for it in every if event in ("", it.get("event"))]
    if json_:
        for it in found[-last:]:
            print_json(json.dumps(it))
        return
    table = Table("time (UTC)", "event", "who", "from", "what")
    for it in found[-last:]:
        table.add_row(*_cells(it))
    out.print(table)
    counts = Counter(str(it.get("event")) for it in every)
    tell("in all: " + ", ".join(f"{count} {shown(name, 40)}" for name, count in counts.most_common()))


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | dict) else str(value)


def _cells(it: dict[str, Any]) -> tuple[Text, ...]:
    known = ("time", "event", "name", "who", "by", "address")
    who = it.get("name") or it.get("who") or it.get("by") or ""
    rest = ", ".join(
        f"{key} {_listed(value)}" for key, value in it.items() if key not in known and value not in ("", [])
    )
    cells = (str(it.get("time", ""))[:19].replace("T", " "), str(it.get("event", "")), who, it.get("address", ""), rest)
    style = "red" if it.get("event") in _RED else ""
    return tuple(Text(shown(str(cell), 200), style) for cell in cells)
