"""What a knowledge base says of facts: that it has them, that they cannot be, or that it has something else instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from fedrel.alignment.kb import KB
from fedrel.extraction.facts import Entity, Fact

Numbers = tuple[int, ...]  # of the entities that a name can mean; several if it is ambiguous, none if it is unknown


@dataclass(frozen=True)
class Knowledge:
    """A knowledge base asked about relations by their names, and about entities by the numbers that a name can mean."""

    kb: KB

    def has(self, heads: Numbers, relation: str, tails: Numbers) -> bool:
        """Whether the knowledge base has the fact for any of these; of a symmetric relation, in either direction."""
        number, pairs = self._relations.get(relation), list(product(heads, tails))
        if number in self.kb.symmetric:
            pairs += product(tails, heads)
        return any(number in self.kb.relations_between(*pair) for pair in pairs)

    def allows(self, heads: Numbers, relation: str, tails: Numbers) -> bool:
        """Whether the relation can hold between the types of head and tail; True if the knowledge base cannot tell."""
        if relation not in self._relations:
            return True
        number, pairs = self._relations[relation], list(product(heads, tails))
        return not pairs or any(self.kb.allows(number, *pair) for pair in pairs)

    def instead(self, heads: Numbers, relation: str, tails: Numbers) -> tuple[Entity, ...]:
        """The objects that the knowledge base has in the place of the tail, if that contradicts the fact: the relation
        is functional, and the knowledge base has other objects of the head but not this one. Empty: no contradiction,
        or it is not clear whom a name means.
        """
        number = self._relations.get(relation)
        if number not in self.kb.functional or len(heads) != 1 or len(tails) > 1 or self.has(heads, relation, tails):
            return ()
        return tuple((self.kb.ids[it], self.kb.name(it)) for it in self.kb.objects(number, heads[0]))

    def told(self, fact: Fact) -> Fact:
        """The fact with what this knowledge base says of it, whatever was known of it before."""
        heads, tails = (tuple(self._numbers(it)) for it in (fact.head, fact.tail))
        return replace(
            fact,
            head_name=self.kb.name(heads[0]) if len(heads) == 1 else fact.head_name,
            tail_name=self.kb.name(tails[0]) if len(tails) == 1 else fact.tail_name,
            known=self.has(heads, fact.relation, tails),
            instead=self.instead(heads, fact.relation, tails),
        )

    def has_ids(self, pair: tuple[str, str], relation: str) -> bool:
        """`has`, by the ids of head and tail."""
        return self.has(*self._of_ids(pair, relation))

    def allows_ids(self, pair: tuple[str, str], relation: str) -> bool:
        """`allows`, by the ids of head and tail."""
        return self.allows(*self._of_ids(pair, relation))

    def _of_ids(self, pair: tuple[str, str], relation: str) -> tuple[Numbers, str, Numbers]:
        heads, tails = (tuple(self._numbers(it)) for it in pair)
        return heads, relation, tails

    def _numbers(self, entity: str) -> Iterator[int]:
        """The entities of an id, or of several that are joined by `|` because a name is ambiguous."""
        for id_ in [entity] if entity in self.kb.numbers else entity.split("|"):
            if id_ in self.kb.numbers:
                yield self.kb.numbers[id_]

    @cached_property
    def _relations(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.kb.relations)}
