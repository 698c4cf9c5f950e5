"""The language of the invented world: reads world.toml, makes names, writes sentences."""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from itertools import product
from random import Random
from typing import Any

from fedrel.corpus.types import Mention

# A prime that shares no factor with any count used here: n * STRIDE % count, for n = 0, 1, 2 ...,
# visits every number below count once, in an order that looks random.
STRIDE = 2**31 - 1

LENGTHS = range(10, 36)  # tokens of a sentence
OPENER, CLOSER, SIDE_CLAUSE, APPOSITIVE = 0.3, 0.3, 0.15, 0.35  # how often one is added (where it fits)
SIDE_CLAUSE_FIRST = 0.3  # how often the side clause comes first
APPOSITIVE_BEFORE = {"was", "is", "has", "had", "were", "and", "in", "on", "for", "when", "with", "works"}

Tokens = tuple[str, ...]
Template = tuple[Tokens, ...]  # the readings of one template: its choices spelled out
Cast = Mapping[str, tuple[str, int]]  # type and number of the entity in each slot of a template


@dataclass(frozen=True, eq=False)
class Kind:
    """A type of entity. Names are all combinations of one word from each pool of `parts`."""

    share: float
    parts: tuple[Tokens, ...]
    names: Tokens
    appositives: tuple[Template, ...]

    @cached_property
    def combinations(self) -> int:
        return math.prod(len(pool) for pool in self.parts)

    def name(self, number: int, form: int) -> str:
        """One form of an entity's name; the first form repeats only after `combinations` entities."""
        rest = number * STRIDE % self.combinations
        words = []
        for pool in self.parts:
            rest, at = divmod(rest, len(pool))
            words.append(pool[at])
        return self.names[form].format(*words)


@dataclass(frozen=True, eq=False)
class Relation:
    """A relation of the schema and its templates; world.toml explains the fields."""

    name: str
    head: str
    tail: str
    true: tuple[Template, ...]
    misleading: tuple[Template, ...]
    weight: float = 1.0
    once: str = ""
    symmetric: bool = False
    also: Sequence[str] = ()

    @property
    def directed(self) -> bool:
        """Whether a true sentence turns false when the two entities change places."""
        return self.head == self.tail and not self.symmetric


@dataclass(frozen=True, eq=False)
class Phrases:
    """world.toml with its templates tokenised."""

    kinds: dict[str, Kind]
    relations: tuple[Relation, ...]
    neutral: dict[str, tuple[Template, ...]]  # by type of the head
    around: dict[str, tuple[Template, ...]]
    fill: dict[str, Tokens]
    sources: Tokens


def templates(texts: Sequence[str]) -> tuple[Template, ...]:
    """Tokenised, and every `[a|b]` replaced by each of its choices."""
    return tuple(
        tuple(
            tuple(" ".join(reading).split())
            for reading in product(*(it.split("|") for it in re.split(r"[\[\]]", text)))
        )
        for text in texts
    )


@cache
def phrases() -> Phrases:
    raw: dict[str, Any] = tomllib.loads(resources.files("fedrel.corpus").joinpath("world.toml").read_text("utf-8"))
    kinds = {
        name: Kind(
            share=kind["share"],
            parts=tuple(tuple(pool.split()) for pool in kind["parts"]),
            names=tuple(kind["names"]),
            appositives=templates(kind["appositives"]),
        )
        for name, kind in raw["types"].items()
    }
    relations = tuple(
        Relation(**it | {"true": templates(it["true"]), "misleading": templates(it["misleading"])})
        for it in raw["relations"]
    )
    anywhere = raw["neutral"]["any"]
    return Phrases(
        kinds=kinds,
        relations=relations,
        neutral={kind: templates(anywhere + raw["neutral"].get(kind, [])) for kind in kinds},
        around={place: templates(texts) for place, texts in raw["around"].items()},
        fill={f"{{{slot}}}": tuple(words.split()) for slot, words in raw["fill"].items()},
        sources=tuple(name.replace("_", " ") for name in raw["sources"].split()),
    )


class Writer:
    """Turns templates into sentences about given entities."""

    def __init__(self, rng: Random, schema: Sequence[Relation], numbers: Mapping[str, range]) -> None:
        self.rng = rng
        self._phrases = phrases()
        self._numbers = numbers
        self._sisters = {  # relations between the same types
            relation: [it for it in schema if (it.head, it.tail) == (relation.head, relation.tail)]
            for relation in schema
        }

    def write(
        self, template: Tokens, relation: Relation, head: int, tail: int, *, reverse: bool = False
    ) -> tuple[Tokens, Mention, Mention]:
        """A sentence on the pair and the two mentions; `reverse` puts the tail where the head belongs."""
        cast = self._cast(relation, head, tail)
        slots = ("{t}", "{h}") if reverse else ("{h}", "{t}")
        cast[slots[0]], cast[slots[1]] = (relation.head, head), (relation.tail, tail)
        core, spans = self._fill(template, cast, appositives=True)
        if len(core) + 1 >= LENGTHS.stop:
            core, spans = self._fill(template, cast)
        before, after = self._surroundings(relation, [number for _, number in cast.values()], len(core))
        tokens = [*before, *core, *after, "."]
        tokens[0] = tokens[0][0].upper() + tokens[0][1:]
        mentions = []
        for slot, number in zip(slots, (head, tail), strict=True):
            start, end = spans[slot]
            mentions.append(Mention(f"Q{number}", len(before) + start, len(before) + end))
        return tuple(tokens), mentions[0], mentions[1]

    def _surroundings(self, relation: Relation, mentioned: Sequence[int], length: int) -> tuple[list[str], list[str]]:
        """What stands before and after the core of a sentence: at random, but the sentence keeps to LENGTHS.

        There may be a clause that states a relation of the same types, of two entities not mentioned
        in the core, then an opener and a closer.
        """
        rng, around = self.rng, self._phrases.around
        before: list[str] = []
        after: list[str] = []
        room = LENGTHS.stop - 2 - length  # the full stop takes one
        if rng.random() < SIDE_CLAUSE:
            sister = rng.choice(self._sisters[relation])
            head, tail = self._others(relation, mentioned)
            others = self._cast(relation, head, tail, mentioned)
            clause, _ = self._fill(rng.choice(rng.choice(sister.true)), others)
            if rng.random() < SIDE_CLAUSE_FIRST:
                before = [*self._phrase(around["before"]), *clause, ","]
            else:
                after = [*self._phrase(around["after"]), *clause]
            if len(before) + len(after) > room:
                before, after = [], []
        room -= len(before) + len(after)
        short = LENGTHS.stop - 1 - room < LENGTHS.start
        if short or rng.random() < OPENER:
            opener = self._phrase(around["openers"])
            if len(opener) <= room:
                before, room = opener + before, room - len(opener)
        if short or rng.random() < CLOSER:
            closer = self._phrase(around["closers"])
            if len(closer) <= room:
                after += closer
        return before, after

    def _cast(
        self, relation: Relation, head: int, tail: int, mentioned: Sequence[int] = ()
    ) -> dict[str, tuple[str, int]]:
        """The entities for the slots of a template, {x} and {y} not mentioned elsewhere."""
        x, y = self._others(relation, [head, tail, *mentioned])
        return {
            "{h}": (relation.head, head),
            "{t}": (relation.tail, tail),
            "{x}": (relation.head, x),
            "{y}": (relation.tail, y),
        }

    def _others(self, relation: Relation, mentioned: Sequence[int]) -> list[int]:
        """An entity of the head's type and one of the tail's, neither of them mentioned."""
        chosen: list[int] = []
        for type in (relation.head, relation.tail):
            number = self.rng.choice(self._numbers[type])
            while number in mentioned or number in chosen:
                number = self.rng.choice(self._numbers[type])
            chosen.append(number)
        return chosen

    def _phrase(self, templates: Sequence[Template]) -> list[str]:
        return self._fill(self.rng.choice(self.rng.choice(templates)), {})[0]

    def _fill(
        self, template: Tokens, cast: Cast, *, appositives: bool = False
    ) -> tuple[list[str], dict[str, tuple[int, int]]]:
        """The template with its slots filled, and where each entity stands."""
        rng, fill = self.rng, self._phrases.fill
        tokens: list[str] = []
        spans: dict[str, tuple[int, int]] = {}
        for at, token in enumerate(template):
            if token in cast:
                type, number = cast[token]
                kind = self._phrases.kinds[type]
                start = len(tokens)
                tokens += kind.name(number, int(len(kind.names) * rng.random() ** 2)).split()  # fuller forms first
                spans[token] = (start, len(tokens))
                followed_by = template[at + 1] if at + 1 < len(template) else ""
                if appositives and followed_by in APPOSITIVE_BEFORE and rng.random() < APPOSITIVE:
                    tokens += self._phrase(kind.appositives)
            elif token[0] == "{":
                slot, rest = token[: token.index("}") + 1], token[token.index("}") + 1 :]  # {number},000
                tokens.append(rng.choice(fill[slot]) + rest)
            else:
                tokens.append(token)
        return tokens, spans
