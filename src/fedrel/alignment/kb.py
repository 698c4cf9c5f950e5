"""A knowledge base in memory: entities with their types and names, and the relations between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrel.alignment import ntriples, tables
from fedrel.alignment.draft import DUPLICATE, Draft
from fedrel.alignment.problems import Problems, quoted
from fedrel.alignment.string_table import Categorical, StringIndex, Strings
from fedrel.errors import UserError

AMBIGUOUS = "ambiguous name"
LEAST_SHARE = 0.01  # of a relation's triples: rarer combinations of types are taken for mistakes
LEAST_FUNCTIONAL = 0.95  # of the subjects of a functional relation have a single object
LEAST_SUBJECTS = 20  # of a relation; of fewer, nothing can be said
MOST_COMBINATIONS = 2**63 - 1  # of a relation and two types: each must fit into 64 bits


class KB:
    """Entities, types and relations are numbered in the order of the files. A million entities and ten million triples
    take 250 MB.
    """

    ids: Sequence[str]
    types: Sequence[str]  # by entity; "" if the files give none
    numbers: Mapping[str, int]  # of the entities, by id
    relations: list[str]
    problems: Problems

    def __init__(self, draft: Draft) -> None:
        ids = Strings(draft.numbers)
        self.ids, self.numbers = ids, StringIndex(ids)
        self.types = Categorical(list(draft.type_numbers), draft.type_of)
        self.relations = list(draft.relations)
        self.problems = draft.problems
        self._type_of = draft.type_of
        self._names, self._name_owners = draft.names, draft.name_owners
        _count_ambiguous_names(draft, ids)
        self._pairs, self._relation_of = _distinct_triples(draft)
        constrained = {relation for relation, _, _ in draft.constraints}
        inferred = _frequent_types(self._pairs, self._relation_of, draft)
        self._allowed = draft.constraints | {it for it in inferred if it[0] not in constrained}
        self._compatible = {(head, tail) for _, head, tail in self._allowed}

    @property
    def triples(self) -> int:
        """The number of distinct triples."""
        return len(self._pairs)

    def names(self) -> Iterator[tuple[str, int]]:
        """(name, entity number) of every name."""
        return zip(self._names, self._name_owners, strict=True)

    def name(self, entity: int) -> str:
        """The name of an entity that its files give first; its id if they give none."""
        place = int(self._first_names[entity])
        return self._names[place] if place >= 0 else self.ids[entity]

    def relations_between(self, head: int, tail: int) -> list[int]:
        """The relations that hold from head to tail, ascending."""
        pair = np.int64(head << 32 | tail)
        first = self._pairs.searchsorted(pair)
        if first == len(self._pairs) or self._pairs[first] != pair:
            return []
        last = self._pairs.searchsorted(pair, "right")
        found: list[int] = self._relation_of[first:last].tolist()
        return found

    def objects(self, relation: int, head: int) -> list[int]:
        """The entities that the relation holds to from this head, ascending."""
        first, last = self._pairs.searchsorted([np.int64(head << 32), np.int64((head + 1) << 32)])
        pairs = self._pairs[first:last]
        found: list[int] = (pairs[self._relation_of[first:last] == relation] & 0xFFFFFFFF).tolist()
        return found

    def allows(self, relation: int, head: int, tail: int) -> bool:
        """Whether the relation can hold between entities of these types. relations.tsv says so; for a relation that it
        does not list, a combination of types is allowed if it has at least one per cent of the relation's triples or,
        should none have that many, if it is the most frequent one.
        """
        return (relation, self._type_of[head], self._type_of[tail]) in self._allowed

    def compatible(self, head: int, tail: int) -> bool:
        """Whether any relation can hold between entities of these types."""
        return (self._type_of[head], self._type_of[tail]) in self._compatible

    @cached_property
    def symmetric(self) -> frozenset[int]:
        """The relations for which at least half of the triples also hold in the other direction."""
        found = set()
        for relation, pairs in enumerate(self._by_relation()):
            back = pairs << 32 | pairs >> 32
            both_ways = np.intersect1d(pairs, back, assume_unique=True)
            if 0 < len(pairs) <= 2 * len(both_ways):
                found.add(relation)
        return frozenset(found)

    @cached_property
    def functional(self) -> frozenset[int]:
        """The relations that have a single object for a subject: at least 20 subjects, and 95 % of them have one."""
        found = set()
        for relation, pairs in enumerate(self._by_relation()):
            objects = np.unique(pairs >> 32, return_counts=True)[1]
            if len(objects) >= LEAST_SUBJECTS and np.mean(objects == 1) >= LEAST_FUNCTIONAL:
                found.add(relation)
        return frozenset(found)

    def _by_relation(self) -> Iterator[NDArray[np.int64]]:
        """The pairs of each relation, sorted."""
        order = np.argsort(self._relation_of, kind="stable")
        bounds = np.searchsorted(self._relation_of[order], np.arange(len(self.relations) + 1))
        return (self._pairs[order[begin:end]] for begin, end in pairwise(bounds.tolist()))

    @cached_property
    def _first_names(self) -> NDArray[np.int64]:
        """(entities,) the place of the first name of each; -1: it has none."""
        owners, places = np.unique(np.asarray(self._name_owners), return_index=True)
        found = np.full(len(self.ids), -1, np.int64)
        found[owners] = places
        return found


def load(path: Path) -> KB:
    """Loads a knowledge base from one of

    - a folder with entities.tsv (id, type, names separated by `|`) and triples.tsv (head, relation, tail);
    - N-Triples: a .nt file, or a folder of them (ntriples.py says what is read);
    - a .csv file with a header row: head, relation, tail, and optionally head_type, tail_type, head_name, tail_name;
      without names, the ids are the names.

    A folder may also have relations.tsv (relation, head type, tail type): the types between which a relation can hold.
    Bad lines are skipped and counted in `problems`. Raises UserError for a file that is missing, empty or of another
    format.
    """
    draft = Draft()
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if path.is_dir():
        _read_folder(path, draft)
    elif path.suffix == ".nt":
        ntriples.read([path], draft)
    elif path.suffix == ".csv":
        tables.read_csv(path, draft)
    elif path.suffix == ".tsv":
        raise UserError(f"{path}: give the folder with entities.tsv and triples.tsv, not one of its files")
    else:
        raise UserError(f"{path}: not a knowledge base; expected a folder, a .nt file or a .csv file")
    return KB(draft)


def _read_folder(folder: Path, draft: Draft) -> None:
    entities, triples, constraints = (folder / f"{name}.tsv" for name in ("entities", "triples", "relations"))
    if entities.exists() or triples.exists():
        for needed in (entities, triples):
            if not needed.exists():
                raise UserError(f"{needed}: no such file; a knowledge base has entities.tsv and triples.tsv")
        tables.read_entities(entities, draft)
        tables.read_triples(triples, draft)
    else:
        files = sorted(folder.glob("*.nt"))
        if not files:
            raise UserError(f"{folder}: not a knowledge base; expected entities.tsv and triples.tsv, or .nt files")
        ntriples.read(files, draft)
    if constraints.exists():
        tables.read_constraints(constraints, draft)


def _count_ambiguous_names(draft: Draft, ids: Strings) -> None:
    """Records names that several entities share: not a mistake, but worth knowing."""
    hashes = draft.names.hashes()
    order = np.argsort(hashes, kind="stable")
    alike = hashes[order[1:]] == hashes[order[:-1]]
    candidates = np.union1d(order[1:][alike], order[:-1][alike])  # in the order of the files
    first_owner: dict[str, int] = {}
    found: set[str] = set()
    for number in candidates.tolist():
        name, owner = draft.names[number], draft.name_owners[number]
        first = first_owner.setdefault(name, owner)
        if owner != first and name not in found:
            found.add(name)
            place = draft.file_and_line(draft.name_places[number])
            draft.problems(AMBIGUOUS, *place, f"{quoted(name)} is also a name of {quoted(ids[first])}")


def _distinct_triples(draft: Draft) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Pairs and relations of the distinct triples, (triples,) each, sorted by pair, then relation."""
    pairs, relation_of = np.asarray(draft.pairs), np.asarray(draft.relation_of)
    order = np.lexsort((relation_of, pairs))
    pairs, relation_of = pairs[order], relation_of[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (pairs[1:] != pairs[:-1]) | (relation_of[1:] != relation_of[:-1])
    for at in np.sort(order[~new]).tolist():
        draft.problems(DUPLICATE, *draft.file_and_line(draft.places[at]), "this triple is already listed")
    return pairs[new], relation_of[new]


def _frequent_types(
    pairs: NDArray[np.int64], relation_of: NDArray[np.int32], draft: Draft
) -> Iterator[tuple[int, int, int]]:
    """Every (relation, head type, tail type) with at least LEAST_SHARE of the relation's triples, and the most frequent
    one of each relation.
    """
    types, relations = len(draft.type_numbers), len(draft.relations)
    if relations * types**2 > MOST_COMBINATIONS:
        raise UserError(
            f"{draft.files[0]}: {types:,} types with {relations:,} relations are more than 64 bits can number"
        )
    type_of = np.asarray(draft.type_of)
    keys = relation_of.astype(np.int64)
    for entities in (pairs >> 32, pairs & 0xFFFFFFFF):
        keys *= types
        keys += type_of[entities]
    different, counts = np.unique(keys, return_counts=True)
    relation = different // types**2
    triples = np.bincount(relation, weights=counts, minlength=relations)
    most = np.zeros(relations, np.int64)
    np.maximum.at(most, relation, counts)
    frequent = (counts >= LEAST_SHARE * triples[relation]) | (counts == most[relation])
    for key in different[frequent].tolist():
        yield key // types**2, key // types % types, key % types
