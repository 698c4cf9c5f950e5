"""A small invented world, written about with known mistakes: the data set that comes with the package.

Distant supervision labels a sentence with the fact that joins its two entities, whether or not the
sentence says so. Here every sentence is generated, so it is known which do (`Instance.expressed`).
This module decides on the facts, and which pair gets how many sentences of which kind; the words come
from world_phrases.py.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from random import Random
from typing import NamedTuple

from fedrel.corpus.types import NA, SPLITS, Instance
from fedrel.corpus.world_phrases import STRIDE, Relation, Writer, phrases
from fedrel.errors import UserError, suggest

SIZES = ("demo", "nyt10")

DEMO_RELATIONS = 14  # how many relations of world.toml a small world has
ALL_RELATIONS_FROM = 100_000  # training sentences from which on a world has all of them
SMALLEST, LARGEST = 500, 1_000_000  # training sentences one may ask for
LEAST_ENTITIES = 60  # of a type, in the smallest of worlds
LONGEST_BAG = 40  # sentences of one fact pair
NA_BAG = 1.3  # mean sentences of a pair without a fact, where the plan does not fix the total
DOUBLE = 0.05  # share of fact pairs that hold two relations
MISLEADING = 0.65  # share of the sentences not expressing their fact that mislead; the rest is neutral
NA_MISLEADING = 0.5  # the same share for pairs without a fact
NA_REVERSED = 0.5  # of those, where direction matters: share that states the fact the wrong way round


@dataclass(frozen=True)
class Plan:
    """How much one split holds."""

    facts: int
    pairs: int  # with and without a fact
    sentences: int = 0  # 0: as many as `evidence` and NA_BAG make

    @property
    def doubles(self) -> int:
        """Fact pairs that hold two relations."""
        return round(self.facts * DOUBLE / (1 + DOUBLE))

    @property
    def na_pairs(self) -> int:
        return self.pairs - self.facts + self.doubles


DEMO = {"train": Plan(1_000, 3_150), "dev": Plan(250, 1_238), "test": Plan(500, 2_976)}
NYT10 = {  # the counts of the New York Times corpus of 2010, as usually divided
    "train": Plan(16_444, 251_928, 466_876),
    "dev": Plan(1_808, 28_077, 55_167),
    "test": Plan(1_950, 96_678, 172_448),
}


@dataclass(frozen=True, slots=True)
class Entity:
    """An entry of the knowledge base: the canonical name first, then the aliases."""

    id: str
    type: str
    names: tuple[str, ...]


class Pair(NamedTuple):
    """Two entities (by number) and what holds of them: one or two relations, or none and what it is like."""

    head: int
    tail: int
    like: tuple[Relation, ...]
    related: bool


@dataclass(frozen=True)
class World:
    """The data set of given parameters: the same parameters, the same sentences in the same order."""

    size: str | int = "demo"
    seed: int = 1
    noise: float = 0.6  # share of a fact's sentences that do not express it
    evidence: float = 7.0  # mean sentences per fact

    def __post_init__(self) -> None:
        if isinstance(self.size, str) and self.size not in SIZES:
            raise UserError(f'no world of size "{self.size}"{suggest(self.size, SIZES)}, or a number of sentences')
        if isinstance(self.size, int) and not SMALLEST <= self.size <= LARGEST:
            raise UserError(f"a world has {SMALLEST:,} to {LARGEST:,} training sentences, not {self.size:,}")
        if not 0 <= self.noise <= 1:
            raise UserError(f"noise is a share from 0 to 1, not {self.noise}")
        most = 12 if self.size == "nyt10" else 30  # there, more would leave too few for pairs without a fact
        if not 1 <= self.evidence <= most:
            raise UserError(f"evidence is 1 to {most} sentences per fact here, not {self.evidence}")

    def plan(self, split: str) -> Plan:
        """The counts of a split; for a number of training sentences, those of the demo to scale."""
        if split not in SPLITS:
            raise UserError(f'no split "{split}"{suggest(split, SPLITS)}')
        if self.size == "nyt10":
            return NYT10[split]
        plan = DEMO[split]
        if isinstance(self.size, int):
            train = DEMO["train"]
            scale = self.size / (train.facts * self.evidence + train.na_pairs * NA_BAG)
            exactly = self.size if split == "train" else 0
            plan = Plan(int(plan.facts * scale), int(plan.pairs * scale), exactly)
        if not plan.sentences:
            plan = replace(plan, sentences=round(plan.facts * self.evidence) + round(plan.na_pairs * NA_BAG))
        return plan

    def relations(self) -> list[str]:
        """The schema: NA, then the relations in the order of world.toml."""
        return [NA, *(relation.name for relation in self._schema)]

    def entities(self) -> Iterator[Entity]:
        """The knowledge base: who and what there is, and by which names."""
        for type, numbers in self._numbers.items():
            kind = phrases().kinds[type]
            for number in numbers:
                names = tuple(kind.name(number, form) for form in range(len(kind.names)))
                yield Entity(f"Q{number}", type, names)

    def triples(self, *splits: str) -> Iterator[tuple[str, str, str]]:
        """The knowledge base: (head, relation, tail) of these splits, or of all together."""
        for pair in (pair for split in splits or SPLITS for pair in self._facts[split]):
            for relation in pair.like:
                yield f"Q{pair.head}", relation.name, f"Q{pair.tail}"

    def instances(self, split: str) -> Iterator[Instance]:
        """The sentences, pair by pair, pairs with and without a fact mixed."""
        plan, rng = self.plan(split), Random(f"{self.seed}/{split}/sentences")
        writer = Writer(rng, self._schema, self._numbers)
        facts = zip(self._facts[split], self._bag_sizes(split), strict=True)
        unrelated = self._unrelated(split)
        facts_left, na_left = plan.facts - plan.doubles, plan.na_pairs
        na_sentences_left = plan.sentences - round(plan.facts * self.evidence)
        while facts_left + na_left:
            if rng.randrange(facts_left + na_left) < facts_left:
                pair, size = next(facts)
                facts_left -= 1
            else:
                pair = next(unrelated)
                size, one_more = divmod(na_sentences_left, na_left)  # as many pairs get one more: the sum is exact
                size += rng.randrange(na_left) < one_more
                na_left -= 1
                na_sentences_left -= size
            for _ in range(size):
                yield from self._sentence(writer, pair)

    def _sentence(self, writer: Writer, pair: Pair) -> Iterator[Instance]:
        """One sentence, once for each relation of its pair; it is about one of them."""
        rng = writer.rng
        about = rng.choice(pair.like)
        true = pair.related and rng.random() >= self.noise
        reverse = False
        if true:
            templates = about.true
        elif rng.random() >= (MISLEADING if pair.related else NA_MISLEADING):
            templates = phrases().neutral[about.head]
        elif about.directed and not pair.related and rng.random() < NA_REVERSED:
            templates, reverse = about.true, True
        else:
            templates = about.misleading
        template = rng.choice(rng.choice(templates))
        tokens, head, tail = writer.write(template, about, pair.head, pair.tail, reverse=reverse)
        source = rng.choice(phrases().sources)
        if not pair.related:
            yield Instance(tokens, head, tail, NA, source, False)
            return
        for relation in pair.like:
            yield Instance(tokens, head, tail, relation.name, source, true and relation is about)

    @cached_property
    def _schema(self) -> tuple[Relation, ...]:
        large = self.size >= ALL_RELATIONS_FROM if isinstance(self.size, int) else self.size == "nyt10"
        return phrases().relations[: None if large else DEMO_RELATIONS]

    @cached_property
    def _numbers(self) -> dict[str, range]:
        """The entities of each type, as a range of numbers."""
        facts = sum(self.plan(split).facts for split in SPLITS)
        used = {type for relation in self._schema for type in (relation.head, relation.tail)}
        ranges, start = {}, Random(f"{self.seed}/entities").randrange(10_000, 90_000)
        for type, kind in phrases().kinds.items():
            if type in used:
                ranges[type] = range(start, start + max(LEAST_ENTITIES, round(kind.share * facts)))
                start = ranges[type].stop
        return ranges

    @cached_property
    def _facts(self) -> dict[str, list[Pair]]:
        """The knowledge base by split; no pair occurs twice, in either direction."""
        rng, schema = Random(f"{self.seed}/facts"), {relation.name: relation for relation in self._schema}
        weights = [relation.weight for relation in self._schema]
        doubling = [relation for relation in self._schema if any(name in schema for name in relation.also)]
        facts: dict[str, list[Pair]] = {}
        taken: set[object] = set()  # pairs, and (relation, side, entity) where there may be but one
        for split in SPLITS:
            plan = self.plan(split)
            wanted: list[tuple[Relation, ...]] = []
            for _ in range(plan.doubles):
                relation = rng.choice(doubling)
                other = rng.choice([schema[name] for name in relation.also if name in schema])
                wanted.append((relation, other))
            singles = plan.facts - 2 * plan.doubles
            each_once = self._schema[:singles]
            wanted += [(relation,) for relation in each_once]
            wanted += [(it,) for it in rng.choices(self._schema, weights, k=singles - len(each_once))]
            rng.shuffle(wanted)
            facts[split] = [self._new_pair(like, taken, rng) for like in wanted]
        return facts

    def _new_pair(self, like: tuple[Relation, ...], taken: set[object], rng: Random) -> Pair:
        """Two entities that may stand in these relations; notes in `taken` what is thereby used up."""
        heads, tails = self._numbers[like[0].head], self._numbers[like[0].tail]
        while True:
            head, tail = rng.choice(heads), rng.choice(tails)
            single = [
                (it.name, "" if it.symmetric else side, number)
                for it in like
                for side, number in (("h", head), ("t", tail))
                if side in it.once
            ]
            if head != tail and taken.isdisjoint([(head, tail), *single]):
                taken.update([(head, tail), (tail, head), *single])
                return Pair(head, tail, like, related=True)

    @cached_property
    def _taken(self) -> frozenset[tuple[int, int]]:
        """The pairs of the knowledge base, in both directions."""
        pairs = [(pair.head, pair.tail) for split in SPLITS for pair in self._facts[split]]
        return frozenset(pairs) | frozenset((tail, head) for head, tail in pairs)

    def _unrelated(self, split: str) -> Iterator[Pair]:
        """Pairs without a fact, without end: of the types, and as frequent, as if they had one.

        For two types, all pairs are gone through in an order that looks random, each split taking every
        third: so none comes twice, in one split or in two, and nothing need be remembered.
        """
        rng = Random(f"{self.seed}/{split}/unrelated")
        weights = [relation.weight for relation in self._schema]
        steps = {(it.head, it.tail): count(SPLITS.index(split), len(SPLITS)) for it in self._schema}
        while True:
            like = rng.choices(self._schema, weights)[0]
            heads, tails = self._numbers[like.head], self._numbers[like.tail]
            for step in steps[like.head, like.tail]:
                at_head, at_tail = divmod(step * STRIDE % (len(heads) * len(tails)), len(tails))
                head, tail = heads[at_head], tails[at_tail]
                if (head, tail) in self._taken or (heads == tails and head >= tail):
                    continue
                if heads == tails and rng.random() < 0.5:
                    head, tail = tail, head
                break
            yield Pair(head, tail, (like,), related=False)

    def _bag_sizes(self, split: str) -> list[int]:
        """Sentences of each fact pair: geometric, then nudged until the mean per fact is `evidence`."""
        rng, plan = Random(f"{self.seed}/{split}/bags"), self.plan(split)
        relations = [len(pair.like) for pair in self._facts[split]]
        singles = [at for at, n in enumerate(relations) if n == 1]
        sizes = [1] * len(relations)
        if self.evidence > 1:
            stop = math.log(1 - 1 / self.evidence)
            sizes = [min(1 + int(math.log(1 - rng.random()) / stop), LONGEST_BAG) for _ in relations]
        missing = round(plan.facts * self.evidence)
        missing -= sum(size * n for size, n in zip(sizes, relations, strict=True))
        while missing:
            at = rng.choice(singles)
            nudge = 1 if missing > 0 else -1
            if 1 <= sizes[at] + nudge <= LONGEST_BAG:
                sizes[at] += nudge
                missing -= nudge
        return sizes
