"""Distant supervision: the pairs of entities in a sentence, labelled with what a knowledge base says of them.

A pair that the knowledge base knows gets every relation it has there, whether or not the sentence says so. Another
pair is NA, if some relation could hold between entities of such types. A pair is always in the same split, whichever
of the two comes first.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fedrel.alignment.kb import KB
from fedrel.alignment.mentions import Spot, SpottedSentence, Spotter, ordered_pairs
from fedrel.corpus import NA, SPLITS, Document


@dataclass(frozen=True)
class Rules:
    """How pairs without a relation are thinned out, and how pairs are divided among the splits."""

    na_per_sentence: int = 3
    na_rate: float = 1.0  # share of the pairs without a relation that is kept
    dev: float = 0.1
    test: float = 0.1
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Labelled:
    """One sentence with one pair and its label."""

    sentence: SpottedSentence
    head: Spot
    head_id: str
    tail: Spot
    tail_id: str
    relation: str

    @property
    def pair(self) -> str:
        """The same for both directions."""
        return "\t".join(sorted((self.head_id, self.tail_id)))

    def line(self) -> str:
        """OpenNRE's JSON, with the places of both entities in characters, and where the sentence comes from."""
        text = self.sentence.text
        row: dict[str, object] = {"text": text}
        for side, id_, spot in (("h", self.head_id, self.head), ("t", self.tail_id, self.tail)):
            row[side] = {"id": id_, "name": text[spot.start : spot.end], "pos": [spot.start, spot.end]}
        row |= {"relation": self.relation, "source": self.sentence.document, "start": self.sentence.start}
        return json.dumps(row, ensure_ascii=False) + "\n"


@dataclass
class Batch:
    """What came of some documents: lines by split, and what was counted."""

    lines: dict[str, list[str]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    counts: Counter[str] = field(default_factory=Counter)
    sentences_of: Counter[str] = field(default_factory=Counter)  # by relation
    facts: set[tuple[str, str, str]] = field(default_factory=set)
    pairs: set[str] = field(default_factory=set)


class Labeller:
    def __init__(self, kb: KB, rules: Rules, language: str = "en") -> None:
        self.kb, self.rules, self.language = kb, rules, language
        self.spotter = Spotter(kb, language)

    def label(self, documents: Iterable[Document]) -> Batch:
        batch = Batch()
        self.spotter.counts = batch.counts
        for sentence in self.spotter.sentences(documents):
            any_pair = False
            for it in self._labels(sentence, batch.counts):
                any_pair = True
                batch.lines[split_of(it.pair, self.rules)].append(it.line())
                batch.counts["lines"] += 1
                batch.sentences_of[it.relation] += 1
                batch.pairs.add(it.pair)
                if it.relation != NA:
                    batch.facts.add((it.head_id, it.relation, it.tail_id))
            batch.counts["sentences with a pair"] += any_pair
        return batch

    def _labels(self, sentence: SpottedSentence, counts: Counter[str]) -> Iterator[Labelled]:
        unrelated = []
        for head, tail in ordered_pairs(sentence.spots):
            known = [
                Labelled(sentence, head, self.kb.ids[h], tail, self.kb.ids[t], self.kb.relations[relation])
                for h in head.numbers
                for t in tail.numbers
                for relation in self.kb.relations_between(h, t)
            ]
            yield from known
            if not known and any(self.kb.compatible(h, t) for h in head.numbers for t in tail.numbers):
                unrelated.append(Labelled(sentence, head, head.key, tail, tail.key, NA))
        kept = [it for it in unrelated if _share(f"{it.pair}\tNA", self.rules.seed) < self.rules.na_rate]
        counts["NA pairs left out by the rate"] += len(unrelated) - len(kept)
        # Which ones the cap leaves does not depend on their order in the sentence.
        lot = sorted(kept, key=lambda it: _share(f"{sentence.text}\t{it.head_id}\t{it.tail_id}", self.rules.seed))
        chosen = {id(it) for it in lot[: self.rules.na_per_sentence]}
        counts["NA pairs left out by the cap"] += len(kept) - len(chosen)
        yield from (it for it in kept if id(it) in chosen)


def split_of(pair: str, rules: Rules) -> str:
    share = _share(pair, rules.seed)
    if share < rules.test:
        return "test"
    return "dev" if share < rules.test + rules.dev else "train"


def _share(text: str, seed: int) -> float:
    """A number from 0 to 1 that depends on the text alone, on every machine."""
    return zlib.crc32(f"{seed}\t{text}".encode()) / 2**32
