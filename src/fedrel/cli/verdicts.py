"""`fedrel feedback show`, `export` and `import`: the verdicts in a store."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.review import labelled_source
from fedrel.config import Data
from fedrel.corpus import opennre
from fedrel.data import loading
from fedrel.errors import UserError
from fedrel.feedback import exchange
from fedrel.feedback.store import RIGHT, VERDICTS, WRONG, Store
from fedrel.feedback.stored_verdicts import judged_instances
from fedrel.util.files import write_atomic

_MORE = ("corrected", "decisions")  # those of the wrong ones that name another relation, and an adjudicator's
_Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
_StoreFile = Annotated[Path, typer.Argument(metavar="STORE", help="A store of fedrel review.")]


def export(
    store: _StoreFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines; overwritten if it exists.")],
    json_: _Json = False,
) -> None:
    """Write all verdicts as JSON lines: user, time, prediction and model, but no text of sentences."""
    if file.exists() and store.exists() and file.samefile(store):
        raise UserError(f"{file}: this is the store itself; choose another name")
    with Store.open(store, create=False) as opened:
        count = exchange.export(opened, file)
    _report({"verdicts": count, "file": str(file)}, f"{count:,} verdicts in {file}", json_)


def import_(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Created if it does not exist.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by export.")],
    json_: _Json = False,
) -> None:
    """Add the verdicts of an exported file to a store. Existing verdicts do not change."""
    if not file.is_file():
        raise UserError(f"{file}: no such file")
    with Store.open(store) as opened:
        count = exchange.load(opened, file)
    _report({"added": count, "store": str(store)}, f"{count:,} rows added to {store}", json_)


def judged(
    store: _StoreFile,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The data set whose sentences were judged.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines; overwritten if it exists.")],
    source: Annotated[str, typer.Option("--source", "--format", help="Format of the data; else detected.")] = "",
    json_: _Json = False,
) -> None:
    """Write the judged sentences with what people said of them, for data.human of a run: it quotes the text."""
    dataset = loading.load(Data(source=labelled_source(data, source), path=str(data)), say=say)
    if not dataset.has_pairs:
        raise UserError(f"{data}: plain texts have no pairs of entities; data.human is of sentences with relations")
    lines = list(opennre.lines(judged_instances(store, dataset)))
    if not lines:
        raise UserError(f"{store}: no verdict that is right or wrong; judge some sentences with fedrel review first")
    write_atomic(file, "".join(lines), private=True)
    summary = {"sentences": len(lines), "file": str(file)}
    _report(summary, f"{len(lines):,} judged sentences in {file}; next: fedrel run … --set data.human={file}", json_)


def show(store: _StoreFile, json_: _Json = False) -> None:
    """Count the verdicts in a store, by user and model."""
    with Store.open(store, create=False) as opened:
        counts = opened.counts()
        verdicts = list(opened.standing())
    rows: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys((*VERDICTS, *_MORE), 0))
    for verdict in verdicts:
        row = rows[verdict.user, verdict.model]
        row[_MORE[1] if verdict.decides else verdict.verdict] += 1
        row[_MORE[0]] += verdict.corrected is not None and not verdict.decides
    if json_:
        by = [{"user": user, "model": model, **kinds} for (user, model), kinds in sorted(rows.items())]
        print_json(json.dumps({**counts, "by": by}, indent=1, ensure_ascii=False))
        return
    table = Table()
    for column in ("user", "model"):
        table.add_column(column, overflow="fold")
    more = [column for column in _MORE if any(kinds[column] for kinds in rows.values())]
    for column in (*VERDICTS, *more, "agreed"):
        table.add_column(column, justify="right")
    for (user, model), kinds in sorted(rows.items()):
        known = kinds[RIGHT] + kinds[WRONG]
        agreed = f"{kinds[RIGHT] / known:.0%}" if known else ""
        table.add_row(Text(user), Text(model), *(f"{kinds[it]:,}" for it in (*VERDICTS, *more)), agreed)
    if rows:
        out.print(table)
    tell(f"{sum(counts[kind] for kind in VERDICTS):,} verdicts; {counts['shown']:,} predictions were shown")


def _report(summary: dict[str, object], line: str, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps(summary))
    else:
        tell(line)
