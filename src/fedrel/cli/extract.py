"""`fedrel extract`: new text and a trained model in, facts out."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedrel.alignment.mentions import Spotter
from fedrel.cli.console import out, print_json, say, tell
from fedrel.cli.label import load_kb
from fedrel.cli.reading import reading_progress
from fedrel.documents import Documents
from fedrel.errors import UserError, suggest
from fedrel.extraction import load
from fedrel.facts import WRITERS, Fact, confidence_lines, from_json, to_json
from fedrel.files import stream_whole
from fedrel.version import installed_version

_SHOWN = 10
_LEFT_OUT = {
    "ambiguous facts": "facts of which it is not clear whom a name means (--ambiguous keeps them)",
    "sentences too long": "sentences too long to be sentences",
}


def extract(
    model: Annotated[Path, typer.Option("--model", help="The folder of a run, or its model folder.")],
    text: Annotated[Path, typer.Option("--text", help="A file or folder of text, in any format that is read.")],
    out_: Annotated[Path, typer.Option("--out", help="facts.jsonl, facts.csv or facts.nt")],
    kb: Annotated[Path | None, typer.Option("--kb", help="Names to look for, types, and what is known.")] = None,
    source: Annotated[str, typer.Option("--format", help="Format of the text; without it, it is detected.")] = "",
    min_confidence: Annotated[float, typer.Option(min=0, max=1, help="Leave out what is less certain.")] = 0.5,
    ambiguous: Annotated[bool, typer.Option("--ambiguous", help="Keep facts about a name that several share.")] = False,
    new_only: Annotated[bool, typer.Option("--new-only", help="Leave out what the knowledge base has.")] = False,
    language: Annotated[str, typer.Option(help="Of the text, for splitting sentences: en, de, fr, …")] = "en",
    json_: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Extract facts from text: each with a confidence, and the sentences that say so."""
    if out_.suffix not in WRITERS:
        raise UserError(f"--out {out_}: facts are written as {', '.join(WRITERS)}{suggest(out_.suffix, WRITERS)}")
    if new_only and kb is None:
        raise UserError("--new-only needs --kb, to know what is known")
    documents = Documents(text, source)
    extractor = load(model)
    if extractor.saved.version != installed_version():
        say(f"{model} was saved by fedrel {extractor.saved.version}; this is {installed_version()}, which reads it")
    if extractor.calibration.ece_after is None:
        say("the model has no calibration (its dev set was too small): confidences are its raw scores")
    base = load_kb(kb) if kb is not None else None
    begin = time.monotonic()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryFile() as spool, reading_progress("reading", documents.bytes) as tick:

        def watch(spotter: Spotter) -> None:
            nonlocal counts
            counts = spotter.counts
            if counts["sentences"] % 500 == 0:
                tick(counts["characters"], counts["sentences"])

        found = extractor.extract(
            documents,
            kb=base,
            min_confidence=min_confidence,
            new_only=new_only,
            ambiguous=ambiguous,
            tick=watch,
            language=language,
        )
        places = [_put(spool, fact) for fact in found]
        places.sort(key=lambda place: -place[0])  # the surest first; equal ones in the order of the text
        seconds = time.monotonic() - begin
        _write(out_, spool, places)
        best = [fact for fact, _ in zip(_get(spool, places), range(_SHOWN), strict=False)]
        new = sum(1 for _, _, _, known in places if known is False)
    summary = {
        "out": str(out_),
        "facts": len(places),
        "new": new if base is not None else None,
        **{name: counts[name] for name in ("documents", "sentences", "mentions", "ambiguous")},
        "left_out": {**{why: counts[name] for name, why in _LEFT_OUT.items()}, **dict(documents.skipped.reasons)},
        "seconds": round(seconds, 2),
        "sentences_per_second": round(counts["sentences"] / max(seconds, 1e-9), 1),
        "calibration": vars(extractor.calibration),
    }
    if json_:
        print_json(json.dumps(summary, indent=1))
        return
    _show(summary, best)


def _put(spool: IO[bytes], fact: Fact) -> tuple[float, int, int, bool | None]:
    line = to_json(fact).encode()
    spool.write(line)
    return fact.confidence, spool.tell() - len(line), len(line), fact.known


def _get(spool: IO[bytes], places: list[tuple[float, int, int, bool | None]]) -> Iterator[Fact]:
    for _, start, size, _ in places:
        spool.seek(start)
        yield from_json(spool.read(size).decode())


def _write(path: Path, spool: IO[bytes], places: list[tuple[float, int, int, bool | None]]) -> None:
    beside = path.with_suffix(".confidence.tsv")
    with stream_whole(path) as file, stream_whole(beside) if path.suffix == ".nt" else nullcontext() as confidences:
        file.writelines(line.encode() for line in WRITERS[path.suffix](_get(spool, places)))
        if confidences is not None:
            confidences.writelines(line.encode() for line in confidence_lines(_get(spool, places)))


def _show(summary: dict[str, Any], best: list[Fact]) -> None:
    if best:
        table = Table(title="the surest", title_justify="left")
        for column in ("head", "relation", "tail", "confidence", "sentences", "a sentence that says so"):
            table.add_column(column, justify="right" if column in ("confidence", "sentences") else "left")
        for fact in best:
            table.add_row(
                *(escape(name) for name in (fact.head_name, fact.relation, fact.tail_name)),
                f"{fact.confidence:.2f}{'' if fact.known or fact.known is None else ' new'}",
                f"{fact.sentences:,}",
                escape(fact.support[0].text),
            )
        out.print(table)
    calibration = summary["calibration"]
    new = "" if summary["new"] is None else f", {summary['new']:,} of them new"
    tell(
        f"{summary['facts']:,} facts{new}, from {summary['sentences']:,} sentences "
        f"in {summary['documents']:,} documents ({summary['sentences_per_second']:,.0f} sentences/s)"
    )
    for why, count in summary["left_out"].items():
        if count:
            tell(f"{count:,} left out: {why}")
    if calibration["ece_after"] is not None:
        tell(f"calibration error on dev {calibration['ece_before']:.3f}, after fitting {calibration['ece_after']:.3f}")
    tell(f"facts   {summary['out']}", "bold")
