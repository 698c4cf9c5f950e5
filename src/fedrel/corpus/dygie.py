"""DyGIE's JSON lines, in which SciERC is published: a document a line, in sentences and tokens.

    {"doc_key": "a", "sentences": [["Ann", "lives", "."], ["It", "is", "Bonn", "."]], "clusters": [],
     "ner": [[[0, 0, "Person"]], [[3, 3, "Pronoun"], [5, 5, "City"]]],
     "relations": [[], [[3, 3, 5, 5, "Same-As"]]]}

Positions count the tokens of the whole document, and ends are inclusive. "ner" and "relations" have a list for each
sentence; scores after a label are ignored, and so are all other keys: relations join mentions, not clusters. An end of
a relation that is not in "ner" is an entity of unknown type. Entities have no ids. SciERC is 350, 50 and 100
documents.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

from fedrel.corpus.format import Format, Sample
from fedrel.corpus.json_rows import (
    EXTENSIONS,
    json_files,
    list_in,
    name_of,
    position,
    reader,
    shown_keys,
    text_of,
    tokens_in,
    type_of,
)
from fedrel.corpus.tokenised import Relation, TokenSpan, what_is_whole
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError


class _Mentions:
    """The mentions of a document by their places, which count the tokens of the document."""

    def __init__(self, sentences: list[list[str]]) -> None:
        self.found: list[TokenSpan] = []
        self._first = [0, *accumulate(len(sentence) for sentence in sentences)]  # token of each sentence, and the end
        self._keys: dict[tuple[int, int], str] = {}
        self._count = 0

    def add(self, start: int, last: int, what: str, where: str, type_: str = "") -> None:
        """Of two mentions in one place, relations are about the first. UserError for a place outside of the document;
        relations of what is there will miss it.
        """
        key = f"T{self._count}"
        self._count += 1
        self._keys.setdefault((start, last), key)
        if not 0 <= start <= last < self._first[-1]:
            raise UserError(
                f"{where}: {what} has the tokens {start} to {last} of a document of {self._first[-1]}; "
                "the first is 0, and ends are inclusive"
            )
        sentence = bisect_right(self._first, start) - 1
        begin = self._first[sentence]
        self.found.append(TokenSpan(key, sentence, start - begin, last + 1 - begin, type_))

    def key(self, start: int, last: int, what: str, where: str) -> str:
        """The name of the mention in a place, which is added if there is none."""
        if (start, last) not in self._keys:
            self.add(start, last, what, where)
        return self._keys[start, last]


def _document(row: dict[str, Any], name: str, where: str, skip: Skipped) -> Document | None:
    """A document; without "ner" and "relations", nothing is marked in it."""
    sentences = [tokens_in(it, "sentences", where) for it in list_in(row, "sentences", where)]
    mentions = _Mentions(sentences)
    for what, item in _items(row, "ner", "the entity", len(sentences), 3, where, skip):
        try:
            start, last = (position(it, f"{what}: a position", where) for it in item[:2])
            mentions.add(start, last, what, where, type_of(item[2]))
        except UserError as error:
            skip.bad(error, where)
    relations = None
    if row.get("relations") is not None:
        relations = list(_relations(row, mentions, len(sentences), where, skip))
    found = what_is_whole(name_of(row.get("doc_key"), name), sentences, mentions.found, relations, where, skip)
    marked = row.get("ner") is not None or relations is not None
    return found if found is None or marked else replace(found, annotations=None)


def _relations(
    row: dict[str, Any], mentions: _Mentions, sentences: int, where: str, skip: Skipped
) -> Iterator[Relation]:
    for what, item in _items(row, "relations", "the relation", sentences, 5, where, skip):
        try:
            head, head_last, tail, tail_last = (position(it, f"{what}: a position", where) for it in item[:4])
            name = text_of(item[4], f"{what}: its label", where)
            ends = mentions.key(head, head_last, what, where), mentions.key(tail, tail_last, what, where)
        except UserError as error:
            skip.bad(error, where)
        else:
            yield ends[0], name, ends[1]


def _items(
    row: dict[str, Any], key: str, what: str, sentences: int, fields: int, where: str, skip: Skipped
) -> Iterator[tuple[str, list[Any]]]:
    """The entities or relations of all sentences, each with what messages call it. UserError for another number of
    lists than there are sentences.
    """
    if row.get(key) is None:
        return
    lists = list_in(row, key, where)
    if len(lists) != sentences or not all(isinstance(it, list) for it in lists):
        raise UserError(f'{where}: "{key}" has {len(lists)} items, and needs a list for each of {sentences} sentences')
    for number, item in enumerate(item for inner in lists for item in inner):
        if isinstance(item, list) and len(item) >= fields:
            yield f"{what} {number}", item
        else:
            skip.bad(UserError(f"{where}: {what} {number} needs {fields - 1} positions and a label"), where)


def _by_content(sample: Sample) -> str | None:
    keys = shown_keys(sample)
    return 'JSON with "sentences" and "ner"' if "sentences" in keys and keys & {"doc_key", "ner", "clusters"} else None


read = reader(_document)

FORMAT = Format(
    what='DyGIE, JSON lines with "sentences", "ner" and "relations"',
    documents=read,
    gold=True,
    keys=(frozenset(("sentences", "ner", "relations")),),
    by_content=_by_content,
    extensions=EXTENSIONS,
    candidates=json_files,
)
