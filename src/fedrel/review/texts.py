"""The sentences that questions are about: those of a platform's data set, or those that support extracted facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Protocol

import numpy as np

from fedrel.alignment.kb import KB, LEAST_SHARE
from fedrel.corpus import Document
from fedrel.data.store import Dataset, Ints, Split
from fedrel.extraction.general import are_alike
from fedrel.extraction.knowledge import Knowledge
from fedrel.extraction.supporting import Spans, Supporting
from fedrel.pages.passages import parts_of, passage
from fedrel.pages.wording import Part

OTHERS = 20  # other sentences of a pair that are shown

_NO_SPACE_BEFORE = frozenset([*".,;:!?)]}%'’”", "''", "'s", "’s", "n't", "n’t"])
_NO_SPACE_AFTER = frozenset([*"([{“", "``"])


class Texts(Protocol):
    """Sentences by row."""

    @property
    def has_pairs(self) -> bool:
        """Whether sentences have a pair of entities; else they are plain texts with labels."""
        ...

    def sentence(self, row: int) -> tuple[Sequence[str], Spans]:
        """The tokens and the places of head and tail: what a verdict is filed under."""
        ...

    def parts(self, row: int) -> list[Part]:
        """The text, split at the boundaries of head and tail."""
        ...

    def around(self, row: int) -> tuple[str, str]:
        """What stands before and after the sentence in its document, as far as that is at hand."""
        ...

    def document(self, row: int) -> str:
        """The name of the document, or whoever the sentence is from; empty: not known."""
        ...

    def entities(self, row: int) -> tuple[str, str]:
        """The ids of head and tail."""
        ...

    def others(self, row: int) -> list[list[Part]]:
        """Up to 20 other sentences with the same two entities."""
        ...

    def allows(self, row: int, relation: str) -> bool:
        """Whether the relation can hold between entities of such types, as far as that is known."""
        ...


class DatasetTexts:
    """The rows of a split of a data set."""

    def __init__(self, dataset: Dataset, split: Split, kb: KB | None = None) -> None:
        self.dataset, self.split, self.kb = dataset, split, kb
        self._knowledge = Knowledge(kb) if kb is not None and dataset.has_pairs else None

    @property
    def has_pairs(self) -> bool:
        return self.dataset.has_pairs

    def sentence(self, row: int) -> tuple[list[str], Spans]:
        a, b, c, d = (int(place) for place in self.split.spans[row])
        return self.dataset.sentence(self.split, row), (a, b, c, d)

    def parts(self, row: int) -> list[Part]:
        return list(parts(*self.sentence(row)))

    def around(self, row: int) -> tuple[str, str]:
        return "", ""

    def document(self, row: int) -> str:
        name: str = self.dataset.sources[self.split.sources[row]]
        return name

    def entities(self, row: int) -> tuple[str, str]:
        if not self.has_pairs:
            return "", ""
        head, tail = self.split.pair_entities[self.split.pairs[row]]
        return self.dataset.entities[head], self.dataset.entities[tail]

    def others(self, row: int) -> list[list[Part]]:
        if not self.has_pairs:
            return []
        begin, end = np.searchsorted(self._pairs_in_order, self.split.pairs[row] + np.array([0, 1]))
        return distinct(self.parts(row), (self.parts(it) for it in self._rows_by_pair[begin:end].tolist()))

    def allows(self, row: int, relation: str) -> bool:
        if self._knowledge is not None:
            return self._knowledge.allows_ids(self.entities(row), relation)
        types = self.types(row)
        return types is None or types in self._labelled.get(relation, (types,))

    def types(self, row: int) -> tuple[int, int] | None:
        """Numbers of the types of head and tail as the data tells them; None if it does not."""
        if not self.has_pairs or self.split.types is None:
            return None
        head, tail = (int(it) for it in self.split.types[row])
        return None if min(head, tail) < 0 else (head, tail)

    @cached_property
    def _labelled(self) -> dict[str, set[tuple[int, int]]]:
        """By relation, the types of head and tail that train has it between, without rare combinations."""
        counts: dict[int, Counter[tuple[int, int]]] = {}
        train = self.dataset.train
        if train.types is not None:
            told = (train.types >= 0).all(axis=1) & (train.labels >= int(self.dataset.has_na))
            rows = np.column_stack([train.labels, train.types])[told]
            for (label, head, tail), count in zip(*np.unique(rows, axis=0, return_counts=True), strict=True):
                counts.setdefault(int(label), Counter())[int(head), int(tail)] = int(count)
        return {
            self.dataset.relations[label]: {it for it, count in found.items() if count >= LEAST_SHARE * found.total()}
            for label, found in counts.items()
        }

    def has(self, row: int, relation: str) -> bool:
        """Whether the knowledge base has the fact."""
        return self._knowledge is not None and self._knowledge.has_ids(self.entities(row), relation)

    @cached_property
    def _rows_by_pair(self) -> Ints:
        return np.argsort(self.split.pairs, kind="stable")

    @cached_property
    def _pairs_in_order(self) -> Ints:
        return self.split.pairs[self._rows_by_pair].astype(np.int64)


class FactTexts:
    """The sentences that support facts. `documents` are the texts that they are from, where they are at hand."""

    def __init__(
        self, sentences: Sequence[Supporting], documents: Iterable[Document] = (), kb: KB | None = None
    ) -> None:
        self._sentences = sentences
        self._knowledge = Knowledge(kb) if kb is not None else None
        self._around: dict[int, tuple[str, str]] = {}
        self._by_pair: dict[tuple[str, str], list[int]] = {}
        by_document: dict[str, list[int]] = {}
        for row, it in enumerate(sentences):
            by_document.setdefault(it.support.document, []).append(row)
            self._by_pair.setdefault(self.entities(row), []).append(row)
        for document in documents:
            for row in by_document.get(document.id, ()):
                support = sentences[row].support
                found = passage(support.text, support.start, support.head, support.tail, document.text)
                self._around[row] = found.before, found.after

    @property
    def has_pairs(self) -> bool:
        return True

    def sentence(self, row: int) -> tuple[Sequence[str], Spans]:
        return self._sentences[row].tokens, self._sentences[row].spans

    def parts(self, row: int) -> list[Part]:
        support = self._sentences[row].support
        return parts_of(support.text, support.head, support.tail)

    def around(self, row: int) -> tuple[str, str]:
        return self._around.get(row, ("", ""))

    def document(self, row: int) -> str:
        return self._sentences[row].support.document

    def entities(self, row: int) -> tuple[str, str]:
        return self._sentences[row].fact.head, self._sentences[row].fact.tail

    def others(self, row: int) -> list[list[Part]]:
        return distinct(self.parts(row), map(self.parts, self._by_pair[self.entities(row)]))

    def allows(self, row: int, relation: str) -> bool:
        if self._knowledge is not None:
            return self._knowledge.allows_ids(self.entities(row), relation)
        return are_alike(self._sentences[row].fact.relation, relation)


def distinct(here: list[Part], others: Iterable[list[Part]]) -> list[list[Part]]:
    """Up to 20 sentences that differ from this one and from each other."""
    found: list[list[Part]] = []
    for there in others:
        if there != here and there not in found and len(found) < OTHERS:
            found.append(there)
    return found


def parts(tokens: Sequence[str], spans: Spans) -> Iterator[Part]:
    """The text of a sentence, split at the boundaries of head and tail, with spaces as one would type them. `spans` are
    head start, head end, tail start and tail end, in tokens.
    """
    head, tail = range(spans[0], spans[1]), range(spans[2], spans[3])

    def role(place: int) -> str:
        return " ".join(name for name, span in (("head", head), ("tail", tail)) if place in span)

    glued = True
    for name, places in groupby(range(len(tokens)), role):
        text = ""
        for place in places:
            token = tokens[place]
            space = "" if glued or token in _NO_SPACE_BEFORE else " "
            if space and name and not text:
                yield "", space  # so that the marked part begins with its first letter
                space = ""
            text += space + token
            glued = token in _NO_SPACE_AFTER
        yield name, text
