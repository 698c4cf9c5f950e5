"""The model of BioC, which its XML and its JSON share: from passages, annotations and relations to a document.

Passages are put at their offsets and the gaps between them filled with line ends, so that every offset counts
characters of the whole. An annotation in pieces becomes the span from its first piece to its last.

A relation joins two annotations, which its nodes name, or two concepts, which its infons name: entity1 and entity2
(BioRED), role1 and role2 (PubTator 3), or keys that are types of annotations (BC5CDR: Chemical and Disease). Others are
left out and counted. Of a composite mention and the mentions in it (BC5CDR: "CompositeRole"), the composite one is kept
with the concepts of all, as the PubTator files of the same corpus have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedrel.corpus.checks import head_and_tail, sentences_at, stretch, trimmed
from fedrel.corpus.columns import shortened
from fedrel.corpus.concepts import NOT_MARKED, concepts, is_linked, known_as
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

LONGEST = 50_000_000  # characters of a document; an offset beyond is a mistake, not a gap to be filled
_TYPE = ("type",)
_RELATION = ("type", "relation type", "relation_type", "relation")
_PAIRS = (("entity1", "entity2"), ("role1", "role2"))
_CONCEPTS = ("chemical", "disease")  # infons of BC5CDR, also where no such mention is marked
_IDENTIFIER = ("identifier", "concept id", "concept_id")
_DATABASES = (
    *("mesh", "ncbi gene", "ncbigene", "ncbi homologene", "ncbi taxonomy", "omim", "umls", "cui", "chebi"),
    *("uniprot", "dbsnp", "cellosaurus", "hpo", "go"),
)
_ROLE, _COMPOSITE, _INDIVIDUAL = ("compositerole",), "compositemention", "individualmention"
_WHOLE = re.compile(r"\s*-?[0-9]+\s*")

Infons = Mapping[str, object]  # keys as they are; values are texts, in JSON perhaps anything
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage with its text, or with sentences that have it; offsets as the file has them."""

    offset: object
    text: str
    sentences: Sequence[tuple[object, str]] = ()  # offset and text of each


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation; offset and length of each location as the file has them."""

    id: str
    infons: Infons
    text: str
    locations: Sequence[tuple[object, object]]


@dataclass(frozen=True, slots=True)
class Join:
    """A relation; its nodes are (role, refid)."""

    id: str
    infons: Infons
    nodes: Sequence[tuple[str, str]]


@dataclass(slots=True)
class Source:
    """A document as the file has it."""

    id: str
    passages: list[Passage] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)  # ids of annotations that could not be read


def document(found: Source, where: str, place: str, skip: Skipped) -> Document:
    """`where` is that of the document, and `place` how messages about what is in it begin. UserError if its text cannot
    be put together; an annotation or relation that cannot be read is reported to `skip`.
    """
    text, sentences = _text(found.passages, place)
    marked = _Marked(found, text, place, skip)
    return Document(found.id, text, marked.annotations, tuple(marked.relations()), where, sentences)


# ------------------------------------------------------------------------------------------------- text


def _text(passages: Iterable[Passage], where: str) -> tuple[str, tuple[Place, ...]]:
    """The passages as one text, and the spans of its sentences, none of which runs over two passages."""
    pieces: list[tuple[int, str, list[Place] | None]] = []  # offset, text and, where they are given, sentences
    for passage in passages:
        offset = _number(passage.offset, where)
        given = [(_number(at, where), words) for at, words in passage.sentences if words.strip()]
        spans = [trimmed(at, words) for at, words in given]
        if passage.text and not passage.text.isspace():
            inside = all(offset <= start <= end <= offset + len(passage.text) for start, end in spans)
            pieces.append((offset, passage.text, spans if spans and inside else None))
        else:
            pieces += [(at, words, [span]) for (at, words), span in zip(given, spans, strict=True)]
    text: list[str] = []
    length = 0
    sentences: list[Place] = []
    for offset, words, listed in sorted(pieces, key=lambda piece: piece[0]):
        if not length <= offset <= LONGEST:
            raise UserError(
                f"{where}: a passage has the offset {shortened(str(offset))} where the one before it ends at {length}; "
                "offsets must count characters from the start of the document"
            )
        text += ["\n" * (offset - length), words]
        length = offset + len(words)
        sentences += sentences_at(offset, words) if listed is None else listed
    return "".join(text), tuple(sentences)


def _number(value: object, where: str) -> int:
    try:
        if type(value) is int:
            return value
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return int(value)
    except ValueError:  # Python refuses to read thousands of digits
        pass
    raise UserError(f"{where}: an offset or length is missing or no whole number; write one, such as 12")


# ------------------------------------------------------------------------------ annotations, relations


class _Marked:
    """The annotations of a document, and what its relations may call them."""

    def __init__(self, found: Source, text: str, where: str, skip: Skipped) -> None:
        self._joins, self._where, self._skip, self._lost = found.joins, where, skip, set(found.lost)
        types = {_infon(mark.infons, _TYPE)[1].casefold() for mark in found.marks}
        self._types = frozenset({*types, *_CONCEPTS} - {"", *_RELATION})
        self._named = {name for join in found.joins for name in _two_concepts(join, self._types) or ()}
        self._known: dict[str, str] = {}  # names of entities by what relations may call them
        self._keys: dict[str, str | None] = {}  # by id of an annotation; None: of several, or of a relation
        marks = self._composite([self._placed(mark, text, number) for number, mark in enumerate(found.marks, 1)])
        entities = [self._entities([mark, *parts]) for mark, _, parts in marks]
        names = {name for own in entities for name in own}
        taken: set[str] = set()
        annotations = []
        for number, ((mark, span, parts), own) in enumerate(zip(marks, entities, strict=True), 1):
            # Some files number the annotations of each passage anew: only a relation that names such an id is unclear.
            key = mark.id
            while key in taken or key in names:
                key += f"/{number}"
            taken.add(key)
            for it in (mark, *parts):
                self._keys[it.id] = None if it.id in self._keys else key
            type_, (identity, _, _) = _infon(mark.infons, _TYPE)[1], _identity(mark.infons)
            annotations.append(Annotation(key, *span, type_, identity, own))
        self.annotations = tuple(annotations)
        for join in found.joins:
            self._keys.setdefault(join.id, None)  # a relation may join relations, too

    def _placed(self, mark: Mark, text: str, number: int) -> tuple[Mark, Place] | None:
        """An annotation with its span, unless it has none."""
        name = mark.id or f"T{number}"
        where = f"{self._where}, annotation {shortened(name)}"
        if not mark.locations:
            self._skip(self._where, "the annotation has no place in the text")
            self._lost.add(name)
            return None
        try:
            pieces = [(_number(offset, where), _number(length, where)) for offset, length in mark.locations]
            span = stretch(text, [(offset, offset + length) for offset, length in pieces], mark.text or None, where)
        except UserError as error:
            self._skip.bad(error, where)
            self._lost.add(name)
            return None
        return replace(mark, id=name), span

    def _composite(self, found: Iterable[tuple[Mark, Place] | None]) -> list[tuple[Mark, Place, list[Mark]]]:
        """Each annotation with its span and, if it is a composite one, those that it is made of."""
        placed: list[tuple[Mark, Place, list[Mark]]] = [(*it, []) for it in found if it]
        role = {id(mark): _infon(mark.infons, _ROLE)[1].casefold() for mark, _, _ in placed}
        composite = [it for it in placed if role[id(it[0])] == _COMPOSITE]
        kept = []
        for it in placed:
            mark, (start, end), _ = it
            around = (whole for whole in composite if whole[1][0] <= start and end <= whole[1][1])
            if role[id(mark)] == _INDIVIDUAL and (whole := next(around, None)):
                whole[2].append(mark)
                self._skip(self._where, "the annotation is a part of a composite mention, which is kept")
            else:
                kept.append(it)
        return kept

    def _entities(self, marks: Iterable[Mark]) -> tuple[str, ...]:
        """The concepts of an annotation and its parts; notes what relations may call them."""
        found: list[str] = []
        for mark in marks:
            _, value, database = _identity(mark.infons)
            for name in (*((value,) if value in self._named else ()), *concepts(value)):
                entity = _in_database(name, database)
                found.append(entity)
                self._known.setdefault(name, entity)
                self._known.setdefault(entity, entity)
        return tuple(dict.fromkeys(found))

    def relations(self) -> Iterator[tuple[str, str, str]]:
        for join in self._joins:
            relation = _infon(join.infons, _RELATION)[1]
            if not relation:
                self._skip(self._where, "the relation has no type")
            elif ends := self._ends(join):
                yield ends[0], relation, ends[1]

    def _ends(self, join: Join) -> tuple[str, str] | None:
        """What a relation joins: names of two entities, or keys of two annotations."""
        if two := _two_concepts(join, self._types):
            head, tail = (known_as(name, self._known) for name in two)
            if head and tail:
                return head, tail
            self._skip(self._where, NOT_MARKED)
        elif len(join.nodes) != 2:
            self._skip(self._where, "the relation joins other than two entities")
        else:
            return self._nodes(*head_and_tail(join.nodes[0], join.nodes[1]))
        return None

    def _nodes(self, *ends: str) -> tuple[str, str] | None:
        for name in ends:
            if name in self._lost and not self._keys.get(name):
                self._skip(self._where, "the relation needs an entity that was left out")
                return None
            if name not in self._keys:
                words = f'{self._where}: a relation names the annotation "{shortened(name)}", which is not there'
                self._skip.bad(UserError(f"{words}; add it, or remove the relation"), self._where)
                return None
        head, tail = (self._keys[name] for name in ends)
        if head and tail:
            return head, tail
        self._skip(self._where, "the relation joins something other than two annotations with ids of their own")
        return None


def _two_concepts(join: Join, types: frozenset[str]) -> tuple[str, str] | None:
    """The two concepts that infons of a relation name, by keys that say so or, where it has not two nodes, that are
    among these types (in small letters).
    """
    given = {key.strip().casefold(): _concept(value) for key, value in join.infons.items()}
    for first, second in _PAIRS:
        if given.get(first) and given.get(second):
            return given[first], given[second]
    typed = [value for key, value in given.items() if key in types and value]
    return (typed[0], typed[1]) if len(typed) == 2 != len(join.nodes) else None


def _concept(value: object) -> str:
    """In PubTator 3's JSON, an object that describes the concept."""
    return _words(value.get("identifier") if isinstance(value, dict) else value)


def _words(value: object) -> str:
    return str(value) if type(value) is int else value.strip() if isinstance(value, str) else ""


def _infon(infons: Infons, names: tuple[str, ...]) -> tuple[str, str]:
    """Key and value of the first of these names that an infon has, else two empty strings."""
    given = {key.strip().casefold(): (key, _words(value)) for key, value in infons.items()}
    return next((given[name] for name in names if name in given and given[name][1]), ("", ""))


def _identity(infons: Infons) -> tuple[str, str, str]:
    """The id of an annotation, MESH:D001241, and what it is made of: what the infon says, and the database that the
    infon is named after, if it is. Empty texts where there is none.
    """
    for names, named_after in ((_IDENTIFIER, False), (_DATABASES, True)):
        key, value = _infon(infons, names)
        if is_linked(value):
            database = key if named_after else ""
            return _in_database(value, database), value, database
    return "", "", ""


def _in_database(value: str, database: str) -> str:
    return f"{database}:{value}" if database and ":" not in value else value
