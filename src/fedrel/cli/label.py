"""`fedrel label`: raw text and a knowledge base in, labelled sentences out."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedrel.alignment import kb as knowledge
from fedrel.alignment.kb import KB
from fedrel.alignment.label import Labeller, Rules
from fedrel.api.labelling import label_into
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.files import beside_files, examples_beside_files, show_files
from fedrel.cli.reading import reading_progress
from fedrel.corpus import NA, SHOWN
from fedrel.corpus.documents import Documents
from fedrel.corpus.rules import Rules as Reading
from fedrel.errors import UserError
from fedrel.util.escaping import shown
from fedrel.util.parallel import cores


def label(
    kb: Annotated[Path, typer.Option("--kb", help="Folder with entities.tsv and triples.tsv, or .nt, or .csv.")],
    text: Annotated[Path, typer.Option("--text", help="A file or folder of text, in any format that is read.")],
    out_: Annotated[Path, typer.Option("--out", help="A new folder for train.jsonl, dev.jsonl and test.jsonl.")],
    source: Annotated[str, typer.Option("--format", "--source", help="Format of the text; else detected.")] = "",
    na_per_sentence: Annotated[int, typer.Option(min=0, help="Most pairs without a relation kept a sentence.")] = 3,
    na_rate: Annotated[float, typer.Option(min=0, max=1, help="Share of the pairs without a relation kept.")] = 1.0,
    dev: Annotated[float, typer.Option(min=0, max=0.9, help="Share of the pairs for dev.")] = 0.1,
    test: Annotated[float, typer.Option(min=0, max=0.9, help="Share of the pairs for test.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Which pairs are kept, and which split they go to.")] = 1,
    language: Annotated[str, typer.Option(help="Of the text, for splitting sentences: en, de, fr, …")] = "en",
    workers: Annotated[
        int, typer.Option(min=0, max=256, help="Processes; 0: one per core. The result is the same.")
    ] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a single broken file or row.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Label the sentences of raw text with the facts of a knowledge base (distant supervision)."""
    rules = Rules(na_per_sentence, na_rate, dev, test, seed)
    if out_.exists():
        raise UserError(f"{out_} exists; choose a new folder")
    documents = Documents(text, source, bad_rows=0 if strict else Reading().bad_rows)
    say(f"{text}: {documents.source}{f' ({documents.why})' if documents.why else ''}")
    base = load_kb(kb)
    with reading_progress("labelling", documents.bytes) as tick:
        summary = label_into(out_, Labeller(base, rules, language), documents, base, kb, workers or cores(), tick)
    if json_:
        print_json(json.dumps(summary, indent=1))
        return
    _show(summary, documents, out_)


def load_kb(path: Path) -> KB:
    """The knowledge base in a file or folder; what is odd about it is said."""
    say(f"reading the knowledge base {path} …")
    base = knowledge.load(path)
    say(f"{len(base.ids):,} entities, {base.triples:,} facts, {len(base.relations)} relations")
    for kind, count in base.problems.counts.most_common():
        say(f"{count:,} × {kind}, such as {base.problems.examples[kind][0]}")
    return base


def _show(summary: dict[str, Any], documents: Documents, folder: Path) -> None:
    show_files(documents.files)
    table = Table(title=Text(str(folder), "table.title"), title_justify="left")
    for column in ("relation", "sentences", "facts"):
        table.add_column(column, justify="left" if column == "relation" else "right", overflow="fold")
    for relation, counts in sorted(summary["relations"].items(), key=lambda item: -item[1]["sentences"]):
        if counts["sentences"]:
            facts = "" if relation == NA else f"{counts['facts']:,}"
            table.add_row(Text(shown(relation, 200)), f"{counts['sentences']:,}", facts)
    out.print(table)
    missing = [relation for relation, counts in summary["relations"].items() if not counts["sentences"]]
    if missing:
        tell(f"without a sentence: {', '.join(missing[:SHOWN])}{' …' if len(missing) > SHOWN else ''}")
    marked = f"; entities were marked in {summary['marked_documents']:,}" if summary["marked_documents"] else ""
    tell(
        f"{summary['documents']:,} documents{marked}, {summary['sentences']:,} sentences, {summary['mentions']:,} "
        f"entities ({summary['ambiguous']:,} ambiguous), {summary['pairs']:,} pairs, {summary['facts']:,} facts found"
    )
    lines = summary["lines"]
    counts = ", ".join(f"{split} {count:,}" for split, count in lines.items())
    tell(f"{counts} lines; a pair is in one of them only, and so is a sentence")
    for why, count in beside_files(summary["left_out"], documents.skipped).items():
        tell(f"{count:,} left out: {why}")
    for example in examples_beside_files(summary["left_out_examples"], documents.skipped):
        tell(f"  {example}")
    for split, count in lines.items():
        if not count:
            tell(f"no pair fell to {split}: give more text, or a larger share of it", "bold")
    for warning in summary["too_little"]:
        tell(f"warning: {warning}", "bold")
    tell(f"next: fedrel run --set data.source=opennre --set {quote(f'data.path={folder}')}", "bold")
