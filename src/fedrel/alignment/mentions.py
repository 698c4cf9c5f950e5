"""Entity mentions by sentence: the ones annotated in a document, else the names of a knowledge base found in it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from fedrel.alignment.gazetteer import Gazetteer, Match
from fedrel.alignment.kb import KB
from fedrel.alignment.problems import quoted
from fedrel.alignment.recogniser import Name
from fedrel.corpus import Document, Skipped, lots
from fedrel.corpus.pairs import sentences_of
from fedrel.errors import UserError

MOST_SPOTS = 100  # per sentence; one with more is a list, and would yield a pair for every two of its entities
NOT_IN_KB = "the marked entity is not in the knowledge base, neither by id nor by name"
TOO_MANY = f"the sentence has more than {MOST_SPOTS} entities"
_TOGETHER = 200_000  # characters searched in one call: a call costs more than the search of a sentence
_REMEMBERED = 1 << 16  # cached lookups: the entities of a document recur
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")


class Spot(NamedTuple):
    """A mention of an entity in a sentence, text[start:end]. It has several ids if the name is ambiguous."""

    start: int
    end: int
    ids: tuple[str, ...]
    numbers: tuple[int, ...]  # of the entities in the knowledge base; empty: not in it
    type: str = ""  # as annotated or recognised; empty: unknown, or as the knowledge base says

    @property
    def key(self) -> str:
        """The id of the entity in a pair; for an ambiguous name all ids, joined by `|`."""
        return self.ids[0] if len(self.ids) == 1 else "|".join(self.ids)


class SpottedSentence(NamedTuple):
    """A sentence of a document with the entity mentions in it, by position."""

    document: str
    start: int  # of the sentence in the document, in characters
    text: str
    spots: Sequence[Spot]
    page: int | None = None  # of the document, that the sentence begins on; None: it has no pages


@dataclass
class Spotter:
    """Finds the entity mentions of documents. `counts` says how much it has seen, `skipped` what it left out and why.

    Without a knowledge base, every document must have annotated entities, unless `recognise` finds names by itself: the
    names in every sentence of a document. Raises UserError for a malformed language code.
    """

    kb: KB | None
    language: str = "en"
    recognise: Callable[[Sequence[str]], list[list[Name]]] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Skipped = field(default_factory=Skipped)

    def __post_init__(self) -> None:
        if not _LANGUAGE.fullmatch(self.language):
            raise UserError(f'"{self.language}" is not a language code; give two letters, such as en, de or fr')
        self._gazetteer = Gazetteer(self.kb.names()) if self.kb is not None else None
        self._ids = lru_cache(_REMEMBERED)(self._look_up_ids)
        self._numbers = lru_cache(_REMEMBERED)(self._look_up_numbers)

    def sentences(self, documents: Iterable[Document]) -> Iterator[SpottedSentence]:
        """Every sentence in order, including those without an entity. Raises UserError for a document without annotated
        entities if there is no knowledge base.
        """
        for lot in lots(documents, _TOGETHER):
            yield from self._sentences(lot)

    def _sentences(self, documents: list[Document]) -> Iterator[SpottedSentence]:
        spans = [sentences_of(document, self.language) for document in documents]
        found = self._search(documents, spans)
        for document, places in zip(documents, spans, strict=True):
            marked = self._is_marked(document)
            self.counts["documents"] += 1
            self.counts["marked documents"] += marked
            self.counts["characters"] += len(document.text)
            spots = self._marked(document, places) if marked else next(found)
            self._settle(spots)
            self.counts["mentions"] += sum(map(len, spots))
            self.counts["ambiguous"] += sum(len(spot.ids) > 1 for inside in spots for spot in inside)
            for (start, end), inside in zip(places, spots, strict=True):
                self.counts["sentences"] += 1
                if len(inside) > MOST_SPOTS:
                    self.skipped(f"{document.where or document.id}, character {start}", TOO_MANY)
                    inside = []
                yield SpottedSentence(document.id, start, document.text[start:end], inside, document.page_at(start))

    def _is_marked(self, document: Document) -> bool:
        """Whether to use the document's own annotations. An empty list of them says little (brat requires a file even
        for a text that is not annotated yet), so names are searched for instead, given a knowledge base.
        """
        searched = self._gazetteer is not None or self.recognise is not None
        return bool(document.annotations) or (document.annotations is not None and not searched)

    def _search(self, documents: list[Document], spans: list[list[tuple[int, int]]]) -> Iterator[list[list[Spot]]]:
        """The mentions by sentence of every document without annotations of its own."""
        plain = [number for number, document in enumerate(documents) if not self._is_marked(document)]
        if not plain:
            return
        if self._gazetteer is None and self.recognise is not None:
            for number in plain:
                text = documents[number].text
                yield [
                    [Spot(name.start, name.end, (name.id,), (), name.type) for name in names]
                    for names in self.recognise([text[start:end] for start, end in spans[number]])
                ]
            return
        if self._gazetteer is None:
            raise UserError(
                f"{documents[plain[0]].where or documents[plain[0]].id}: no entities are marked in this text; "
                "give a knowledge base with --kb to find its names there"
            )
        texts = [documents[number].text[start:end] for number in plain for start, end in spans[number]]
        matches = iter(self._gazetteer.find_all(texts))
        for number in plain:
            yield [[self._spot(match) for match in next(matches)] for _ in spans[number]]

    def _spot(self, match: Match) -> Spot:
        start, end, numbers = match
        return Spot(start, end, self._ids(numbers), numbers)

    def _look_up_ids(self, numbers: tuple[int, ...]) -> tuple[str, ...]:
        assert self.kb is not None
        return tuple(self.kb.ids[number] for number in numbers)

    def _marked(self, document: Document, spans: list[tuple[int, int]]) -> list[list[Spot]]:
        """The annotated entities by sentence, linked to the knowledge base by id, else by name."""
        spots: list[list[Spot]] = [[] for _ in spans]
        place = 0
        for mark in sorted(document.annotations or (), key=lambda mark: (mark.start, mark.end)):
            while spans[place][1] < mark.end:
                place += 1
            start = spans[place][0]
            name = document.text[mark.start : mark.end]
            numbers = self._numbers(mark.id, name)
            if not numbers and self.kb is not None:
                self.skipped(f"{document.where or document.id}: {quoted(name)}{mark.id and f' ({mark.id})'}", NOT_IN_KB)
            ids = self._ids(numbers) if numbers else (mark.id or " ".join(name.lower().split()),)
            spots[place].append(Spot(mark.start - start, mark.end - start, ids, numbers, mark.type))
        return spots

    def _look_up_numbers(self, id_: str, name: str) -> tuple[int, ...]:
        if self.kb is None or self._gazetteer is None:
            return ()
        if id_ in self.kb.numbers:
            return (self.kb.numbers[id_],)
        name = name.strip()
        whole = (match.candidates for match in self._gazetteer.find(name) if match.end - match.start == len(name))
        return next(whole, ())

    def _settle(self, sentences: list[list[Spot]]) -> None:
        """Resolves ambiguous names in place: a name that several entities share means the one that the document also
        mentions unambiguously, if there is exactly one.
        """
        sure = {spot.numbers[0] for spots in sentences for spot in spots if len(spot.numbers) == 1}
        for spots in sentences:
            for place, spot in enumerate(spots):
                if len(spot.numbers) > 1:
                    named = [at for at, number in enumerate(spot.numbers) if number in sure]
                    if len(named) == 1:
                        at = named[0]
                        self.counts["settled"] += 1
                        spots[place] = spot._replace(ids=(spot.ids[at],), numbers=(spot.numbers[at],))


def pairs(spots: Sequence[Spot]) -> list[tuple[Spot, Spot]]:
    """Every two different entities with mentions that do not overlap, in order of first mention. Of several mentions
    the two closest are taken.
    """
    by_ids: defaultdict[tuple[str, ...], list[Spot]] = defaultdict(list)
    for spot in spots:
        by_ids[spot.ids].append(spot)
    found = []
    for (ids, ones), (other_ids, others) in combinations(by_ids.items(), 2):
        if len(ids) + len(other_ids) > 2 and not set(ids).isdisjoint(other_ids):
            continue  # both may mean the same entity
        apart = [(a, b) for a in ones for b in others if a.end <= b.start or b.end <= a.start]
        if apart:
            found.append(apart[0] if len(apart) == 1 else min(apart, key=_distance))
    return found


def ordered_pairs(spots: Sequence[Spot]) -> list[tuple[Spot, Spot]]:
    """(head, tail) of every pair of entities in a sentence, each pair in both directions."""
    return [way for one, other in pairs(spots) for way in ((one, other), (other, one))]


def _distance(pair: tuple[Spot, Spot]) -> int:
    a, b = pair
    return max(b.start - a.end, a.start - b.end)
