"""Distant supervision: labels the entity pairs of a sentence with what a knowledge base says about them.

A pair in the knowledge base gets every relation it has there, whether or not the sentence says so. Any other pair gets
NA, provided that some relation can hold between entities of its types. A pair falls into one split, in either
direction, and so does a sentence; rows for which both cannot be had are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from json.encoder import encode_basestring as quoted
from typing import NamedTuple

from fedrel.alignment.kb import KB
from fedrel.alignment.mentions import Spot, SpottedSentence, Spotter, pairs
from fedrel.corpus import NA, SPLITS, Document, Skipped
from fedrel.corpus.splitting import Draft
from fedrel.errors import UserError

# Why a pair without a relation is left out.
RATE = "pairs without a relation, because of --na-rate"
CAP = "pairs without a relation, because of --na-per-sentence"
TYPES = "pairs of entities whose types no relation joins"
TURNED = "pairs with a symmetric relation that is listed in the other direction"
UNLINKED = "pairs with an entity that is not in the knowledge base"
APART = "lines whose sentence and pair are in different splits"
LEFT_OUT = (RATE, CAP, TYPES, TURNED, UNLINKED, APART)

_Fact = tuple[int, int, int]  # head, relation, tail by their numbers


@dataclass(frozen=True)
class Rules:
    """How pairs without a relation are sampled, and how pairs are divided among the splits.

    Raises UserError for a value out of range.
    """

    na_per_sentence: int = 3
    na_rate: float = 1.0  # share of the pairs without a relation to keep
    dev: float = 0.1  # share of the pairs
    test: float = 0.1
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("na_rate", "dev", "test"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"--{name.replace('_', '-')} {getattr(self, name)} is not a share from 0 to 1")
        if self.dev + self.test >= 1:
            raise UserError(f"--dev {self.dev} and --test {self.test} leave nothing to train on")
        if self.na_per_sentence < 0:
            raise UserError(f"--na-per-sentence {self.na_per_sentence} is negative; give 0 or more")

    @property
    def splits(self) -> list[str]:
        """The splits that get a share of the pairs."""
        return [split for split in SPLITS if split == "train" or getattr(self, split)]


class Labelled(NamedTuple):
    """One sentence with one entity pair and its label."""

    sentence: SpottedSentence
    head: Spot
    head_id: str
    tail: Spot
    tail_id: str
    relation: str

    @property
    def pair(self) -> str:
        """Both ids, sorted: a key that is the same for both directions."""
        return "\t".join(sorted((self.head_id, self.tail_id)))

    def line(self) -> str:
        """A line of OpenNRE's JSON format, with character offsets, the document, the sentence's offset in it, and its
        page where there are pages.
        """
        document, start, text, _, number = self.sentence
        page = "" if number is None else f', "page": {number}'
        h, t = (
            f'{{"id": {quoted(id_)}, "name": {quoted(text[spot.start : spot.end])}, "pos": [{spot.start}, {spot.end}]}}'
            for id_, spot in ((self.head_id, self.head), (self.tail_id, self.tail))
        )
        return (  # formatted by hand, since there are many lines: json.dumps takes twice as long
            f'{{"text": {quoted(text)}, "h": {h}, "t": {t}, "relation": {quoted(self.relation)}, '
            f'"source": {quoted(document)}, "start": {start}{page}}}\n'
        )


@dataclass
class Batch:
    """The labelled lines of some documents with what decides on their splits, and statistics."""

    lines: list[str] = field(default_factory=list)
    draft: Draft = field(default_factory=Draft)  # of the lines, in numbers of SPLITS
    counts: Counter[str] = field(default_factory=Counter)
    sentences_of: Counter[str] = field(default_factory=Counter)  # by relation
    facts: set[tuple[str, str, str]] = field(default_factory=set)
    pairs: set[str] = field(default_factory=set)
    skipped: Skipped = field(default_factory=Skipped)

    def count(self, other: Batch) -> None:
        """Adds the draft and the statistics of another batch, but not its lines, which are too many to keep."""
        self.draft.extend(other.draft)
        self.counts += other.counts
        self.sentences_of += other.sentences_of
        self.facts |= other.facts
        self.pairs |= other.pairs
        self.skipped.add(other.skipped)


class Labeller:
    """Labels documents by distant supervision, with one knowledge base and one set of rules."""

    def __init__(self, kb: KB, rules: Rules, language: str = "en") -> None:
        self.kb, self.rules = kb, rules
        self.spotter = Spotter(kb, language)
        self._symmetric = kb.symmetric

    def label(self, documents: Iterable[Document]) -> Batch:
        """The labelled entity pairs of some documents. Raises UserError for a document that cannot be searched."""
        batch = Batch()
        self.spotter.counts, self.spotter.skipped = batch.counts, batch.skipped
        for sentence in self.spotter.sentences(documents):
            labelled = self._labels(sentence, batch.counts)
            batch.counts["sentences with a pair"] += bool(labelled)
            key = _number(sentence.text)
            for it in labelled:
                pair = it.pair
                batch.lines.append(it.line())
                drawn = SPLITS.index(split_of(pair, self.rules))
                batch.draft.add(key, _number(pair), is_fact=it.relation != NA, drawn=drawn)
                batch.sentences_of[it.relation] += 1
                batch.pairs.add(pair)
                if it.relation != NA:
                    batch.facts.add((it.head_id, it.relation, it.tail_id))
        return batch

    def _labels(self, sentence: SpottedSentence, counts: Counter[str]) -> list[Labelled]:
        ids, relations = self.kb.ids, self.kb.relations
        related: dict[_Fact, Labelled] = {}
        unrelated = []
        for one, other in pairs(sentence.spots):
            forth, back = self._facts(one, other), self._facts(other, one)
            for head, tail, facts, turned in ((one, other, forth, back), (other, one, back, forth)):
                for fact in facts:
                    # Each fact once, even if the sentence has both an ambiguous and a clear name of its entity.
                    h, relation, t = fact
                    related.setdefault(fact, Labelled(sentence, head, ids[h], tail, ids[t], relations[relation]))
                if not facts:
                    why_not = self._why_not_na(head, tail, turned)
                    if why_not:
                        counts[why_not] += 1
                    else:
                        unrelated.append(Labelled(sentence, head, head.key, tail, tail.key, NA))
        return [*related.values(), *self._thinned_out(unrelated, counts)]

    def _facts(self, head: Spot, tail: Spot) -> list[_Fact]:
        between = self.kb.relations_between
        return [(h, relation, t) for h in head.numbers for t in tail.numbers for relation in between(h, t)]

    def _why_not_na(self, head: Spot, tail: Spot, turned: list[_Fact]) -> str:
        if turned and any(relation in self._symmetric for _, relation, _ in turned):
            return TURNED
        if not (head.numbers and tail.numbers):
            return UNLINKED
        compatible = self.kb.compatible
        return "" if any(compatible(h, t) for h in head.numbers for t in tail.numbers) else TYPES

    def _thinned_out(self, unrelated: list[Labelled], counts: Counter[str]) -> list[Labelled]:
        rate, most, seed = self.rules.na_rate, self.rules.na_per_sentence, self.rules.seed
        kept = unrelated if rate == 1 else [it for it in unrelated if _share(f"{it.pair}\tNA", seed) < rate]
        counts[RATE] += len(unrelated) - len(kept)
        if len(kept) <= most:
            return kept
        counts[CAP] += len(kept) - most
        # By hash, so that the choice does not depend on their order in the sentence.
        hashes = [_share(f"{it.sentence.text}\t{it.head_id}\t{it.tail_id}", seed) for it in kept]
        chosen = sorted(range(len(kept)), key=hashes.__getitem__)[:most]
        return [kept[place] for place in sorted(chosen)]


def split_of(pair: str, rules: Rules) -> str:
    """ "train", "dev" or "test", as it is drawn for a pair (`Labelled.pair`) from its hash alone."""
    share = _share(pair, rules.seed)
    if share < rules.test:
        return "test"
    return "dev" if share < rules.test + rules.dev else "train"


def _number(text: str) -> int:
    """A hash of 64 bits, signed, the same in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True)


def _share(text: str, seed: int) -> float:
    """A hash in [0, 1) of text and seed, the same on every machine; the hashes of two seeds are independent. (A CRC
    would not do: for texts of one length, those of two seeds always differ by the same bits.)
    """
    return int.from_bytes(blake2b(f"{seed}\t{text}".encode(), digest_size=8).digest()) / 2**64
