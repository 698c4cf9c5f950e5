"""The graph around an entity as places on a drawing: the entity on the left, its neighbours in a column on the right,
grouped by relation, and arcs between neighbours that have facts among themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from fedrel.explore.index import Row

MOST = 12  # neighbours; more are not readable
WIDTH = 400
LEFT, RIGHT, END = 112, 190, 364  # where the entity ends, and the neighbours begin and end; arcs lie beyond
_LINE, _LABEL, _GAP, _TOP = 38, 18, 10, 6  # heights: a neighbour, a relation, what is between relations, the margin
_ARC = 9  # how much further out each arc lies than the one before


@dataclass(frozen=True)
class Node:
    """A neighbour, the fact that joins it to the entity, and whether it is the object of that fact."""

    entity: str
    name: str
    fact: Row
    is_object: bool
    y: float  # of its middle


@dataclass(frozen=True)
class Group:
    """Neighbours by the same relation in the same direction."""

    relation: str
    outward: bool  # the entity is the subject
    nodes: tuple[Node, ...]
    y: float  # of the base line of its label


@dataclass(frozen=True)
class Arc:
    """A fact between two neighbours, as places on the drawing."""

    fact: Row
    begin: float
    end: float
    out: float  # how far it reaches to the right


@dataclass(frozen=True)
class Graph:
    """A drawing of WIDTH × `height`; `more` is how many further facts of the entity are not in it."""

    entity: str
    name: str
    groups: tuple[Group, ...]
    arcs: tuple[Arc, ...]
    height: float
    more: int

    @property
    def middle(self) -> float:
        """Where the entity is, from the top."""
        return self.height / 2


def drawn(entity: str, name: str, facts: Iterable[Row], total: int, arcs: Iterable[Row] = ()) -> Graph:
    """The graph of an entity with its facts, the most important first, of which there are `total`; `arcs` are facts
    among neighbours.
    """
    chosen: dict[tuple[str, str, bool], Row] = {}
    for fact in facts:
        outward = fact.head == entity
        if len(chosen) < MOST:
            chosen.setdefault((fact.tail if outward else fact.head, fact.relation, outward), fact)
    order = {kind: place for place, kind in enumerate(dict.fromkeys((it[1], it[2]) for it in chosen))}
    ranked = sorted(chosen, key=lambda it: order[it[1], it[2]])
    groups: list[Group] = []
    y: float = _TOP
    places: dict[str, float] = {}
    for (relation, outward), keys in groupby(ranked, key=lambda it: (it[1], it[2])):
        begin, nodes = y + _LABEL - 5, list[Node]()
        y += _LABEL
        for key in keys:
            fact = chosen[key]
            nodes.append(Node(key[0], fact.tail_name if outward else fact.head_name, fact, outward, y + _LINE / 2))
            places.setdefault(key[0], y + _LINE / 2)
            y += _LINE
        groups.append(Group(relation, outward, tuple(nodes), begin))
        y += _GAP
    joined = [it for it in arcs if entity not in (it.head, it.tail) and it.head in places and it.tail in places]
    bent = tuple(
        Arc(it, places[it.head], places[it.tail], END + _ARC * (1 + number % 3)) for number, it in enumerate(joined)
    )
    height = max(y - _GAP + _TOP, 2 * _TOP + _LINE)
    return Graph(entity, name, tuple(groups), bent, height, max(0, total - sum(len(it.nodes) for it in groups)))


def wrapped(name: str, wide: int, lines: int) -> list[str]:
    """A name on at most so many lines of about `wide` characters; what does not fit ends in "…"."""
    words, found = name.split(), [""]
    for word in words:
        if found[-1] and len(found[-1]) + 1 + len(word) > wide:
            found.append(word)
        else:
            found[-1] = f"{found[-1]} {word}".strip()
    cut = [line if len(line) <= wide else line[: wide - 1] + "…" for line in found[:lines]]
    if len(found) > lines:
        cut[-1] = cut[-1][: wide - 1].rstrip("…") + "…"
    return cut
