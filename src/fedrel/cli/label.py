"""`fedrel label`: raw text and a knowledge base in, labelled sentences out."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedrel.alignment import kb as knowledge
from fedrel.alignment.kb import KB
from fedrel.alignment.label import Batch, Labeller, Rules
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.reading import reading_progress
from fedrel.corpus import NA, SPLITS
from fedrel.documents import Documents
from fedrel.errors import UserError
from fedrel.files import folder_whole
from fedrel.parallel import cores, in_order

_COUNTS = ("documents", "characters", "sentences", "sentences with a pair", "mentions", "ambiguous", "settled")


def label(
    kb: Annotated[Path, typer.Option("--kb", help="Folder with entities.tsv and triples.tsv, or .nt, or .csv.")],
    text: Annotated[Path, typer.Option("--text", help="A file or folder of text, in any format that is read.")],
    out_: Annotated[Path, typer.Option("--out", help="A new folder for train.jsonl, dev.jsonl and test.jsonl.")],
    source: Annotated[str, typer.Option("--format", help="Format of the text; without it, it is detected.")] = "",
    na_per_sentence: Annotated[int, typer.Option(min=0, help="Most pairs without a relation kept a sentence.")] = 3,
    na_rate: Annotated[float, typer.Option(min=0, max=1, help="Share of the pairs without a relation kept.")] = 1.0,
    dev: Annotated[float, typer.Option(min=0, max=0.9, help="Share of the pairs for dev.")] = 0.1,
    test: Annotated[float, typer.Option(min=0, max=0.9, help="Share of the pairs for test.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Which pairs are kept, and which split they go to.")] = 1,
    language: Annotated[str, typer.Option(help="Of the text, for splitting sentences: en, de, fr, …")] = "en",
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: one per core. The result is the same.")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Label the sentences of raw text with the facts of a knowledge base (distant supervision)."""
    if dev + test >= 1:
        raise UserError(f"--dev {dev} and --test {test} leave nothing to train on")
    if out_.exists():
        raise UserError(f"{out_} exists; choose a new folder")
    documents = Documents(text, source)
    say(f"{text}: {documents.source}{f' ({documents.why})' if documents.why else ''}")
    base = load_kb(kb)
    labeller = Labeller(base, Rules(na_per_sentence, na_rate, dev, test, seed), language)
    total = Batch()
    with folder_whole(out_) as folder, ExitStack() as files:
        splits = {
            split: files.enter_context((folder / f"{split}.jsonl").open("w", encoding="utf-8", newline="\n"))
            for split in SPLITS
        }
        lines = Counter[str]()
        with reading_progress("labelling", documents.bytes) as tick:
            for batch in in_order(labeller.label, documents.pieces(), workers or cores()):
                for split, file in splits.items():
                    file.writelines(batch.lines[split])
                    lines[split] += len(batch.lines[split])
                total.counts += batch.counts
                total.sentences_of += batch.sentences_of
                total.facts |= batch.facts
                total.pairs |= batch.pairs
                tick(total.counts["characters"], total.counts["sentences"])
        if not total.facts:
            raise UserError(
                f"{text}: {total.counts['sentences']:,} sentences with {total.counts['mentions']:,} names of {kb}, but "
                "no two of them in one sentence that stand in a relation; is it the right knowledge base?"
            )
        summary = _summary(total, lines, documents, base)
        (folder / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if json_:
        print_json(json.dumps(summary, indent=1))
        return
    _show(summary, out_)


def load_kb(path: Path) -> KB:
    """With what is odd about it said."""
    say(f"reading the knowledge base {path} …")
    base = knowledge.load(path)
    say(f"{len(base.ids):,} entities, {base.triples:,} facts, {len(base.relations)} relations")
    for kind, count in base.problems.counts.most_common():
        say(f"{count:,} × {kind}, such as {base.problems.examples[kind][0]}")
    return base


def _summary(total: Batch, lines: Counter[str], documents: Documents, base: KB) -> dict[str, Any]:
    facts = Counter(relation for _, relation, _ in total.facts)
    left_out = {name: count for name, count in total.counts.items() if name.startswith("NA pairs") and count}
    return {
        **{name.replace(" ", "_"): total.counts[name] for name in _COUNTS},
        "lines": {split: lines[split] for split in SPLITS},
        "pairs": len(total.pairs),
        "facts": len(total.facts),
        "relations": {
            relation: {"sentences": total.sentences_of[relation], "facts": facts[relation]}
            for relation in [NA, *base.relations]
        },
        "left_out": {**left_out, **dict(documents.skipped.reasons)},
        "left_out_examples": documents.skipped.examples,
    }


def _show(summary: dict[str, Any], folder: Path) -> None:
    table = Table(title=escape(str(folder)), title_justify="left")
    for column in ("relation", "sentences", "facts"):
        table.add_column(column, justify="left" if column == "relation" else "right")
    for relation, counts in sorted(summary["relations"].items(), key=lambda item: -item[1]["sentences"]):
        table.add_row(escape(relation), f"{counts['sentences']:,}", "" if relation == NA else f"{counts['facts']:,}")
    out.print(table)
    lines = summary["lines"]
    tell(
        f"{summary['documents']:,} documents, {summary['sentences']:,} sentences, {summary['mentions']:,} names "
        f"({summary['ambiguous']:,} ambiguous), {summary['pairs']:,} pairs, {summary['facts']:,} facts found"
    )
    tell(f"train {lines['train']:,}, dev {lines['dev']:,}, test {lines['test']:,} lines; a pair is in one of them only")
    for why, count in summary["left_out"].items():
        tell(f"{count:,} left out: {why}")
    for example in summary["left_out_examples"]:
        tell(f"  {example}")
    tell(f"next: fedrel run --set data.source=opennre --set data.path={folder}", "bold")
