"""What readers yield: documents (text, perhaps with entities and relations marked in it), labelled sentences
with one pair of entities each, or labelled texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

SPLITS = ("train", "dev", "test")
NA = "NA"  # the relation of a pair that no fact joins
SHOWN = 5  # rows named by line, wherever rows are named


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity in a sentence: tokens[start:end]."""

    id: str
    start: int
    end: int
    type: str = ""  # a drug, a disease, …; empty: unknown


@dataclass(frozen=True, slots=True)
class Instance:
    """One sentence with one pair of entities and the (noisy) label of that pair.

    `source` says who wrote the sentence. `expressed` is the hidden truth "this sentence states the relation", known
    for synthetic data only and used only to measure how well a method selects sentences.
    """

    tokens: Sequence[str]
    head: Mention
    tail: Mention
    relation: str
    source: str = ""
    expressed: bool | None = None


@dataclass(frozen=True, slots=True)
class Annotation:
    """An entity that is marked in a document: text[start:end]."""

    key: str  # its name within the document (T1), by which relations refer to it
    start: int
    end: int
    type: str = ""
    id: str = ""  # in a knowledge base; empty: not linked


@dataclass(frozen=True, slots=True)
class Document:
    """A text as it was written; every offset into it counts characters of exactly this string."""

    id: str
    text: str
    annotations: tuple[Annotation, ...] | None = None  # None: entities are not marked
    relations: tuple[tuple[str, str, str], ...] | None = None  # (key of the head, relation, key of the tail)
    where: str = ""  # file, or file:line, for messages
    sentences: tuple[tuple[int, int], ...] | None = None  # text[start:end] of each; None: not given, to be split


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A whole text with one label, for classification."""

    tokens: Sequence[str]
    label: str
    source: str = ""


@dataclass
class Skipped:
    """What a reader left out: counted by reason, the first few kept to be shown."""

    reasons: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def __call__(self, where: str, why: str) -> None:
        self.reasons[why] += 1
        if len(self.examples) < SHOWN:
            self.examples.append(f"{where}: {why}")

    @property
    def total(self) -> int:
        return self.reasons.total()


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
