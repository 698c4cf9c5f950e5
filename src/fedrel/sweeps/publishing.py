"""Tables on a page, each made from a JSON file beside it: no number on the page is typed by hand.

A page holds a place for every table, two lines, and what stands between them is replaced.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.sweeps.tables import cell_text, notes, title
from fedrel.util.files import write_atomic

_BEGIN, _END = "<!-- table {}: made by fedrel compare --publish -->", "<!-- end of table {} -->"
_PLACE = re.compile(r"^<!-- table ([a-z0-9.-]+): made by fedrel compare --publish -->\n", re.MULTILINE)
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_OF_RUN = ("row", "column", "seed", "draw", "option", "scores", "dev", "best_round", "rounds", "seconds")
_ORIGIN = ("settings", "version", "commit", "device")
_COMMIT = 12  # characters


def place_on(target: str, name: str) -> tuple[Path, str]:
    """The page and the table that --publish names: PAGE, or PAGE#TABLE where the table is not called as its file is.
    UserError if the page has no place for it.
    """
    path, _, own = target.partition("#")
    page, name = Path(path), own or name
    if not _NAME.fullmatch(name):
        raise UserError(f'--publish {target}: "{name}" is no name of a table; use a-z, 0-9, "-" and "."')
    _replaced(_read(page), page, name, "")
    return page, name


def publish(page: Path, name: str, command: str, report: Mapping[str, Any]) -> Path:
    """Writes a comparison (compare.json) beside the page and its table into the page; returns the JSON's path."""
    kept = {key: value for key, value in report.items() if key not in ("cells", "figure", "seconds")}
    runs = [{key: cell.get(key) for key in (*_OF_RUN, *_ORIGIN)} for cell in report["cells"]]
    content = {"name": name, "command": command, **kept, "cells": runs}
    beside = _beside(page, name)
    text = _replaced(_read(page), page, name, table_of(content, beside.name))
    write_atomic(beside, json.dumps(content, indent=1) + "\n")
    write_atomic(page, text)
    return beside


def published(page: Path) -> str:
    """The page's text, with every table on it made anew from its JSON file."""
    text = _read(page)
    for name in _PLACE.findall(text):
        beside = _beside(page, name)
        try:
            content = json.loads(beside.read_text(encoding="utf-8"))
            table = table_of(content, beside.name)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{beside}: no table can be made of this file ({error})") from None
        text = _replaced(text, page, name, table)
    return text


def table_of(content: Mapping[str, Any], file: str) -> str:
    """A published comparison as Markdown."""
    summary = content["summary"]
    columns, rows = (list(dict.fromkeys(entry[key] for entry in summary)) for key in ("column", "row"))
    entries = {(entry["row"], entry["column"]): entry for entry in summary}
    lines = [f"`{content['command']}`", "", f"{title(content)}.", ""]
    lines += [_line(["method", *columns]), "|" + "---|" * (len(columns) + 1)]
    lines += [
        _line([row, *(cell_text(entries[row, column], content).plain.replace("\n", "<br>") for column in columns)])
        for row in rows
    ]
    said = [note if note.endswith(".") else f"{note}." for note in (*notes(content), *content["warnings"])]
    lines += ["", *(line for note in said for line in (note, "")), _origin(content["cells"], file), ""]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") or "–" for cell in cells) + " |"


def _origin(cells: list[Mapping[str, Any]], file: str) -> str:
    """What made the table, and where."""
    finished = [cell for cell in cells if cell["seconds"] is not None]
    times = [cell["seconds"] for cell in finished]
    by = " and ".join(dict.fromkeys(_maker(cell) for cell in finished))
    devices = " and ".join(dict.fromkeys(cell["device"] for cell in finished if cell["device"]))
    where = f" on {devices}" if devices else ""
    failed = f", {len(cells) - len(finished)} of which diverged" if len(finished) < len(cells) else ""
    hours = f"median; {sum(times) / 3600:.2f} hours in all"
    return (
        f"{len(cells)} runs{failed}, by {by}{where}; a run took {statistics.median(times):.0f} seconds ({hours}). "
        f"Every run, with its scores, settings and time: [{file}]({file})."
    )


def _maker(cell: Mapping[str, Any]) -> str:
    commit = cell["commit"] or ""
    changed = ", with changes" if commit.endswith("+") else ""
    at = f" at {commit.rstrip('+')[:_COMMIT]}{changed}" if commit else ""
    return f"fedrel {cell['version'] or 'of an unknown version'}{at}"


def _beside(page: Path, name: str) -> Path:
    return page.with_name(f"{page.stem}-{name}.json")


def _read(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{page}: the page cannot be read ({error})") from None


def _replaced(text: str, page: Path, name: str, table: str) -> str:
    """The text of a page with this between the two lines of a table."""
    begin, end = (line.format(name) for line in (_BEGIN, _END))
    before, found, rest = text.partition(f"{begin}\n")
    _, closed, after = rest.partition(f"{end}\n")
    if not found or not closed or begin in after:
        raise UserError(
            f"{page}: no place for the table {name}, or several; write where it belongs, once, on two lines: "
            f"{begin} {end}"
        )
    return f"{before}{begin}\n\n{table}\n{end}\n{after}"
