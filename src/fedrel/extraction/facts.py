"""Extracted facts, and their file formats: JSON lines, CSV and N-Triples."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np

from fedrel.evaluation.calibration import readable, sigmoid


@dataclass(frozen=True, slots=True)
class Support:
    """A sentence that supports a fact. `text` begins at character `start` of its document, on this `page` if it has
    pages; `head` and `tail` are character spans in `text`. `score` is the score of the fact from this sentence alone,
    from 0 to 1.
    """

    document: str
    start: int
    text: str
    head: tuple[int, int]
    tail: tuple[int, int]
    score: float
    page: int | None = None

    def __str__(self) -> str:
        page = "" if self.page is None else f", page {self.page}"
        return f"{self.score:.2f}  {self.text}  ({self.document}{page}, {self.start})"


@dataclass(frozen=True, slots=True, repr=False)
class Fact:
    """A fact that the model has found in texts."""

    head: str  # id; several ids joined by | if the name is ambiguous
    head_name: str
    relation: str
    tail: str
    tail_name: str
    log_odds: float  # of the confidence: facts that a person would call equally sure still differ here
    known: bool | None  # whether the knowledge base has it; None: without a knowledge base
    sentences: int  # how many mention both entities
    support: tuple[Support, ...]  # the best of them, best first

    @property
    def confidence(self) -> float:
        """How likely the fact is right, from 0 to 1."""
        return float(sigmoid(np.array(self.log_odds)))

    def __str__(self) -> str:
        new = "" if self.known is None or self.known else "  new"
        return f"{arrow(self.head_name, self.relation, self.tail_name)}  {in_short(self.confidence)}{new}"

    def __repr__(self) -> str:
        """Short, for lists of facts in a notebook."""
        sentences = f"{self.sentences:,} sentence{'s' * (self.sentences != 1)}"
        return f"Fact({self}  {sentences})"


def lot(fact: Fact) -> int:
    """A 64-bit hash of the fact, which orders facts that are equally likely."""
    name = "\n".join((fact.head, fact.relation, fact.tail)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest())


def in_short(confidence: float) -> str:
    """Two decimals for a person to read; what is nearly certain is not called certain."""
    return f"{confidence:.2f}" if 0.005 <= confidence < 0.995 else ">0.99" if confidence > 0.5 else "<0.01"


def arrow(head: str, relation: str, tail: str) -> str:
    """A triple as text: "Anna —born in→ Lyon"."""
    return f"{head} —{relation}→ {tail}"


def to_json(fact: Fact) -> str:
    """A fact as a line of JSON."""
    row = {
        "head": {"id": fact.head, "name": fact.head_name},
        "relation": fact.relation,
        "tail": {"id": fact.tail, "name": fact.tail_name},
        "confidence": readable(fact.log_odds),
        "log_odds": round(fact.log_odds, 9),
        "known": fact.known,
        "sentences": fact.sentences,
        "support": [
            {
                "document": it.document,
                **({} if it.page is None else {"page": it.page}),
                "start": it.start,
                "text": it.text,
                "head": it.head,
                "tail": it.tail,
                "score": round(it.score, 6),
            }
            for it in fact.support
        ],
    }
    return json.dumps(row, ensure_ascii=False) + "\n"


def from_json(line: str) -> Fact:
    """The fact of a line that `to_json` has written."""
    row = json.loads(line)
    del row["confidence"]  # which follows from the log-odds
    support = tuple(
        Support(**{**sentence, "head": tuple(sentence["head"]), "tail": tuple(sentence["tail"])})
        for sentence in row.pop("support")
    )
    head, tail = row.pop("head"), row.pop("tail")
    return Fact(
        head=head["id"], head_name=head["name"], tail=tail["id"], tail_name=tail["name"], support=support, **row
    )


COLUMNS = (
    *("head", "head_name", "relation", "tail", "tail_name", "confidence", "known", "sentences"),
    *("best_sentence", "document", "page", "start"),
)


def csv_lines(facts: Iterable[Fact]) -> Iterator[str]:
    """A CSV header row, then a row for each fact with its best sentence."""
    yield _csv_line(COLUMNS)
    for fact in facts:
        best = fact.support[0]
        known = "" if fact.known is None else str(fact.known).lower()
        yield _csv_line(
            (
                *(fact.head, fact.head_name, fact.relation, fact.tail, fact.tail_name),
                *(readable(fact.log_odds), known, fact.sentences),
                *(best.text, best.document, "" if best.page is None else best.page, best.start),
            )
        )


def _csv_line(cells: Iterable[object]) -> str:
    line = io.StringIO()
    # A spreadsheet would run a cell that begins like a formula, and the text comes from documents.
    csv.writer(line).writerow(
        [f"'{cell}" if isinstance(cell, str) and cell[:1] in _FORMULA else cell for cell in cells]
    )
    return line.getvalue()


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def ntriples_lines(facts: Iterable[Fact]) -> Iterator[str]:
    """Facts as N-Triples. A triple cannot carry a confidence; `confidence_lines` is a second file with those."""
    return (_triple(fact) + "\n" for fact in facts)


def confidence_lines(facts: Iterable[Fact]) -> Iterator[str]:
    """A TSV header row, then the triple of each fact with its confidence and whether the knowledge base has it."""
    yield "head\trelation\ttail\tconfidence\tknown\n"
    for fact in facts:
        head, relation, tail, _ = _triple(fact).split(" ")
        known = "" if fact.known is None else str(fact.known).lower()
        yield f"{head}\t{relation}\t{tail}\t{readable(fact.log_odds)}\t{known}\n"


def _triple(fact: Fact) -> str:
    return f"{_iri(fact.head, 'entity')} {_iri(fact.relation, 'relation')} {_iri(fact.tail, 'entity')} ."


_IRI = re.compile(r"""(?:[A-Za-z][A-Za-z0-9+.-]*://|urn:)[^\x00-\x20<>"{}|\\^`\ud800-\udfff]*""")


def _iri(name: str, kind: str) -> str:
    """An id as an IRI: unchanged if it is one, else under urn:fedrel."""
    if _IRI.fullmatch(name):
        return f"<{name}>"
    return f"<urn:fedrel:{kind}:{quote(name, safe='', errors='surrogatepass')}>"


def json_lines(facts: Iterable[Fact]) -> Iterator[str]:
    """A line of JSON for each fact."""
    return map(to_json, facts)


WRITERS: dict[str, Callable[[Iterable[Fact]], Iterator[str]]] = {
    ".jsonl": json_lines,
    ".csv": csv_lines,
    ".nt": ntriples_lines,
}
