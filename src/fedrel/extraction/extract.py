"""From new text to facts: a trained model scores every entity pair over all sentences that mention it."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import overload

import numpy as np
import torch

from fedrel.alignment.kb import KB
from fedrel.alignment.kb import load as load_kb
from fedrel.alignment.mentions import Spot, Spotter, ordered_pairs
from fedrel.corpus import Document
from fedrel.corpus.checks import check_span
from fedrel.corpus.tokens import tokenize
from fedrel.data.store import Ints
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Floats, sigmoid
from fedrel.experiment.saved import SavedModel
from fedrel.extraction.candidates import Chunk, Sightings, Span
from fedrel.extraction.facts import Entity, Fact, Support
from fedrel.extraction.knowledge import Knowledge
from fedrel.extraction.predictions import Prediction, Sentence, bags_of, checked

SHOWN = 5  # sentences kept with a fact
_AT_ONCE = 1_024  # sightings scored together
_MOST = 4_096  # sentences scored per pair: more would add little and take too much memory
_LONGEST = 400  # tokens; anything longer is not a sentence and would slow everything down


@dataclass(frozen=True)
class _Scored:
    """S sightings of B pairs."""

    chunk: Chunk
    log_odds: Floats  # (B, R), calibrated
    alone: Floats  # (S, R) the log-odds of each sentence on its own, as the model has them


class RelationExtractor:
    """A trained model that reads text; `fedrel.load(folder)` returns one. Raises UserError for a model of plain texts,
    which predicts labels, not relations. The methods that begin with an underscore and end before `_type` are what a
    model with other habits of reading changes: general.py.
    """

    def __init__(self, saved: SavedModel) -> None:
        self.saved = saved
        self.relations = saved.relations
        self.calibration = saved.calibration
        self._first = int(saved.has_na)  # the first relation that is not NA
        if not saved.has_pairs:
            raise UserError("this model was trained on plain texts: it predicts labels of texts, not relations")

    def __repr__(self) -> str:
        settings = self.saved.extractor
        known = len(self.relations) - self._first
        return f"RelationExtractor({settings.kind}, {known} relations, {len(self.saved.encoding):,} words)"

    @overload
    def predict(
        self, sentences: str, /, *, head: Span, tail: Span, types: tuple[str, str] = ("", "")
    ) -> Prediction: ...
    @overload
    def predict(self, sentences: Iterable[Sentence | Sequence[Sentence]], /) -> list[Prediction]: ...
    def predict(
        self,
        sentences: str | Iterable[Sentence | Sequence[Sentence]],
        /,
        *,
        head: Span | None = None,
        tail: Span | None = None,
        types: tuple[str, str] = ("", ""),
    ) -> Prediction | list[Prediction]:
        """The relation from head to tail: of one sentence, `predict(text, head=(0, 3), tail=(16, 20))`, or of many at
        once, `predict([Sentence(text, (0, 3), (16, 20)), …])`, a prediction each. A list in the place of a `Sentence`
        is a bag: sentences of one pair, which are scored together as in training, for one prediction. The best relation
        is returned even if "no relation" (NA) scores higher: check the confidence. `types` of head and tail (drug,
        disease, …) are all that a model trained with extractor.blind sees of them; other models ignore them.

        Raises UserError if head and tail are not two separate spans of their text, or if it is longer than 400 tokens.
        """
        if isinstance(sentences, str):
            if head is None or tail is None:
                raise UserError("predict needs head and tail, the spans of two entities in the text")
            return self._predict([("", [Sentence(sentences, head, tail, types)])])[0]
        if head is not None or tail is not None or types != ("", ""):
            raise UserError("head, tail and types are those of one text; give each Sentence its own")
        return self._predict(list(bags_of(sentences)))

    def _predict(self, bags: Sequence[tuple[str, Sequence[Sentence]]]) -> list[Prediction]:
        """A prediction for every bag, each with what its errors begin with."""
        if not bags:
            return []
        with Sightings() as seen:
            for number, (where, bag) in enumerate(bags):
                for sentence in bag:
                    self._see(seen, number, sentence, where)
            seen.close()
            z = np.concatenate([it.log_odds for it in self._scored(seen, np.arange(len(bags)))])  # (bags, R)
        return [self._prediction(bag[0], of_bag) for (_, bag), of_bag in zip(bags, z, strict=True)]

    def _see(self, seen: Sightings, number: int, sentence: Sentence, where: str) -> None:
        """Adds a sentence as a sighting of the bag of this number."""
        text = sentence.text
        head, tail = checked(text, sentence.head, f"{where}head"), checked(text, sentence.tail, f"{where}tail")
        if head[0] < tail[1] and tail[0] < head[1]:
            raise UserError(
                f"{where}head {head[0]}..{head[1]} and tail {tail[0]}..{tail[1]} overlap; they must be separate"
            )
        words = Words.of(text)
        if len(words) > _LONGEST:
            raise UserError(
                f"{where}the text has {len(words):,} tokens, but predict reads one sentence of at most {_LONGEST}; "
                "pass only the one around head and tail, or use extract"
            )
        sides = zip((head, tail), "ht", sentence.types, strict=True)
        spots = self._typed(text, [Spot(*span, (key,), (), type_) for span, key, type_ in sides], None)
        tokens, spans = self._read(text, words, spots)
        seen.add_sentence("", 0, text, self._look_up(tokens))
        seen.add(number, number, (*spans[head], *spans[tail]), (*head, *tail), self._told(*spots))

    def _prediction(self, sentence: Sentence, z: Floats) -> Prediction:
        """From the log-odds (R,) of a bag, whose entities are called as in this sentence."""
        order = np.argsort(-z[self._first :], kind="stable") + self._first
        confidence = sigmoid(z)
        ranked = {self.relations[number]: float(confidence[number]) for number in order}
        best, text = self.relations[order[0]], sentence.text
        names = (text[slice(*map(operator.index, span))] for span in (sentence.head, sentence.tail))
        return Prediction(next(names), best, next(names), ranked[best], ranked)

    def extract(
        self,
        texts: str | Document | Iterable[str | Document],
        kb: KB | str | Path | None = None,
        *,
        min_confidence: float = 0.5,
        new_only: bool = False,
        ambiguous: bool = False,
        tick: Callable[[Spotter], None] = lambda spotter: None,
        language: str = "en",
    ) -> Iterator[Fact]:
        """The facts in the texts, each from all sentences of its pair. Entities are those annotated in a Document; in
        plain text, the names of the knowledge base (`kb`, loaded or its path). Facts below `min_confidence` are left
        out; with `new_only`, also those that the knowledge base has; and unless `ambiguous`, those with a name whose
        entity is not clear. `tick` is called after each sentence that is read and each chunk that is scored.

        Raises UserError for bad options at once, and for bad texts while the facts are read.
        """
        if not 0 <= min_confidence <= 1:
            raise UserError(f"min_confidence is a number from 0 to 1, not {min_confidence}")
        if new_only and kb is None:
            raise UserError("new_only needs a knowledge base (kb)")
        base = kb if isinstance(kb, KB) or kb is None else load_kb(Path(kb))
        several = [texts] if isinstance(texts, str | Document) else texts
        return self._extract(several, base, min_confidence, new_only, ambiguous, tick, language)

    def _extract(
        self,
        texts: Iterable[str | Document],
        kb: KB | None,
        min_confidence: float,
        new_only: bool,
        ambiguous: bool,
        tick: Callable[[Spotter], None],
        language: str,
    ) -> Iterator[Fact]:
        spotter = self._spotter(kb, language)
        counts, entities = spotter.counts, _Entities()
        with Sightings() as seen:
            for document, start, text, found, page in spotter.sentences(_documents(texts)):
                if len(found) > 1:
                    words = Words.of(text)
                    spots = self._typed(text, found, kb)
                    if len(words) > _LONGEST:  # before its pairs are formed: a table without full stops has millions
                        counts["sentences too long"] += 1
                    elif pairs := [it for it in ordered_pairs(spots) if _possible(kb, *it) and self._could_join(*it)]:
                        tokens, spans = self._read(text, words, spots)
                        seen.add_sentence(document, start, text, self._look_up(tokens), page)
                        for head, tail in pairs:
                            sides = (*spans[head[:2]], *spans[tail[:2]])
                            places = (*head[:2], *tail[:2])
                            told = self._told(head, tail)
                            numbers = entities.number(head, text), entities.number(tail, text)
                            seen.add(*numbers, sides, places, told)
                tick(spotter)
            seen.close()
            known = _Known(kb, entities.listed, entities.names)
            counts["pairs"], counts["sightings"] = len(seen.pairs), len(seen)
            for scored in self._scored(seen, known.meanings(seen.pairs)):
                counts["scored"] += int(scored.chunk.seen.sum())
                tick(spotter)
                for bag, relation in np.argwhere(sigmoid(scored.log_odds[:, self._first :]) >= min_confidence).tolist():
                    one, other = seen.pairs[scored.chunk.pairs[bag]].tolist()
                    name = self.relations[relation + self._first]
                    if (new_only and known.has(one, name, other)) or not known.allows(one, name, other):
                        continue
                    if not self._allows(name, entities.types[one], entities.types[other]):
                        continue
                    if ambiguous or known.is_clear(one, other):
                        yield self._fact(seen, scored, known, bag, relation + self._first)
                    else:
                        counts["ambiguous facts"] += 1

    def _spotter(self, kb: KB | None, language: str) -> Spotter:
        return Spotter(kb, language)

    def _typed(self, text: str, spots: Sequence[Spot], kb: KB | None) -> Sequence[Spot]:
        """The mentions of a sentence with their types, for a model that looks at them."""
        return spots

    def _read(self, text: str, words: Words, spots: Sequence[Spot]) -> tuple[list[str], dict[Span, Span]]:
        """The tokens of a sentence as the model reads it, and the span in tokens of every mention, by its span in
        characters.
        """
        return words.tokens, {spot[:2]: words.touched(*spot[:2]) for spot in spots}

    def _could_join(self, head: Spot, tail: Spot) -> bool:
        """Whether the model has a relation for entities of such types."""
        return True

    def _allows(self, relation: str, head: str, tail: str) -> bool:
        """Whether the relation can hold between entities of these types."""
        return True

    def _told(self, head: Spot, tail: Spot) -> tuple[int, int]:
        """What the model is told of the types of head and tail, apart from the tokens."""
        return (self._type(head.type), self._type(tail.type)) if self.saved.extractor.blind else (-1, -1)

    def _type(self, name: str) -> int:
        return int(self.saved.encoding.numbers([name.lower()])[0]) if name else -1

    def _look_up(self, tokens: Sequence[str]) -> list[int]:
        numbers: list[int] = self.saved.encoding.numbers(tokens).tolist()
        return numbers

    def _scored(self, seen: Sightings, meaning: Ints) -> Iterator[_Scored]:
        """The scores in chunks, all sentences of a pair in the same one."""
        model = self.saved.model
        for it in seen.chunks(_AT_ONCE, _MOST, meaning):
            places = np.arange(len(it.rows))
            shard = self.saved.encoding.pack(it.split, places, it.starts)
            model.load(self.saved.weights, shard)
            scores, alone = model.score_sentences(shard.bags_of(torch.arange(shard.bags)))
            yield _Scored(it, self.calibration.log_odds(scores.numpy()), alone.numpy())

    def _fact(self, seen: Sightings, scored: _Scored, known: _Known, bag: int, relation: int) -> Fact:
        chunk, name = scored.chunk, self.relations[relation]
        head, tail = seen.pairs[chunk.pairs[bag]].tolist()
        inside = np.arange(chunk.starts[bag], chunk.starts[bag + 1])
        best = inside[np.argsort(-scored.alone[inside, relation], kind="stable")[:SHOWN]]
        support = tuple(
            Support(**seen.place(int(chunk.rows[row])), score=float(sigmoid(scored.alone[row, relation])))
            for row in best.tolist()
        )
        first = support[0]
        return Fact(
            head=known.entities[head][0],
            head_name=known.name(head, first.text[slice(*first.head)]),
            relation=name,
            tail=known.entities[tail][0],
            tail_name=known.name(tail, first.text[slice(*first.tail)]),
            log_odds=float(scored.log_odds[bag, relation]),
            known=known.has(head, name, tail),
            sentences=int(chunk.seen[bag]),
            support=support,
            instead=known.instead(head, name, tail),
        )


def _documents(texts: Iterable[str | Document]) -> Iterator[Document]:
    for number, text in enumerate(texts, 1):
        if isinstance(text, Document):
            for mark in text.annotations or ():
                check_span(text.text, mark.start, mark.end, f"{text.where or text.id}: {mark.key}")
            yield text
        elif isinstance(text, str):
            yield Document(f"text {number}", text)
        else:
            raise UserError(f"text {number} is a {type(text).__name__}; extract reads strings and Documents")


@dataclass(frozen=True, slots=True)
class Words:
    """The tokens of a sentence, with the character offsets where each begins and ends."""

    tokens: list[str]
    begins: list[int]
    ends: list[int]

    @classmethod
    def of(cls, text: str) -> Words:
        return cls(*tokenize(text))

    def __len__(self) -> int:
        return len(self.tokens)

    def touched(self, start: int, end: int) -> Span:
        """The span of tokens that overlap these characters; at least one, unless they are all white space."""
        return bisect_right(self.ends, start), bisect_left(self.begins, end)


class _Entities:
    """The entities seen so far, numbered: the key of each, and its candidate numbers in the knowledge base."""

    def __init__(self) -> None:
        self.listed: list[tuple[str, tuple[int, ...]]] = []
        self.types: list[str] = []  # as first seen
        self.names: dict[str, str] = {}  # of those whose key is their name in small letters
        self._places: dict[tuple[str, ...], int] = {}

    def number(self, spot: Spot, text: str) -> int:
        """The number of an entity that is mentioned in this sentence."""
        name = text[spot.start : spot.end]
        if spot.key not in self.names and name.casefold() == spot.key:
            self.names[spot.key] = name
        place = self._places.setdefault(spot.ids, len(self.listed))
        if place == len(self.listed):
            self.listed.append((spot.key, spot.numbers))
            self.types.append(spot.type)
        return place


def _possible(kb: KB | None, head: Spot, tail: Spot) -> bool:
    if kb is None or not head.numbers or not tail.numbers:
        return True
    return any(kb.compatible(h, t) for h in head.numbers for t in tail.numbers)


@dataclass(frozen=True)
class _Known:
    """What the knowledge base says about the entities seen, by their numbers in the sightings."""

    kb: KB | None
    entities: list[tuple[str, tuple[int, ...]]]
    names: dict[str, str]  # in full, of entities whose key is their name in small letters

    def has(self, head: int, relation: str, tail: int) -> bool | None:
        """Whether the knowledge base has the fact for any candidates of its names; None without one."""
        if self._knowledge is None:
            return None
        return self._knowledge.has(self._numbers(head), relation, self._numbers(tail))

    def allows(self, head: int, relation: str, tail: int) -> bool:
        """Whether the relation can hold between the types of head and tail; True if nothing is known of them."""
        return self._knowledge is None or self._knowledge.allows(self._numbers(head), relation, self._numbers(tail))

    def instead(self, head: int, relation: str, tail: int) -> tuple[Entity, ...]:
        """What the knowledge base has in the place of the tail, if it contradicts the fact."""
        if self._knowledge is None:
            return ()
        return self._knowledge.instead(self._numbers(head), relation, self._numbers(tail))

    def name(self, entity: int, text: str) -> str:
        """The name of an entity whose name occurs as `text`."""
        key, numbers = self.entities[entity]
        if self.kb is None:
            return self.names.get(key, text)
        return self.kb.name(numbers[0]) if len(numbers) == 1 else text

    @cached_property
    def _knowledge(self) -> Knowledge | None:
        return None if self.kb is None else Knowledge(self.kb)

    def meanings(self, pairs: Ints) -> Ints:
        """(P,) the index of the pair that each pair means. A pair with an ambiguous name means the pair that is also
        named unambiguously, if there is exactly one such pair; any other pair means itself. `pairs` (P, 2), sorted.
        """
        clear = {numbers[0]: at for at, (_, numbers) in enumerate(self.entities) if len(numbers) == 1}
        several = np.array([len(numbers) > 1 for _, numbers in self.entities], dtype=bool)
        keys = pairs[:, 0] << 32 | pairs[:, 1]
        meaning = np.arange(len(pairs), dtype=np.int64)
        for place in np.flatnonzero(several[pairs].any(axis=1)).tolist():
            heads, tails = ([clear[n] for n in self._numbers(at) if n in clear] for at in pairs[place].tolist())
            could_be = np.array([head << 32 | tail for head, tail in product(heads, tails)], dtype=np.int64)
            at = keys.searchsorted(could_be).clip(max=len(keys) - 1)
            elsewhere = at[keys[at] == could_be]
            if len(elsewhere) == 1:
                meaning[place] = elsewhere[0]
        return meaning

    def is_clear(self, head: int, tail: int) -> bool:
        return max(len(self._numbers(head)), len(self._numbers(tail))) < 2

    def _numbers(self, entity: int) -> tuple[int, ...]:
        return self.entities[entity][1]
