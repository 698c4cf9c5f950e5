"""Reads knowledge bases from RDF in N-Triples (https://www.w3.org/TR/n-triples/).

An entity is an IRI that has a label or a type and is itself neither a type nor a relation. Its names are its
rdfs:label, skos:prefLabel and skos:altLabel in any language, its type is its rdf:type. All other triples of three IRIs
are facts. Recorded as problems are facts with an end that is not an entity, and statements that are not facts: literal
values, blank nodes, labels and types of types and relations. Types and relations are named by the last part of their
IRI if no other has the same one, else by the whole IRI.
"""

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrel.alignment.draft import DUPLICATE, EMPTY, FURTHER_TYPE, MALFORMED, UNKNOWN_ENTITY, Draft
from fedrel.alignment.problems import quoted
from fedrel.alignment.string_table import Categorical, Strings
from fedrel.corpus import NA
from fedrel.corpus.lines import numbered_lines
from fedrel.errors import UserError

_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_OWL = "http://www.w3.org/2002/07/owl#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
ALTERNATIVE = _SKOS + "altLabel"
LABELS = {_RDFS + "label", _SKOS + "prefLabel", ALTERNATIVE}
GENERAL_TYPES = {_OWL + "Thing", _OWL + "NamedIndividual", _RDFS + "Resource"}  # used only for lack of another
BLANK = "blank node"
VALUE = "value, not an entity"
NO_ENTITY = "label or type of a type or relation"

_IRI = r'<([^<>"\s:]+:[^<>"\s]*)>'
_TRIPLE = re.compile(
    rf'[ \t]*(?:{_IRI}|_:[^\s<>"]+)[ \t]*{_IRI}[ \t]*'
    rf'(?:{_IRI}|_:[^\s<>"]*[^\s<>".]|"([^"\\]*+(?:\\.[^"\\]*+)*+)"(?:@[A-Za-z0-9-]+|\^\^<[^<>"\s]*>)?)'
    r"[ \t]*\.[ \t]*(?:#.*)?"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL)
_CHARACTERS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class _Statements:
    """The statements of all files, before it is known which IRIs are entities."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # of every IRI that is an end of a fact or has a label or type
        self.labels, self.label_owners, self.label_places = Strings(), array("i"), array("q")
        self.alternative = array("b")  # by label: whether it is a skos:altLabel
        self.types: dict[str, int] = {}
        self.type_of, self.type_owners, self.type_places = array("i"), array("i"), array("q")
        self.relations: dict[str, int] = {}
        self.relation_of, self.heads, self.tails, self.places = array("i"), array("i"), array("i"), array("q")

    def number(self, iri: str) -> int:
        return self.numbers.setdefault(iri, len(self.numbers))


def read(paths: Sequence[Path], draft: Draft) -> None:
    """Adds the entities and facts of some files, read as if they were one. Raises UserError if they have no entity or
    are not in UTF-8.
    """
    statements = _Statements()
    for path in paths:
        base = draft.begin(path)
        for number, line in numbered_lines(path):
            if not line.lstrip().startswith("#"):
                _read_statement(line, statements, base + number, draft)
    entity_of = _entities(statements)
    _add_entities(statements, entity_of, draft)
    _add_facts(statements, entity_of, draft)
    if not draft.numbers:
        raise UserError(f'{paths[0]}: no entities; lines such as <iri> <{_RDFS}label> "name" . define them')


def _read_statement(line: str, statements: _Statements, place: int, draft: Draft) -> None:
    match = _TRIPLE.fullmatch(line)
    try:
        if match is None:
            raise ValueError(line)
        subject, predicate, object_, literal = match.groups()
        if "\\" in line:
            subject, predicate, object_, literal = map(_unescaped, match.groups())
    except ValueError:
        what = "not an N-Triples statement: <subject> <predicate> <object> ."
        draft.problems(MALFORMED, *draft.file_and_line(place), what)
        return
    if subject is None or (object_ is None and literal is None):
        draft.problems(BLANK, *draft.file_and_line(place), "a statement about a blank node is ignored")
    elif predicate in LABELS and literal is not None:
        if literal.strip():
            statements.labels.append(literal.strip())
            statements.label_owners.append(statements.number(subject))
            statements.label_places.append(place)
            statements.alternative.append(predicate == ALTERNATIVE)
        else:
            draft.problems(EMPTY, *draft.file_and_line(place), "the label is empty")
    elif object_ is None:
        draft.problems(VALUE, *draft.file_and_line(place), f"{quoted(predicate)} has a value, not an entity")
    elif predicate == TYPE:
        statements.type_of.append(statements.types.setdefault(object_, len(statements.types)))
        statements.type_owners.append(statements.number(subject))
        statements.type_places.append(place)
    else:
        statements.heads.append(statements.number(subject))
        statements.tails.append(statements.number(object_))
        statements.relation_of.append(statements.relations.setdefault(predicate, len(statements.relations)))
        statements.places.append(place)


def _entities(statements: _Statements) -> NDArray[np.int64]:
    """The entity number of each IRI, or -1 if it is not an entity: (IRIs,)."""
    is_entity = np.zeros(len(statements.numbers), np.bool_)
    is_entity[np.asarray(statements.label_owners)] = True
    is_entity[np.asarray(statements.type_owners)] = True
    numbers = statements.numbers
    others = [numbers[iri] for iri in (*statements.types, *statements.relations) if iri in numbers]
    is_entity[np.array(others, np.int64)] = False
    return np.where(is_entity, np.cumsum(is_entity) - 1, -1)


def _add_entities(statements: _Statements, entity_of: NDArray[np.int64], draft: Draft) -> None:
    types = _chosen_types(statements, entity_of, draft)
    for iri, entity in zip(statements.numbers, entity_of.tolist(), strict=True):
        if entity >= 0:
            draft.add_entity(iri, types[entity])
    for at in np.argsort(
        np.asarray(statements.alternative), kind="stable"
    ).tolist():  # an entity's first name is no other
        label, number, place = statements.labels[at], statements.label_owners[at], statements.label_places[at]
        if entity_of[number] >= 0:
            draft.add_name(int(entity_of[number]), label, place)
        else:
            draft.problems(NO_ENTITY, *draft.file_and_line(place), f"{quoted(label)} is a type or relation")


def _chosen_types(statements: _Statements, entity_of: NDArray[np.int64], draft: Draft) -> Categorical:
    """The type of each entity: the first one given that is not general, else the first."""
    names = list(_short_names(list(statements.types)).values())
    general = [iri in GENERAL_TYPES for iri in statements.types]
    untyped = len(names)
    chosen = array("i", [untyped]) * int(entity_of.max(initial=-1) + 1)
    for type_, owner, place in zip(statements.type_of, statements.type_owners, statements.type_places, strict=True):
        entity = entity_of[owner]
        if entity < 0:
            draft.problems(NO_ENTITY, *draft.file_and_line(place), "the subject is a type or relation")
        elif chosen[entity] == untyped:
            chosen[entity] = type_
        elif chosen[entity] == type_:
            draft.problems(DUPLICATE, *draft.file_and_line(place), "this type is already listed")
        else:
            if general[chosen[entity]] and not general[type_]:
                chosen[entity] = type_
            what = f"an entity with several types; {quoted(names[chosen[entity]])} is used"
            draft.problems(FURTHER_TYPE, *draft.file_and_line(place), what)
    return Categorical([*names, ""], chosen)


def _add_facts(statements: _Statements, entity_of: NDArray[np.int64], draft: Draft) -> None:
    heads, tails = entity_of[np.asarray(statements.heads)], entity_of[np.asarray(statements.tails)]
    known = (heads >= 0) & (tails >= 0)
    unknown = np.flatnonzero(~known)
    iris = list(statements.numbers) if len(unknown) else []
    for at in unknown.tolist():
        iri = iris[(statements.heads if heads[at] < 0 else statements.tails)[at]]
        what = f"{quoted(iri)} is not an entity: it has neither a label nor a type, or is itself a type or relation"
        draft.problems(UNKNOWN_ENTITY, *draft.file_and_line(statements.places[at]), what)
    relation_of = np.asarray(statements.relation_of)[known]
    used = np.unique(relation_of)
    relations = list(statements.relations)
    named = _short_names([relations[number] for number in used.tolist()])
    draft.relations = {name: number for number, name in enumerate(named.values())}
    draft.relation_of.frombytes(np.searchsorted(used, relation_of).astype(np.int32).tobytes())
    draft.pairs.frombytes((heads[known] << 32 | tails[known]).tobytes())
    draft.places.frombytes(np.asarray(statements.places)[known].tobytes())


def _short_names(iris: Sequence[str]) -> dict[str, str]:
    """The last part of each IRI, or the whole IRI if that part is empty, "NA" or not unique."""
    parts = [re.split("[/#:]", iri)[-1] for iri in iris]
    times = Counter(parts)
    return {
        iri: part if part and part != NA and times[part] == 1 else iri for iri, part in zip(iris, parts, strict=True)
    }


def _unescaped(term: str | None) -> str | None:
    return term and _ESCAPE.sub(_character, term)


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if not code:
        if escape[3] not in _CHARACTERS:
            raise ValueError(escape[0])
        return _CHARACTERS[escape[3]]
    character = chr(int(code, 16))
    character.encode()  # raises a ValueError for a lone surrogate, as chr does beyond Unicode
    return character
