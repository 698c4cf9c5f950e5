"""`fedrel label`: raw text and a knowledge base in, labelled sentences out."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedrel.alignment import kb as knowledge
from fedrel.alignment.kb import KB
from fedrel.alignment.label import APART, CAP, LEFT_OUT, RATE, Batch, Labeller, Rules
from fedrel.alignment.mentions import NOT_IN_KB
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.files import beside_files, examples_beside_files, show_files
from fedrel.cli.reading import reading_progress
from fedrel.config import Data
from fedrel.corpus import NA, SHOWN, SPLITS
from fedrel.corpus.documents import Documents
from fedrel.corpus.rules import Rules as Reading
from fedrel.corpus.splitting import NEITHER
from fedrel.data import loading
from fedrel.data.sufficiency import too_little
from fedrel.errors import UserError
from fedrel.experiment.sampled_na import KEY
from fedrel.util.escaping import shown
from fedrel.util.files import atomic_folder
from fedrel.util.parallel import cores, map_in_order

_COUNTS = (
    *("documents", "marked documents", "characters", "sentences", "sentences with a pair"),
    *("mentions", "ambiguous", "settled"),
)


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
    labeller = Labeller(base, rules, language)
    with atomic_folder(out_) as folder:
        total, lines = _write(labeller, documents, folder, workers or cores())
        if not total.facts:
            raise UserError(_nothing_found(total, documents, kb))
        summary = _summary(total, lines, documents, base)
        summary["too_little"] = _too_little(folder, lines)
        (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8", newline="\n")
    if json_:
        print_json(json.dumps(summary, indent=1))
        return
    _show(summary, documents, out_)


def _write(labeller: Labeller, documents: Documents, folder: Path, workers: int) -> tuple[Batch, dict[str, int]]:
    """Writes a file for each split. Returns what was counted, and the number of lines of each."""
    total, rows = Batch(), folder / "rows.jsonl"
    with ExitStack() as stack:
        file = stack.enter_context(rows.open("w", encoding="utf-8", newline="\n"))
        tick = stack.enter_context(reading_progress("labelling", documents.bytes))
        for batch in stack.enter_context(closing(map_in_order(labeller.label, documents.pieces(), workers))):
            file.writelines(batch.lines)
            total.count(batch)
            tick(total.counts["characters"], total.counts["sentences"])
    shares = {SPLITS.index(it): getattr(labeller.rules, it) for it in labeller.rules.splits if it != "train"}
    decided = total.draft.decide_with_facts(shares)  # only now, since it depends on all of them
    with ExitStack() as stack:
        files = {
            SPLITS.index(split): stack.enter_context(
                (folder / f"{split}.jsonl").open("w", encoding="utf-8", newline="\n")
            )
            for split in labeller.rules.splits
        }
        for line, split in zip(stack.enter_context(rows.open(encoding="utf-8", newline="\n")), decided, strict=True):
            if split != NEITHER:
                files[split].write(line)
    rows.unlink()
    total.counts[APART] = decided.count(NEITHER)
    return total, {split: decided.count(SPLITS.index(split)) for split in labeller.rules.splits}


def _too_little(folder: Path, lines: dict[str, int]) -> list[str]:
    """What the labelled lines are too few for; where nothing can be trained on them at all, why not."""
    try:
        return too_little(loading.load(Data(source="opennre", path=str(folder))))
    except UserError as error:
        if not all(lines.values()):
            return []  # an empty split, which is told anyway
        return [str(error).removeprefix(f"{folder}: ")]  # a folder that is about to be renamed


def _nothing_found(total: Batch, documents: Documents, kb: Path) -> str:
    counts, text = total.counts, documents.path
    unknown = total.skipped.reasons[NOT_IN_KB]
    if not counts["sentences"]:
        why = "; ".join(f"{count:,} × {why}" for why, count in documents.skipped.reasons.items())
        return f"{text}: no text to label{f' ({why})' if why else ''}"
    if not counts["mentions"]:
        return f"{text}: {counts['sentences']:,} sentences without any name of {kb}; is it the right knowledge base?"
    if unknown == counts["mentions"]:
        return (
            f"{text}: none of the {unknown:,} marked entities is in {kb}, neither by id nor by name "
            f"(such as {total.skipped.examples[0]}); is it the right knowledge base?"
        )
    return (
        f"{text}: {counts['sentences']:,} sentences with {counts['mentions']:,} entities, but no two of them in one "
        f"sentence that stand in a relation in {kb}; is it the right knowledge base?"
    )


def load_kb(path: Path) -> KB:
    """The knowledge base in a file or folder; what is odd about it is said."""
    say(f"reading the knowledge base {path} …")
    base = knowledge.load(path)
    say(f"{len(base.ids):,} entities, {base.triples:,} facts, {len(base.relations)} relations")
    for kind, count in base.problems.counts.most_common():
        say(f"{count:,} × {kind}, such as {base.problems.examples[kind][0]}")
    return base


def _summary(total: Batch, lines: dict[str, int], documents: Documents, base: KB) -> dict[str, Any]:
    facts = Counter(relation for _, relation, _ in total.facts)
    left_out = Counter({why: total.counts[why] for why in LEFT_OUT if total.counts[why]})
    return {
        **{name.replace(" ", "_"): total.counts[name] for name in _COUNTS},
        "lines": lines,
        "pairs": len(total.pairs),
        "facts": len(total.facts),
        "relations": {
            relation: {"sentences": total.sentences_of[relation], "facts": facts[relation]}
            for relation in [NA, *base.relations]
        },
        KEY: _na_weight(total),
        "left_out": dict(left_out + total.skipped.reasons + documents.skipped.reasons),
        "left_out_examples": [*documents.skipped.examples, *total.skipped.examples][:SHOWN],
        "files": documents.files.as_json() if documents.files else None,
    }


def _na_weight(total: Batch) -> float:
    """How many pairs without a relation each one that was kept stands for."""
    kept, left_out = total.sentences_of[NA], total.counts[RATE] + total.counts[CAP]
    return round((kept + left_out) / kept, 3) if kept else 1.0


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
