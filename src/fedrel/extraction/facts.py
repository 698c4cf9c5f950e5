"""Extracted facts, and their file formats: JSON lines, CSV and N-Triples. RDF that holds confidences is in rdf.py."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from fedrel.corpus.lines import json_object, numbered_lines
from fedrel.errors import UserError
from fedrel.evaluation.calibration import readable, sigmoid

Entity = tuple[str, str]  # id, name


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
    head_name: str  # as the knowledge base has it; else as it occurs
    relation: str
    tail: str
    tail_name: str
    log_odds: float  # of the confidence: facts that a person would call equally sure still differ here
    known: bool | None  # whether the knowledge base has it; None: without a knowledge base
    sentences: int  # how many mention both entities
    support: tuple[Support, ...]  # the best of them, best first
    instead: tuple[Entity, ...] = ()  # what the knowledge base has in the place of the tail, if it contradicts the fact

    @property
    def head_text(self) -> str:
        """The head as it occurs in the best sentence."""
        return self.support[0].text[slice(*self.support[0].head)]

    @property
    def tail_text(self) -> str:
        """The tail as it occurs in the best sentence."""
        return self.support[0].text[slice(*self.support[0].tail)]

    @property
    def standing(self) -> str:
        """How the fact stands to the knowledge base: known, new, contradicting; "" without one."""
        if self.known is None:
            return ""
        return "known" if self.known else "contradicting" if self.instead else "new"

    @property
    def confidence(self) -> float:
        """How likely the fact is right, from 0 to 1."""
        return float(sigmoid(np.array(self.log_odds)))

    def __str__(self) -> str:
        new = "" if self.known is None or self.known else f"  {self.standing}"
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
        "head": {"id": fact.head, "name": fact.head_name, "text": fact.head_text},
        "relation": fact.relation,
        "tail": {"id": fact.tail, "name": fact.tail_name, "text": fact.tail_text},
        "confidence": readable(fact.log_odds),
        "log_odds": round(fact.log_odds, 9),
        "known": fact.known,
        "instead": [{"id": id_, "name": name} for id_, name in fact.instead],
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


def read_facts(path: Path, tick: Callable[[int, int], None] = lambda characters, facts: None) -> Iterator[Fact]:
    """The facts of a file, in its order. `tick` is called with the characters and the facts read so far. Raises
    UserError, with file and line, for the first line that is no fact.
    """
    characters = 0
    for read, (number, line) in enumerate(numbered_lines(path), 1):
        where = f"{path}:{number}"
        row = json_object(line, where)
        try:
            fact = _fact(row)
        except UserError as error:
            raise UserError(f"{where}: {error}; give a file as fedrel extract --out facts.jsonl writes it") from None
        characters += len(line) + 1
        tick(characters, read)
        yield fact


def from_json(line: str) -> Fact:
    """The fact of a line that `facts.to_json` has written."""
    return _fact(json.loads(line))


def _fact(row: dict[str, Any]) -> Fact:
    head, tail = _field(row, "head", dict), _field(row, "tail", dict)
    support = tuple(_support(it) for it in _field(row, "support", list))
    if not support:
        raise UserError('"support" is empty: a fact has at least one sentence')
    return Fact(
        head=_text(head, "id"),
        head_name=_text(head, "name"),
        relation=_text(row, "relation"),
        tail=_text(tail, "id"),
        tail_name=_text(tail, "name"),
        log_odds=_real(row, "log_odds"),
        known=None if _get(row, "known") is None else _field(row, "known", bool),
        sentences=_whole(row, "sentences"),
        support=support,
        instead=tuple(map(_entity, _field(row, "instead", list) if "instead" in row else ())),
    )


def _support(row: object) -> Support:
    text = _text(row, "text")
    return Support(
        document=_text(row, "document"),
        start=_whole(row, "start"),
        text=text,
        head=_span(row, "head"),
        tail=_span(row, "tail"),
        score=_real(row, "score"),
        page=_whole(row, "page") if isinstance(row, dict) and "page" in row else None,
    )


def _entity(row: object) -> Entity:
    return _text(row, "id"), _text(row, "name")


def _get(row: object, name: str) -> object:
    if not isinstance(row, dict) or name not in row:
        raise UserError(f'"{name}" is missing')
    return row[name]


def _field(row: object, name: str, kind: type) -> Any:
    value = _get(row, name)
    if not isinstance(value, kind):
        raise UserError(f'"{name}" is {type(value).__name__}, not {kind.__name__}')
    return value


def _text(row: object, name: str) -> str:
    text: str = _field(row, name, str)
    return text


def _whole(row: object, name: str) -> int:
    value = _get(row, name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise UserError(f'"{name}" is no whole number')
    return value


def _real(row: object, name: str) -> float:
    value = _get(row, name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= _MOST:
        raise UserError(f'"{name}" is no number')
    return float(value)


def _span(row: object, name: str) -> tuple[int, int]:
    value = _field(row, name, list)
    if len(value) != 2 or any(not isinstance(it, int) or isinstance(it, bool) or not 0 <= it <= _MOST for it in value):
        raise UserError(f'"{name}" is no pair of places in the text')
    return value[0], value[1]


_MOST = 2**53  # numbers that every JSON reader agrees on

COLUMNS = (
    *("head", "head_name", "relation", "tail", "tail_name", "confidence", "known", "sentences"),
    *("best_sentence", "document", "page", "start", "head_text", "tail_text", "instead"),
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
                *(fact.head_text, fact.tail_text, "|".join(id_ for id_, _ in fact.instead)),
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
    return f"<{iri(fact.head, 'entity')}> <{iri(fact.relation, 'relation')}> <{iri(fact.tail, 'entity')}> ."


_IRI = re.compile(r"""(?:[A-Za-z][A-Za-z0-9+.-]*://|urn:)[^\x00-\x20<>"{}|\\^`\ud800-\udfff]*""")


def iri(name: str, kind: str) -> str:
    """An id as an IRI: unchanged if it is one, else under urn:fedrel."""
    return name if _IRI.fullmatch(name) else f"urn:fedrel:{kind}:{quote(name, safe='', errors='surrogatepass')}"


def json_lines(facts: Iterable[Fact]) -> Iterator[str]:
    """A line of JSON for each fact."""
    return map(to_json, facts)
