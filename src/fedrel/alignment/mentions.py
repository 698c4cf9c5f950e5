"""Sentences with the entities in them: those that somebody marked in the text, else the names of a knowledge base."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fedrel.alignment.gazetteer import Gazetteer, Match
from fedrel.alignment.kb import KB
from fedrel.corpus import Document
from fedrel.corpus.pairs import sentences_of
from fedrel.errors import UserError

_TOGETHER = 200_000  # characters searched in one call: the search is fast, a call is not


@dataclass(frozen=True, slots=True)
class Spot:
    """An entity in a sentence: text[start:end]. Several ids where the name is ambiguous."""

    start: int
    end: int
    ids: tuple[str, ...]
    numbers: tuple[int, ...]  # in the knowledge base; none: not in it

    @property
    def key(self) -> str:
        """What stands for the entity in a pair."""
        return "|".join(self.ids)


@dataclass(frozen=True, slots=True)
class SpottedSentence:
    document: str
    start: int  # of the sentence in the document, in characters
    text: str
    spots: Sequence[Spot]


@dataclass
class Spotter:
    """Finds the entities of documents, and counts what it saw."""

    kb: KB | None
    language: str = "en"
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._gazetteer = Gazetteer(self.kb.names()) if self.kb is not None else None

    def sentences(self, documents: Iterable[Document]) -> Iterator[SpottedSentence]:
        """Every sentence, in order, also those without an entity."""
        waiting: list[Document] = []
        size = 0
        for document in documents:
            waiting.append(document)
            size += len(document.text)
            if size >= _TOGETHER:
                yield from self._sentences(waiting)
                waiting, size = [], 0
        yield from self._sentences(waiting)

    def _sentences(self, documents: list[Document]) -> Iterator[SpottedSentence]:
        spans = [sentences_of(document, self.language) for document in documents]
        found = self._search(documents, spans)
        for document, places in zip(documents, spans, strict=True):
            self.counts["documents"] += 1
            self.counts["characters"] += len(document.text)
            spots = next(found) if document.annotations is None else self._marked(document, places)
            self._settle(spots)
            for (start, end), inside in zip(places, spots, strict=True):
                self.counts["sentences"] += 1
                self.counts["mentions"] += len(inside)
                self.counts["ambiguous"] += sum(len(spot.ids) > 1 for spot in inside)
                yield SpottedSentence(document.id, start, document.text[start:end], inside)

    def _search(self, documents: list[Document], spans: list[list[tuple[int, int]]]) -> Iterator[list[list[Spot]]]:
        """For every document that nobody marked, its names by sentence."""
        plain = [number for number, document in enumerate(documents) if document.annotations is None]
        if not plain:
            return
        if self._gazetteer is None:
            raise UserError(
                f"{documents[plain[0]].where or documents[plain[0]].id}: no entities are marked in this text; "
                "give a knowledge base with --kb, whose names are then looked for"
            )
        texts = [documents[number].text[start:end] for number in plain for start, end in spans[number]]
        matches = iter(self._gazetteer.find_all(texts))
        for number in plain:
            yield [[self._spot(match) for match in next(matches)] for _ in spans[number]]

    def _spot(self, match: Match) -> Spot:
        assert self.kb is not None
        return Spot(match.start, match.end, tuple(self.kb.ids[number] for number in match.candidates), match.candidates)

    def _marked(self, document: Document, spans: list[tuple[int, int]]) -> list[list[Spot]]:
        """The marked entities by sentence, tied to the knowledge base by their id, or else by their name."""
        spots: list[list[Spot]] = [[] for _ in spans]
        place = 0
        for mark in sorted(document.annotations or (), key=lambda mark: (mark.start, mark.end)):
            while spans[place][1] < mark.end:
                place += 1
            start = spans[place][0]
            name = document.text[mark.start : mark.end]
            numbers = self._numbers(mark.id, name)
            ids = tuple(self.kb.ids[number] for number in numbers) if self.kb is not None else ()
            by_itself = mark.id or " ".join(name.lower().split())
            spots[place].append(Spot(mark.start - start, mark.end - start, ids or (by_itself,), numbers))
        return spots

    def _numbers(self, id_: str, name: str) -> tuple[int, ...]:
        if self.kb is None or self._gazetteer is None:
            return ()
        if id_ in self.kb.numbers:
            return (self.kb.numbers[id_],)
        whole = (match.candidates for match in self._gazetteer.find(name) if match.end - match.start == len(name))
        return next(whole, ())

    def _settle(self, sentences: list[list[Spot]]) -> None:
        """A name that several entities share means the one that its document names in full, if it does so of one."""
        sure = {spot.ids[0] for spots in sentences for spot in spots if len(spot.ids) == 1}
        for spots in sentences:
            for place, spot in enumerate(spots):
                if len(spot.ids) > 1:
                    named = [at for at, id_ in enumerate(spot.ids) if id_ in sure]
                    if len(named) == 1:
                        at = named[0]
                        self.counts["settled"] += 1
                        spots[place] = Spot(spot.start, spot.end, (spot.ids[at],), (spot.numbers[at],))


def ordered_pairs(spots: Sequence[Spot]) -> list[tuple[Spot, Spot]]:
    """Every head and tail of different entities that do not overlap; where an entity is named several times, the two
    mentions that stand closest.
    """
    by_key: defaultdict[str, list[Spot]] = defaultdict(list)
    for spot in spots:
        by_key[spot.key].append(spot)
    pairs = []
    for head, heads in by_key.items():
        for tail, tails in by_key.items():
            if head == tail or set(heads[0].ids) & set(tails[0].ids):
                continue
            apart = [(a, b) for a in heads for b in tails if a.end <= b.start or b.end <= a.start]
            if apart:
                pairs.append(min(apart, key=_distance))
    return pairs


def _distance(pair: tuple[Spot, Spot]) -> int:
    a, b = pair
    return max(b.start - a.end, a.start - b.end)
