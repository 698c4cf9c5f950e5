"""From new text to facts: every pair of entities in it, scored by a trained model over all its sentences."""

from __future__ import annotations

import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedrel.alignment.kb import KB
from fedrel.alignment.mentions import Spot, Spotter, ordered_pairs
from fedrel.bags import Ints
from fedrel.corpus import Document
from fedrel.corpus.tokens import tokenize
from fedrel.encoding.packed import pack
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Floats
from fedrel.facts import Fact, Support
from fedrel.saved import SavedModel, load_model
from fedrel.sightings import Sightings

SHOWN = 5  # sentences kept with a fact
_AT_ONCE = 4_096  # sentences scored together
_LONGEST = 400  # tokens of a sentence; what is longer is no sentence, and would slow everything down


@dataclass(frozen=True)
class Prediction:
    """What one sentence says of two places in it."""

    head: str
    relation: str
    tail: str
    confidence: float
    confidences: dict[str, float]  # of all relations, the best first

    def __str__(self) -> str:
        return f"{self.head} —{self.relation}→ {self.tail}  {self.confidence:.2f}"


@dataclass(frozen=True)
class _Scored:
    """S sightings of P pairs."""

    pairs: Ints  # (P,)
    starts: Ints  # (P+1,) where the sightings of each begin
    rows: Ints  # (S,) the sightings
    confidence: Floats  # (P, R)
    alone: Floats  # (S, R) the score of each sentence by itself


class RelationExtractor:
    """A trained model, ready to read. `fedrel.load(folder)` makes one."""

    def __init__(self, saved: SavedModel) -> None:
        self.saved = saved
        self.relations = saved.relations
        self.calibration = saved.calibration
        self._numbers = saved.vocabulary.numbers
        self._identity = np.arange(len(saved.vocabulary))

    def __repr__(self) -> str:
        settings = self.saved.extractor
        return f"RelationExtractor({settings.kind}, {len(self.relations) - 1} relations, {len(self._numbers):,} words)"

    def predict(self, text: str, *, head: tuple[int, int], tail: tuple[int, int]) -> Prediction:
        """The relation of text[head[0]:head[1]] to text[tail[0]:tail[1]], as this sentence has it. The best relation is
        given even where "no relation" (NA) would be likelier: look at the confidence.
        """
        for name, (start, end) in (("head", head), ("tail", tail)):
            if not 0 <= start < end <= len(text):
                raise UserError(f"{name} {start}..{end} lies outside the {len(text)} characters of the text")
        with tempfile.TemporaryDirectory() as folder:
            sightings = Sightings(Path(folder))
            sentence = sightings.add_sentence("", 0, text)
            whole = self._add(sightings, sentence, text, [(Spot(*head, ("h",), ()), Spot(*tail, ("t",), ()))])
            if not whole:
                raise UserError("head or tail touches no word of the text")
            sightings.close()
            confidence = next(self._scored(sightings, np.zeros(1, np.int64))).confidence
        order = np.argsort(-confidence[0, 1:], kind="stable") + 1
        ranked = {self.relations[number]: float(confidence[0, number]) for number in order}
        best = self.relations[order[0]]
        return Prediction(text[slice(*head)], best, text[slice(*tail)], ranked[best], ranked)

    def extract(
        self,
        texts: Iterable[str | Document],
        *,
        kb: KB | None = None,
        min_confidence: float = 0.5,
        new_only: bool = False,
        ambiguous: bool = False,
        tick: Callable[[Spotter], None] = lambda spotter: None,
        language: str = "en",
    ) -> Iterator[Fact]:
        """Facts in the texts, the sentences of a pair taken together. Entities are those that a Document marks; in
        plain text, the names of the knowledge base. A fact of which it is not clear whom a name means is left out,
        unless `ambiguous`.
        """
        spotter = Spotter(kb, language)
        with tempfile.TemporaryDirectory(prefix="fedrel-") as folder:
            sightings = Sightings(Path(folder))
            numbers: dict[str, tuple[int, ...]] = {}  # in the knowledge base, by what stands for the entity in a pair
            for sentence in spotter.sentences(_documents(texts)):
                pairs = [pair for pair in ordered_pairs(sentence.spots) if _possible(kb, *pair)]
                if pairs:
                    numbers |= {spot.key: spot.numbers for spot in sentence.spots}
                    number = sightings.add_sentence(sentence.document, sentence.start, sentence.text)
                    if not self._add(sightings, number, sentence.text, pairs):
                        spotter.counts["sentences too long"] += 1
                tick(spotter)
            sightings.close()
            known = _Known(kb, numbers)
            meaning = known.meanings(list(sightings.pairs))
            for fact in self._facts(sightings, meaning, known, min_confidence, new_only):
                if ambiguous or known.is_clear(fact):
                    yield fact
                else:
                    spotter.counts["ambiguous facts"] += 1

    def _add(self, sightings: Sightings, sentence: int, text: str, pairs: list[tuple[Spot, Spot]]) -> bool:
        tokens, begins, ends = tokenize(text)
        if len(tokens) > _LONGEST:
            return False
        known = self._numbers
        numbers = [known.get(token.lower(), 1) for token in tokens]
        for head, tail in pairs:
            spans = (*_touched(head, begins, ends), *_touched(tail, begins, ends))
            if spans[0] >= spans[1] or spans[2] >= spans[3]:
                return False
            sightings.add(sentence, numbers, spans, (head.start, head.end, tail.start, tail.end), (head.key, tail.key))
        return True

    def _scored(self, sightings: Sightings, meaning: Ints) -> Iterator[_Scored]:
        """Chunk by chunk, all sentences of a pair in one."""
        settings, model = self.saved.extractor, self.saved.model
        for split, starts, pairs, rows in sightings.chunks(_AT_ONCE, meaning):
            places = np.arange(len(rows))
            shard = pack(split, places, starts, self._identity, reach=settings.reach, gap=settings.window // 2)
            model.load(self.saved.weights, shard)
            scores, alone = model.score_sentences(shard.bags_of(torch.arange(shard.bags)))
            yield _Scored(pairs, starts, rows, self.calibration.confidence(scores.numpy()), alone.numpy())

    def _facts(
        self, sightings: Sightings, meaning: Ints, knowledge: _Known, least: float, new_only: bool
    ) -> Iterator[Fact]:
        names, documents = list(sightings.pairs), list(sightings.documents)
        for chunk in self._scored(sightings, meaning):
            bags, relations = np.nonzero(chunk.confidence[:, 1:] >= least)
            for bag, relation in zip(bags.tolist(), (relations + 1).tolist(), strict=True):
                head, tail = names[chunk.pairs[bag]]
                name = self.relations[relation]
                known = knowledge.has(head, name, tail)
                if (new_only and known) or not knowledge.allows(head, name, tail):
                    continue
                inside = np.arange(chunk.starts[bag], chunk.starts[bag + 1])
                best = inside[np.argsort(-chunk.alone[inside, relation], kind="stable")[:SHOWN]]
                support = []
                for place in best.tolist():
                    document, start, text, h, t = sightings.place(int(chunk.rows[place]))
                    support.append(Support(documents[document], start, text, h, t, float(chunk.alone[place, relation])))
                first = support[0]
                yield Fact(
                    head=head,
                    head_name=first.text[slice(*first.head)],
                    relation=name,
                    tail=tail,
                    tail_name=first.text[slice(*first.tail)],
                    confidence=float(chunk.confidence[bag, relation]),
                    known=known,
                    sentences=len(inside),
                    support=tuple(support),
                )


def load(folder: str | Path) -> RelationExtractor:
    """The model of a run: its folder, or the folder `model` in it."""
    path = Path(folder)
    return RelationExtractor(load_model(path / "model" if (path / "model").is_dir() else path))


def _documents(texts: Iterable[str | Document]) -> Iterator[Document]:
    for number, text in enumerate(texts, 1):
        yield text if isinstance(text, Document) else Document(f"text {number}", text)


def _touched(spot: Spot, begins: list[int], ends: list[int]) -> tuple[int, int]:
    """The tokens that the spot touches; none where the first is not before the last."""
    return bisect_right(ends, spot.start), bisect_left(begins, spot.end)


def _possible(kb: KB | None, head: Spot, tail: Spot) -> bool:
    if kb is None or not head.numbers or not tail.numbers:
        return True
    return any(kb.compatible(h, t) for h in head.numbers for t in tail.numbers)


@dataclass(frozen=True)
class _Known:
    """What the knowledge base says of a pair, by what stands for its entities."""

    kb: KB | None
    numbers: dict[str, tuple[int, ...]]

    def has(self, head: str, relation: str, tail: str) -> bool | None:
        if self.kb is None:
            return None
        found = (number for pair in self._pairs(head, tail) for number in self.kb.relations_between(*pair))
        return any(self.kb.relations[number] == relation for number in found)

    def allows(self, head: str, relation: str, tail: str) -> bool:
        """Whether the types of head and tail fit the relation, where the knowledge base knows all three."""
        if self.kb is None or relation not in self.kb.relations:
            return True
        number, pairs = self.kb.relations.index(relation), self._pairs(head, tail)
        return not pairs or any(self.kb.allows(number, *pair) for pair in pairs)

    def meanings(self, pairs: list[tuple[str, str]]) -> Ints:
        """For every pair, by its place, the place of the one it stands for: where a name is shared by several
        entities, the pair that is named without doubt elsewhere, if it is a single one.
        """
        place = {pair: number for number, pair in enumerate(pairs)}
        meaning = np.arange(len(pairs), dtype=np.int64)
        for number, (head, tail) in enumerate(pairs):
            if self.kb is None or max(len(self.numbers[head]), len(self.numbers[tail])) < 2:
                continue
            ids = self.kb.ids
            could_be = [(ids[h], ids[t]) for h, t in self._pairs(head, tail)]
            elsewhere = [place[pair] for pair in could_be if pair in place]
            if len(elsewhere) == 1:
                meaning[number] = elsewhere[0]
        return meaning

    def is_clear(self, fact: Fact) -> bool:
        return max(len(self.numbers[fact.head]), len(self.numbers[fact.tail])) < 2

    def _pairs(self, head: str, tail: str) -> list[tuple[int, int]]:
        return [(h, t) for h in self.numbers[head] for t in self.numbers[tail]]
