"""What readers yield: documents (text, perhaps with entities and relations marked in it), labelled sentences
with one pair of entities each, or labelled texts.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fedrel.corpus.file_counts import FileCounts
from fedrel.corpus.packed import named_as_given
from fedrel.errors import UserError

SPLITS = ("train", "dev", "test")
NA = "NA"  # the relation of a pair that no fact joins
SHOWN = 5  # rows named by line, wherever rows are named


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity in a sentence: tokens[start:end]."""

    id: str  # in a knowledge base, the same in every document; empty: known within its document alone
    start: int
    end: int
    type: str = ""  # a drug, a disease, …; empty: unknown
    local: str = ""  # without an id: what the document calls it; empty: it is known by its place in the sentence


@dataclass(frozen=True, slots=True)
class Instance:
    """One sentence with one pair of entities and the (noisy) label of that pair.

    `source` says who wrote the sentence. `expressed` says whether this sentence states the relation, where that is
    known: of synthetic data, or because people judged it. It is used for measuring alone. `document` tells the texts of
    a file apart, whatever they are called; empty: unknown, the sentence stands alone.
    """

    tokens: Sequence[str]
    head: Mention
    tail: Mention
    relation: str
    source: str = ""
    expressed: bool | None = None
    document: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A mention of an entity that is marked in a document: text[start:end].

    Where a format joins entities rather than mentions (concepts of a database, clusters of mentions), `entities` names
    those that this is a mention of, and relations may use these names: a relation then holds for every pair of mentions
    of the one and the other in a sentence. They are ids of a knowledge base if `id` is given, else names within the
    document.
    """

    key: str  # its name within the document (T1), by which relations refer to it
    start: int
    end: int
    type: str = ""
    id: str = ""  # in a knowledge base; empty: not linked
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A text as it was written; every offset into it counts characters of exactly this string."""

    id: str
    text: str
    annotations: tuple[Annotation, ...] | None = None  # None: entities are not marked
    # (head, relation, tail): keys of annotations, or names of entities; None: relations are not marked
    relations: tuple[tuple[str, str, str], ...] | None = None
    where: str = ""  # file, or file:line, for messages
    sentences: tuple[tuple[int, int], ...] | None = None  # text[start:end] of each; None: not given, to be split
    tokens: tuple[tuple[int, int], ...] | None = None  # text[start:end] of each in order; None: not given, to be split
    listed: bool = False  # `relations` lists every pair that counts, those without a relation as NA: add no others
    # (character, page), in order: from this character of the text on, it is on this page; empty: it has no pages
    pages: tuple[tuple[int, int], ...] = ()

    def page_at(self, character: int) -> int | None:
        """The page that a character of the text is on, from 1; None: there are no pages."""
        place = bisect_right(self.pages, (character, sys.maxsize))
        return self.pages[max(0, place - 1)][1] if self.pages else None


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A whole text with one label, for classification."""

    tokens: Sequence[str]
    label: str
    source: str = ""


@dataclass
class Skipped:
    """What a reader left out: counted by reason, the first few kept to be shown.

    A reader calls it for what is left out for a good reason, and calls `bad` for a row that is broken. Broken rows are
    tolerated up to a share (`data.bad_rows`), which whoever reads checks at the end; with `strict`, the first one is
    raised.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    broken: Counter[str] = field(default_factory=Counter)  # those of `reasons` that are broken rows
    broken_examples: list[str] = field(default_factory=list)  # whole messages, with file and line
    strict: bool = False
    files: FileCounts = field(default_factory=FileCounts)  # of a folder of text: what became of each of its files

    def __call__(self, where: str, why: str, count: int = 1) -> None:
        self.reasons[why] += count
        if len(self.examples) < SHOWN:
            self._show(self.examples, f"{where}: {why}")

    def bad(self, error: UserError, where: str = "") -> str:
        """Counts a broken row by its error, whose message begins with its place; raises it if `strict`. Returns what it
        was counted as.
        """
        if self.strict:
            raise error
        message = str(error)
        why = _general(message.removeprefix(f"{where}: ") if where else message)
        self.broken[why] += 1
        self.reasons[why] += 1
        for examples in (self.broken_examples, self.examples):
            if len(examples) < SHOWN:
                self._show(examples, message)
        return why

    def _show(self, examples: list[str], message: str) -> None:
        """Several of one kind at one place are shown once: a line may hold a whole collection."""
        if (told := named_as_given(message)) not in examples:
            examples.append(told)

    def bad_file(self, name: str, error: UserError, where: str) -> None:
        """Counts a file of a folder of text that cannot be read, as a broken row and by its name; the message of the
        error begins with its place, `where`. Raises it if `strict`.
        """
        self.files.tell(self.bad(error, where), str(error))
        why = _LINE.sub(r"line \1: ", str(error).removeprefix(where))
        self.files.break_(name, why.removeprefix(": "), str(error))

    def empty_file(self, name: str, where: str, why: str) -> None:
        """Counts a file of a folder of text that there is no text in."""
        self(where, why)
        self.files.empty.add(name)
        self.files.tell(why, f"{where}: {why}")

    def add(self, other: Skipped) -> None:
        """Adds what another pass left out."""
        self.reasons += other.reasons
        self.broken += other.broken
        self.examples = [*self.examples, *other.examples][:SHOWN]
        self.broken_examples = [*self.broken_examples, *other.broken_examples][:SHOWN]

    @property
    def first(self) -> list[str]:
        """The first few of what was left out, broken rows before others."""
        others = [it for it in self.examples if it not in self.broken_examples]
        return [*self.broken_examples, *others][:SHOWN]

    @property
    def total(self) -> int:
        return self.reasons.total()


_PLACE = re.compile(r"\S*?:\d+: |[^ :]+: (?:row|document) \S+: ")
_LINE = re.compile(r"^:(\d+): ")
_QUOTED = re.compile(r'"[^"]*"')
_NUMBER = re.compile(r"(?<![\w.-])-?\d[\d,]*(?:\.\.-?\d+)?(?![\w])")


def _general(message: str) -> str:
    """A message without its place, and with … for quoted words and numbers: the same for all rows of its kind."""
    return _NUMBER.sub("…", _QUOTED.sub('"…"', _PLACE.sub("", message, count=1)))


def lots(documents: Iterable[Document], characters: int) -> Iterator[list[Document]]:
    """Documents in batches, each closed as soon as its texts reach this many characters in all."""
    lot: list[Document] = []
    size = 0
    for document in documents:
        lot.append(document)
        size += len(document.text)
        if size >= characters:
            yield lot
            lot, size = [], 0
    if lot:
        yield lot
