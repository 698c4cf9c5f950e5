"""`fedrel feedback show`, `agreement`, `judged`, `export` and `import`: the verdicts in a store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum
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
from fedrel.extraction.facts import read_facts
from fedrel.extraction.supporting import are_facts, supporting
from fedrel.feedback import exchange, tools
from fedrel.feedback.agreement import agreement as agreed
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, VERDICTS, WRONG, Store
from fedrel.feedback.stored_verdicts import AnyRelation, judged_instances, judged_of
from fedrel.pages.passages import parts_of
from fedrel.pages.wording import Part
from fedrel.review.texts import DatasetTexts
from fedrel.util.files import write_atomic


class Form(StrEnum):
    own = "jsonl"
    label_studio = "label-studio"
    argilla = "argilla"


_MORE = ("corrected", "decisions")  # those of the wrong ones that name another relation, and an adjudicator's
_Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
_StoreFile = Annotated[Path, typer.Argument(metavar="STORE", help="A store of fedrel review.")]


def export(
    store: _StoreFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Overwritten if it exists.")],
    to: Annotated[Form, typer.Option("--to", help="The tools' forms quote the sentences, and need --data.")] = Form.own,
    data: Annotated[
        Path | None, typer.Option("--data", help="The data set or file of facts whose sentences were judged.")
    ] = None,
    source: Annotated[str, typer.Option("--source", "--format", help="Format of the data; else detected.")] = "",
    json_: _Json = False,
) -> None:
    """Write verdicts: all as JSON lines without text, or questions and answers for Label Studio or Argilla."""
    if file.exists() and store.exists() and file.samefile(store):
        raise UserError(f"{file}: this is the store itself; choose another name")
    if to != Form.own and data is None:
        raise UserError(f"--to {to}: the store has no sentences; name what was judged with --data")
    with Store.open(store, create=False) as opened:
        if to == Form.own:
            count = exchange.export(opened, file)
            _report({"verdicts": count, "file": str(file)}, f"{count:,} verdicts in {file}", json_)
            return
        assert data is not None
        asked = list(tools.asked_of(opened, _sentences(data, source)))
    if not asked:
        raise UserError(f"{store}: no prediction that was shown is about a sentence of {data}")
    write_atomic(file, tools.TO[to](asked), private=True)
    line = f"{len(asked):,} questions in {file}"
    if to == Form.label_studio:
        interface = file.with_suffix(".xml")
        write_atomic(interface, tools.label_studio_interface(sorted({it.relation for it in asked})), private=True)
        line += f"; their labelling interface in {interface}"
    _report({"questions": len(asked), "file": str(file)}, line, json_)


def import_(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Created if it does not exist.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by export, or a tool's export of it.")],
    of: Annotated[Form, typer.Option("--from", help="What has written it.")] = Form.own,
    json_: _Json = False,
) -> None:
    """Add the verdicts of an exported file to a store. Existing verdicts do not change."""
    if not file.is_file():
        raise UserError(f"{file}: no such file")
    with Store.open(store) as opened:
        count = exchange.load(opened, file) if of == Form.own else tools.load(opened, file, of)
    _report({"added": count, "store": str(store)}, f"{count:,} rows added to {store}", json_)


def judged(
    store: _StoreFile,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The data set or facts whose sentences were judged.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines; overwritten if it exists.")],
    source: Annotated[str, typer.Option("--source", "--format", help="Format of the data; else detected.")] = "",
    json_: _Json = False,
) -> None:
    """Write the judged sentences with what people said of them, for data.human of a run: it quotes the text."""
    if are_facts(data):
        keyed = [(sentence_key(it.tokens, it.spans), it.instance) for it in supporting(read_facts(data))]
        lines = list(opennre.lines(judged_of(store, keyed, AnyRelation())))
    else:
        dataset = loading.load(Data(source=labelled_source(data, source), path=str(data)), say=say)
        if not dataset.has_pairs:
            raise UserError(f"{data}: plain texts have no pairs of entities; data.human is of sentences with relations")
        lines = list(opennre.lines(judged_instances(store, dataset)))
    if not lines:
        raise UserError(f"{store}: no verdict that is right or wrong; judge some sentences with fedrel review first")
    write_atomic(file, "".join(lines), private=True)
    summary = {"sentences": len(lines), "file": str(file)}
    _report(summary, f"{len(lines):,} judged sentences in {file}; next: fedrel run … --set data.human={file}", json_)


def agreement(store: _StoreFile, json_: _Json = False) -> None:
    """Say how far reviewers agree: Cohen's κ of two, Krippendorff's α of all."""
    with Store.open(store, create=False) as opened:
        found = agreed(opened.standing())
    if json_:
        pairs = [{"users": it.users, "both": it.both, "same": it.same, "kappa": it.kappa} for it in found.pairs]
        summary = {"reviewers": found.reviewers, "shared": found.shared, "alpha": found.alpha, "pairs": pairs}
        print_json(json.dumps({**summary, "disputes": len(found.disputes), "open": found.open}, ensure_ascii=False))
        return
    table = Table()
    table.add_column("reviewers", overflow="fold")
    for column in ("both judged", "same", "κ"):
        table.add_column(column, justify="right")
    table.add_column("in words")
    for it in found.pairs:
        same = f"{it.same / it.both:.0%}" if it.both else ""
        kappa = "" if it.kappa is None else f"{it.kappa:.2f}"
        table.add_row(Text(", ".join(it.users)), f"{it.both:,}", same, kappa, it.words)
    if found.pairs:
        out.print(table)
    alpha = "" if found.alpha is None else f"Krippendorff's α {found.alpha:.2f} on {found.shared:,} predictions. "
    tell(f"{alpha}{found.words}")
    if found.disputes:
        tell(f"{len(found.disputes):,} disagreements, {found.open:,} to decide: fedrel review … --order disputed")


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


def _sentences(data: Path, source: str) -> Iterator[tuple[str, Sequence[Part]]]:
    """The sentences of a data set or a file of facts, by key."""
    if are_facts(data):
        for it in supporting(read_facts(data)):
            yield sentence_key(it.tokens, it.spans), parts_of(it.support.text, it.support.head, it.support.tail)
        return
    dataset = loading.load(Data(source=labelled_source(data, source), path=str(data)), say=say)
    for split in (dataset.train, dataset.dev, dataset.test):
        texts = DatasetTexts(dataset, split)
        for row in range(len(split)):
            yield sentence_key(*texts.sentence(row)), texts.parts(row)


def _report(summary: dict[str, object], line: str, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps(summary))
    else:
        tell(line)
