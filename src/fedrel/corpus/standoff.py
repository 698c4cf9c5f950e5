"""Lines of standoff annotation, which brat and the BioNLP shared tasks have in common.

    T1	Drug 0 7	Aspirin
    T2	Pain 13 17;25 30	pain knees
    N1	Reference T1 MESH:D001241	aspirin
    R1	Eases Arg1:T1 Arg2:T2
    E1	Easing:T3 Theme:T2 Cause:T1

An entity in pieces becomes the span from its first piece to its last. The first N line of an entity gives its id.
Equivalences (*), attributes (A, M) and notes (#) say nothing about entities or about relations of two entities, and are
ignored. A line that cannot be read, an entity whose words are not at its place and a relation of an entity that no line
marks are broken rows.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fedrel.corpus.checks import check_marks, head_and_tail, stretch
from fedrel.corpus.columns import shortened
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.types import Annotation, Skipped
from fedrel.errors import UserError

_ENTITY = re.compile(r"(T\S+)\t(\S+) ([0-9]{1,9} [0-9]{1,9}(?:;[0-9]{1,9} [0-9]{1,9})*)\t(.*)")
_RELATION = re.compile(r"R\S*\t(\S+) ([^\s:]+):(\S+) ([^\s:]+):(\S+)\s*(?:\t.*)?")
_REFERENCE = re.compile(r"N\S*\t(\S+) (\S+) ([^\t]*[^\t\s])\s*(?:\t.*)?")
_IGNORED = "*AM#"

JOINS_EVENT = "the relation joins an event, not two entities"


class Entity(NamedTuple):
    """A T line."""

    type: str
    pieces: list[tuple[int, int]]
    words: str
    where: str


class Joined(NamedTuple):
    """An R line, or another that says as much."""

    where: str
    head: str
    relation: str
    tail: str


@dataclass
class Notes:
    """What the lines of a document say."""

    entities: dict[str, Entity] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)  # entities that cannot be read or placed
    ids: dict[str, tuple[str, str]] = field(default_factory=dict)  # of entities, with where the line is
    relations: list[Joined] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)  # E lines as they are, with their places

    @property
    def count(self) -> int:
        """Of entities, ids, relations and events together."""
        return len(self.entities) + len(self.ids) + len(self.relations) + len(self.events)

    def add(self, line: str, where: str, what: str) -> None:
        """UserError if it is no line of standoff; `what` names the format."""
        if match := _ENTITY.fullmatch(line):
            key, type_, places, words = match.groups()
            if key in self.entities:
                raise UserError(f'{where}: "{shortened(key)}" is there twice; give each entity its own number')
            pieces = [(int(start), int(end)) for start, end in (piece.split() for piece in places.split(";"))]
            self.entities[key] = Entity(type_, pieces, words, where)
        elif match := _RELATION.fullmatch(line):
            relation, *ends = match.groups()
            head, tail = head_and_tail((ends[0], ends[1]), (ends[2], ends[3]))
            self.relations.append(Joined(where, head, relation, tail))
        elif match := _REFERENCE.fullmatch(line):
            self._refer(match[1], match[2], match[3], where)
        elif line[0] == "E":
            self.events.append((where, line))
        elif line[0] not in _IGNORED:
            if line[0] == "T":
                self.lost.add(line.split()[0])
            raise UserError(f'{where}: not a line of {what}: "{shortened(line)}"')

    def _refer(self, database: str, key: str, id_: str, where: str) -> None:
        """`Reference T1 MESH:D1` in brat, and `MESH Annotation:T1 Referent:D1` in the shared tasks."""
        if key.startswith("Annotation:") and id_.startswith("Referent:"):
            key, id_ = key.removeprefix("Annotation:"), id_.removeprefix("Referent:")
            id_ = id_ if ":" in id_ else f"{database}:{id_}"
        self.ids.setdefault(key, (id_, where))


def notes_of(paths: Iterable[Path], what: str, skip: Skipped) -> Notes:
    """What the files of a document say together; `what` names their format in messages. UserError if it is more than
    one document may have.
    """
    notes = Notes()
    for path in paths:
        for number, line in numbered_lines(path, skip):
            where = f"{path}:{number}"
            check_marks(notes.count, where)
            try:
                notes.add(line, where, what)
            except UserError as error:
                skip.bad(error, where)
    for key, (_, where) in notes.ids.items():
        if key.startswith("T") and key not in notes.entities and key not in notes.lost:
            words = f'{where}: the reference is for "{shortened(key)}", which no T line marks; add it, or remove this'
            skip.bad(UserError(words), where)
    return notes


def placed(text: str, notes: Notes, skip: Skipped) -> tuple[str, dict[str, Annotation]]:
    """The text and its annotations. Line ends are line feeds, unless more of the offsets were counted with a carriage
    return before each.
    """
    plain = text.replace("\r\n", "\n")
    found, errors = _placed(plain, notes)
    if errors and plain != text:
        again, fewer = _placed(text, notes)
        if len(fewer) < len(errors):
            plain, found, errors = text, again, fewer
    for key, error in errors.items():
        skip.bad(error, notes.entities[key].where)
        notes.lost.add(key)
    return plain, found


def _placed(text: str, notes: Notes) -> tuple[dict[str, Annotation], dict[str, UserError]]:
    found: dict[str, Annotation] = {}
    errors: dict[str, UserError] = {}
    for key, it in notes.entities.items():
        try:
            span = stretch(text, it.pieces, it.words, it.where)
        except UserError as error:
            errors[key] = error
        else:
            found[key] = Annotation(key, *span, it.type, notes.ids[key][0] if key in notes.ids else "")
    return found, errors


def joined(
    relations: Iterable[Joined], marked: dict[str, Annotation], lost: set[str], skip: Skipped
) -> Iterator[tuple[str, str, str]]:
    """The relations whose two entities are marked; the others are reported."""
    for where, head, relation, tail in relations:
        missing = [key for key in (head, tail) if key not in marked]
        if not missing:
            yield head, relation, tail
        elif any(key.startswith("E") for key in missing):
            skip(where, JOINS_EVENT)
        elif all(key in lost for key in missing):
            skip(where, "the relation needs an entity that was left out")
        else:
            key = next(key for key in missing if key not in lost)
            words = f'{where}: the relation names "{shortened(key)}", which no T line marks; add it, or remove this'
            skip.bad(UserError(words), where)
