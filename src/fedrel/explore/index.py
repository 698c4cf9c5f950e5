"""An index of facts on disk: a hundred thousand are searched and filtered in a fraction of a second."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fedrel.corpus import Document
from fedrel.extraction.facts import Fact, from_json, to_json
from fedrel.pages.wording import readable

STANDINGS = ("known", "new", "contradicting")
ORDERS = {
    "sure": ("surest first", "log_odds DESC, number"),
    "unsure": ("least sure first", "log_odds, number"),
    "often": ("most sentences first", "sentences DESC, log_odds DESC, number"),
    "name": ("by name", "head_name COLLATE NOCASE, relation, tail_name COLLATE NOCASE, number"),
}
BINS = 10  # of the calibration plot

_SCHEMA = """
CREATE TABLE facts (
  number INTEGER PRIMARY KEY, head TEXT, head_name TEXT, relation TEXT, tail TEXT, tail_name TEXT,
  log_odds REAL, confidence REAL, standing TEXT, sentences INTEGER, correct INTEGER);
CREATE TABLE lines (number INTEGER PRIMARY KEY, line TEXT);
CREATE TABLE documents (number INTEGER PRIMARY KEY, name TEXT UNIQUE, text TEXT);
CREATE TABLE mentions (document INTEGER, fact INTEGER, PRIMARY KEY (document, fact)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5
  (names, sentences, content = '', tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3');
"""
_INDICES = """
CREATE INDEX by_confidence ON facts (log_odds DESC, number);
CREATE INDEX by_relation ON facts (relation, standing);
CREATE INDEX by_head ON facts (head);
CREATE INDEX by_tail ON facts (tail);
ANALYZE;
"""
_LONGEST_QUERY = 200  # characters of what is searched for
_WORD = re.compile(r"\w+")
_AT_ONCE = 1_000


@dataclass(frozen=True)
class Filter:
    """Which facts are wanted: those for which all of it holds. An empty field asks for nothing."""

    words: str = ""  # each begins a word of the names, the relation or a sentence
    relations: tuple[str, ...] = ()
    standings: tuple[str, ...] = ()
    least: float = 0.0  # confidence
    most: float = 1.0
    document: str = ""
    entity: str = ""  # id of the head or the tail

    @property
    def match(self) -> str:
        """The words as an expression of FTS5; "" if there are none."""
        return " ".join(f'"{token}"*' for token in _WORD.findall(self.words[:_LONGEST_QUERY]))

    def where(self) -> tuple[str, list[object]]:
        """As a condition of SQL on the table `facts`, with its values. What the words match is in the table `hits`."""
        conditions, values = ["1"], list[object]()
        if self.match:
            conditions.append("number IN (SELECT number FROM hits)")
        for column, chosen in (("relation", self.relations), ("standing", self.standings)):
            if chosen:
                conditions.append(f"{column} IN ({', '.join('?' * len(chosen))})")
                values += chosen
        if self.least > 0:
            conditions.append("confidence >= ?")
            values.append(self.least)
        if self.most < 1:
            conditions.append("confidence < ?")
            values.append(self.most)
        if self.document:
            conditions.append(
                "number IN (SELECT fact FROM mentions JOIN documents ON document = documents.number WHERE name = ?)"
            )
            values.append(self.document)
        if self.entity:
            conditions.append("(head = ? OR tail = ?)")
            values += [self.entity, self.entity]
        return " AND ".join(conditions), values


@dataclass(frozen=True, slots=True)
class Row:
    """A fact in a list."""

    number: int
    head: str
    head_name: str
    relation: str
    tail: str
    tail_name: str
    log_odds: float
    confidence: float
    standing: str
    sentences: int


@dataclass(frozen=True)
class Found:
    """A part of the facts that a filter lets through, and how many there are of each kind. The facts of a kind are
    counted as if nothing had been chosen among its kinds.
    """

    rows: list[Row]
    total: int
    relations: dict[str, int]
    standings: dict[str, int]


@dataclass(frozen=True)
class Bin:
    """The facts with a confidence from `low` to `high`."""

    low: float
    high: float
    facts: int
    confidence: float  # mean
    judged: int  # of which it is known whether they are right, or the knowledge base was asked for
    positive: int  # of those, the right or known ones


class Index:
    """Facts in a SQLite file, which `build` makes anew. Facts are numbered from 1 in the order in which they come."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def build(
        cls,
        path: Path,
        facts: Iterable[Fact],
        *,
        documents: Iterable[Document] = (),
        correct: Callable[[Fact], bool] | None = None,
    ) -> Index:
        """Makes an index of facts. `documents` are the texts that they are from, where they are at hand; `correct` says
        whether a fact is right, where that is known.
        """
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript(_SCHEMA)
            connection.execute("PRAGMA synchronous = OFF")  # it lives no longer than this process
            numbers: dict[str, int] = {}
            for number, fact in enumerate(facts, 1):
                _add(connection, number, fact, None if correct is None else correct(fact), numbers)
            connection.executemany(
                "INSERT INTO documents VALUES (?, ?, NULL)", ((it, at) for at, it in numbers.items())
            )
            for document in documents:
                if document.id in numbers:
                    connection.execute("UPDATE documents SET text = ? WHERE name = ?", (document.text, document.id))
            connection.executescript(_INDICES)
        return cls(path)

    @contextmanager
    def _reading(self, wanted: Filter | None = None) -> Iterator[sqlite3.Connection]:
        """A connection of its own for each request, since requests are answered by several threads, with what the words
        of a filter match, which is looked up once.
        """
        with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as connection:
            if wanted is not None and wanted.match:
                connection.execute("CREATE TEMP TABLE hits (number INTEGER PRIMARY KEY)")
                connection.execute("INSERT INTO hits SELECT rowid FROM words WHERE words MATCH ?", [wanted.match])
            yield connection

    def __len__(self) -> int:
        with self._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM facts").fetchone()[0])

    def find(self, wanted: Filter, *, order: str = "sure", offset: int = 0, limit: int = 50) -> Found:
        """Facts from `offset` on, at most `limit`, and how many there are."""
        where, values = wanted.where()
        columns = ", ".join(Row.__slots__)
        query = f"SELECT {columns} FROM facts WHERE {where} ORDER BY {ORDERS[order][1]} LIMIT ? OFFSET ?"
        free, free_values = replace(wanted, relations=(), standings=()).where()
        kinds = f"SELECT relation, standing, count(*) FROM facts WHERE {free} GROUP BY relation, standing"
        relations, standings = Counter[str](), Counter[str]()
        total = 0
        with self._reading(wanted) as connection:
            rows = [Row(*row) for row in connection.execute(query, [*values, limit, offset])]
            for relation, standing, count in connection.execute(kinds, free_values):
                of_relation = not wanted.relations or relation in wanted.relations
                of_standing = not wanted.standings or standing in wanted.standings
                relations[relation] += count * of_standing
                standings[standing] += count * of_relation
                total += count * (of_relation and of_standing)
        return Found(rows, total, dict(relations.most_common()), dict(standings))

    def fact(self, number: int) -> Fact | None:
        """A fact by its number."""
        with self._reading() as connection:
            row = connection.execute("SELECT line FROM lines WHERE number = ?", [number]).fetchone()
        return from_json(row[0]) if row else None

    def facts(self, wanted: Filter, order: str = "sure") -> Iterator[Fact]:
        """All facts that a filter lets through."""
        where, values = wanted.where()
        query = f"SELECT line FROM facts JOIN lines USING (number) WHERE {where} ORDER BY {ORDERS[order][1]}"
        with self._reading(wanted) as connection:
            for (line,) in connection.execute(query, values):
                yield from_json(line)

    def bins(self, wanted: Filter) -> list[Bin]:
        """The facts that a filter lets through by their confidence, ten bins of equal width without the empty ones.
        What is positive is what is right where that is known, else what the knowledge base has.
        """
        where, values = wanted.where()
        query = f"""
            SELECT min(CAST(confidence * {BINS} AS INTEGER), {BINS - 1}) AS bin, count(*), avg(confidence),
              sum(correct IS NOT NULL OR standing != ''), sum(coalesce(correct, standing = 'known'))
            FROM facts WHERE {where} GROUP BY bin ORDER BY bin"""
        with self._reading(wanted) as connection:
            found = connection.execute(query, values).fetchall()
        return [Bin(at / BINS, (at + 1) / BINS, *counts) for at, *counts in found]

    def documents(self, most: int) -> list[str]:
        """The names of documents in the order of the alphabet, at most so many."""
        with self._reading() as connection:
            return [name for (name,) in connection.execute("SELECT name FROM documents ORDER BY name LIMIT ?", [most])]

    def text(self, document: str) -> str | None:
        """The text of a document, if it is at hand."""
        with self._reading() as connection:
            row = connection.execute("SELECT text FROM documents WHERE name = ?", [document]).fetchone()
        return row[0] if row else None

    def name(self, entity: str) -> str:
        """The name of an entity by its id; "" if no fact is about it."""
        query = "SELECT head_name FROM facts WHERE head = ?1 UNION ALL SELECT tail_name FROM facts WHERE tail = ?1"
        with self._reading() as connection:
            row = connection.execute(f"{query} LIMIT 1", [entity]).fetchone()
        return row[0] if row else ""

    def between(self, entities: Iterable[str]) -> list[Row]:
        """The facts whose head and tail are both among these entities, the surest first."""
        ids = list(entities)
        marks = ", ".join("?" * len(ids))
        columns = ", ".join(Row.__slots__)
        query = (
            f"SELECT {columns} FROM facts WHERE head IN ({marks}) AND tail IN ({marks}) ORDER BY {ORDERS['sure'][1]}"
        )
        with self._reading() as connection:
            return [Row(*row) for row in connection.execute(query, [*ids, *ids])]


def _add(
    connection: sqlite3.Connection, number: int, fact: Fact, correct: bool | None, documents: dict[str, int]
) -> None:
    connection.execute(
        "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(number, fact.head, fact.head_name, fact.relation, fact.tail, fact.tail_name),
            *(fact.log_odds, fact.confidence, fact.standing, fact.sentences, correct),
        ),
    )
    connection.execute("INSERT INTO lines VALUES (?, ?)", (number, to_json(fact)))
    names = (fact.head_name, fact.tail_name, fact.relation, readable(fact.relation), fact.head, fact.tail)
    sentences = "\n".join(it.text for it in fact.support)
    connection.execute(
        "INSERT INTO words (rowid, names, sentences) VALUES (?, ?, ?)", (number, "\n".join(names), sentences)
    )
    for name in {it.document for it in fact.support}:
        place = documents.setdefault(name, len(documents) + 1)
        connection.execute("INSERT INTO mentions VALUES (?, ?)", (place, number))
