"""`fedrel extract`: new text and a trained model in, facts out."""

from __future__ import annotations

import json
import shlex
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedrel.alignment.mentions import NOT_IN_KB
from fedrel.cli.console import out, print_json, tell
from fedrel.cli.extracting import Watch, prepared
from fedrel.cli.files import beside_files, show_files
from fedrel.corpus.documents import Documents
from fedrel.errors import UserError, suggest
from fedrel.evaluation.calibration import SURE
from fedrel.extraction.facts import Fact, Support, arrow, confidence_lines, from_json, in_short, lot, to_json
from fedrel.extraction.forms import WRITERS
from fedrel.util.files import open_atomic

_SHOWN = 10
_COUNTS = ("documents", "sentences", "mentions", "ambiguous", "pairs")
_LEFT_OUT = {
    "ambiguous facts": "facts of which it is not clear whom a name means (--ambiguous keeps them)",
    "sentences too long": "sentences too long to be sentences",
}


def extract(
    text: Annotated[Path, typer.Option("--text", help="A file or folder of text, in any format that is read.")],
    out_: Annotated[Path, typer.Option("--out", help="facts.jsonl, .csv, .ttl, .jsonld or .nt")],
    model: Annotated[
        Path | None, typer.Option("--model", help="The folder of a run, or its model folder; else the general model.")
    ] = None,
    kb: Annotated[Path | None, typer.Option("--kb", help="Names to look for, types, and what is known.")] = None,
    source: Annotated[str, typer.Option("--format", "--source", help="Format of the text; else detected.")] = "",
    min_confidence: Annotated[float, typer.Option(min=0, max=1, help="Leave out what is less certain.")] = 0.5,
    ambiguous: Annotated[bool, typer.Option("--ambiguous", help="Keep facts about a name that several share.")] = False,
    new_only: Annotated[bool, typer.Option("--new-only", help="Leave out what the knowledge base has.")] = False,
    language: Annotated[str, typer.Option(help="Of the text, for splitting sentences: en, de, fr, …")] = "en",
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a single broken file or row.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Extract facts from text: each with a confidence, and the sentences that say so."""
    if out_.suffix not in WRITERS:
        raise UserError(f'--out {out_}: "{out_.suffix}" is no form of facts{suggest(out_.suffix, WRITERS)}')
    if out_.is_dir():
        raise UserError(f"--out {out_}: this is a folder; name a file")
    if out_.exists() and any(path is not None and path.exists() and out_.samefile(path) for path in (text, kb)):
        raise UserError(f"--out {out_}: this is what is read; choose another name")
    if new_only and kb is None:
        raise UserError("--new-only needs --kb, to know what is known")
    documents, extractor, base = prepared(text, model, kb, source, strict=strict)
    begin = time.monotonic()
    with tempfile.TemporaryFile() as file, Watch(documents.bytes) as watch:
        spool = _Spool(file)
        for fact in extractor.extract(
            documents,
            kb=base,
            min_confidence=min_confidence,
            new_only=new_only,
            ambiguous=ambiguous,
            tick=watch,
            language=language,
        ):
            spool.add(fact)
        seconds = time.monotonic() - begin
        beside = _write(out_, spool)
        best = [fact for fact, _ in zip(spool, range(_SHOWN), strict=False)]
    counts, skipped = watch.counts, documents.skipped.reasons + watch.skipped.reasons
    summary = {
        "out": str(out_),
        "confidences": str(beside) if beside else None,
        "facts": len(spool),
        "new": spool.new if base is not None else None,
        **{name: counts[name] for name in _COUNTS},
        "left_out": {
            **{why: counts[name] for name, why in _LEFT_OUT.items()},
            **{why: count for why, count in skipped.items() if why != NOT_IN_KB},  # a fact about one is a fact
        },
        "files": documents.files.as_json() if documents.files else None,
        "seconds": round(seconds, 2),
        "sentences_per_second": round(counts["sentences"] / max(seconds, 1e-9), 1),
        "calibration": vars(extractor.calibration),
    }
    if json_:
        print_json(json.dumps(summary, indent=1))
        return
    if not best:
        nothing = f"none is held for {min_confidence:g} likely" if counts["pairs"] else "no two entities in a sentence"
        if counts["pairs"] and extractor.calibration.most < min_confidence:
            nothing = f"the model's dev set supports no confidence above {extractor.calibration.most:.2f}"
            nothing += "; --min-confidence 0 shows them in their order"
        tell(f"no facts: {nothing} ({counts['pairs']:,} pairs of entities)")
    _show(summary, documents, best)
    if best and out_.suffix == ".jsonl":
        options = [("--text", text), ("--kb", kb), ("--model", model)]
        more = [str(part) for name, value in options if value is not None for part in (name, value)]
        tell(f"next: fedrel explore {out_}, or fedrel review {shlex.join([str(out_), *more])}")


class _Spool:
    """Facts on disk in the order in which they are added; iteration yields the most likely first, and equally likely
    ones by lot.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._log_odds, self._lots, self._ends = array("d"), array("Q"), array("q", [0])
        self.new = 0

    def add(self, fact: Fact) -> None:
        self._file.write(to_json(fact).encode())
        self._log_odds.append(fact.log_odds)
        self._lots.append(lot(fact))
        self._ends.append(self._file.tell())
        self.new += fact.known is False

    def __len__(self) -> int:
        return len(self._log_odds)

    def __iter__(self) -> Iterator[Fact]:
        for number in np.lexsort((np.array(self._lots), -np.array(self._log_odds))).tolist():
            begin, end = self._ends[number : number + 2]
            self._file.seek(begin)
            yield from_json(self._file.read(end - begin).decode())


def _write(path: Path, spool: _Spool) -> Path | None:
    """Writes the facts, and returns the file of their confidences beside it, where the format has no place for them."""
    beside = path.with_suffix(".confidence.tsv") if path.suffix == ".nt" else None
    with open_atomic(path) as file, open_atomic(beside) if beside else nullcontext() as confidences:
        file.writelines(line.encode() for line in WRITERS[path.suffix](spool))
        if confidences is not None:
            confidences.writelines(line.encode() for line in confidence_lines(spool))
    return beside


def _show(summary: dict[str, Any], documents: Documents, best: list[Fact]) -> None:
    show_files(documents.files)
    if best:
        out.print(_table(best))
    calibration = summary["calibration"]
    new = "" if summary["new"] is None else f", {summary['new']:,} of them new"
    tell(
        f"{summary['facts']:,} facts{new}, from {summary['sentences']:,} sentences "
        f"in {summary['documents']:,} documents ({summary['sentences_per_second']:,.0f} sentences/s)"
    )
    for why, count in beside_files(summary["left_out"], documents.skipped).items():
        if count:
            tell(f"{count:,} left out: {why}")
    if calibration["ece_after"] is not None and calibration["most"] >= SURE:
        tell(f"calibration error on dev {calibration['ece_before']:.3f}, after fitting {calibration['ece_after']:.3f}")
    tell(f"facts   {summary['out']}", "bold")
    if summary["confidences"]:
        tell(f"their confidences   {summary['confidences']}", "bold")


def _table(best: list[Fact]) -> Table:
    """Two lines for each fact: what it is, and as much of a sentence that states it as fits into one."""
    table = Table(title="the surest", title_justify="left")
    for column in ("confidence", "sentences"):
        table.add_column(column, justify="right")
    table.add_column("fact, and a sentence saying so")
    room = max(out.width - 29, 20)  # beside the other columns and the lines between
    for fact in best:
        table.add_row(
            f"{in_short(fact.confidence)}{' new' if fact.known is False else ''}",
            f"{fact.sentences:,}",
            Group(
                Text(_printable(arrow(fact.head_name, fact.relation, fact.tail_name)), "bold"),
                Text(_excerpt(fact.support[0], room), "dim", no_wrap=True, overflow="ellipsis"),
            ),
        )
    return table


def _excerpt(support: Support, room: int) -> str:
    """The sentence; of a long one the part with both names, shortened between them where they are far apart."""
    text = _printable(support.text)
    begin, end = min(support.head[0], support.tail[0]), max(support.head[1], support.tail[1])
    if len(text) <= room:
        return text
    if end - begin > room - 2:
        half = (room - 5) // 2
        return f"…{text[begin : begin + half]} … {text[end - half : end]}…"
    start = max(0, min(begin - (room - 2 - (end - begin)) // 2, len(text) - room + 2))
    stop = start + room - 2
    return "…" * (start > 0) + text[start:stop] + "…" * (stop < len(text))


def _printable(text: str) -> str:
    """Text from documents must not steer the terminal, nor break a line."""
    return "".join(character if character.isprintable() else " " for character in text)
