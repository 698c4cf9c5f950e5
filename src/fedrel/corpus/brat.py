"""brat standoff: a folder (with those below it) where every NAME.txt may have a NAME.ann beside it, or one such text.

    T1	Drug 0 7	Aspirin
    N1	Reference T1 MESH:D001241	aspirin
    R1	Eases Arg1:T1 Arg2:T2

An entity in pieces (`T2 Pain 13 17;25 30`) becomes the span from its first piece to its last. The first N line of an
entity gives its id. Equivalences (*), events (E), attributes (A, M) and notes (#) say nothing about entities or about
relations of two entities, and are ignored. The text is read with line feeds as line ends, unless the offsets were
counted with a carriage return before each.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from fedrel.corpus.checks import EMPTY, files, head_and_tail, renamed, stretch, whole_text
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, has_extension, same_stem
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

_ENTITY = re.compile(r"(T\S+)\t(\S+) ([0-9]{1,9} [0-9]{1,9}(?:;[0-9]{1,9} [0-9]{1,9})*)\t(.*)")
_RELATION = re.compile(r"R\S*\t(\S+) ([^\s:]+):(\S+) ([^\s:]+):(\S+)\s*")
_REFERENCE = re.compile(r"N\S*\t\S+ (\S+) ([^\t]*[^\t\s])\s*(?:\t.*)?")
_IGNORED = "*AEM#"


class _Entity(NamedTuple):
    type: str
    pieces: list[tuple[int, int]]
    words: str
    where: str


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of a folder, or of one text with its annotations. Empty texts, and relations that join events,
    are skipped.
    """
    texts, notes = (
        renamed(files(path, suffix), lambda name: name.with_suffix("").as_posix()) for suffix in (".txt", ".ann")
    )
    for name, file in notes.items():
        if name not in texts:
            raise UserError(f"{file}: there is no {file.with_suffix('.txt').name} beside it; add the text")
    if not texts:
        raise UserError(f"{path}: no .txt file here; brat keeps NAME.txt and NAME.ann side by side")
    for name, file in texts.items():
        document = _document(name, file, notes.get(name), skip)
        if document.text.strip():
            yield document
        else:
            skip(str(file), EMPTY)


def _document(name: str, file: Path, notes: Path | None, skip: Skipped) -> Document:
    text = whole_text(file)
    plain = text.replace("\r\n", "\n")
    if notes is None:
        return Document(name, plain, where=str(file))
    entities: dict[str, _Entity] = {}
    references: dict[str, tuple[str, str]] = {}
    relations: list[tuple[str, re.Match[str]]] = []
    for number, line in numbered_lines(notes):
        where = f"{notes}:{number}"
        if match := _ENTITY.fullmatch(line):
            key, type_, places, words = match.groups()
            if key in entities:
                raise UserError(f"{where}: {shortened(key)} is there twice; give each entity its own number")
            pieces = [(int(start), int(end)) for start, end in (piece.split() for piece in places.split(";"))]
            entities[key] = _Entity(type_, pieces, words, where)
        elif match := _RELATION.fullmatch(line):
            relations.append((where, match))
        elif match := _REFERENCE.fullmatch(line):
            references.setdefault(match[1], (match[2], where))
        elif line[0] not in _IGNORED:
            raise UserError(f"{where}: not a line of brat: {shortened(line)}")
    for key, (_, where) in references.items():
        if key[0] == "T" and key not in entities:
            raise UserError(f"{where}: the reference is for {shortened(key)}, which no T line marks")
    ids = {key: id_ for key, (id_, _) in references.items()}
    joined = tuple(found for where, match in relations if (found := _relation(match, entities, where, skip)))
    try:
        annotations = _annotations(plain, entities, ids)
    except UserError:
        if plain == text:
            raise
        plain, annotations = text, _annotations(text, entities, ids)
    return Document(name, plain, annotations, joined, str(file))


def _annotations(text: str, entities: Mapping[str, _Entity], ids: Mapping[str, str]) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(key, *stretch(text, it.pieces, it.words, it.where), it.type, ids.get(key, ""))
        for key, it in entities.items()
    )


def _relation(
    match: re.Match[str], entities: Mapping[str, _Entity], where: str, skip: Skipped
) -> tuple[str, str, str] | None:
    relation, *ends = match.groups()
    head, tail = head_and_tail((ends[0], ends[1]), (ends[2], ends[3]))
    for key in (head, tail):
        if key not in entities:
            if key[0] == "E":
                skip(where, "the relation joins an event, not two entities")
                return None
            raise UserError(f"{where}: the relation names {shortened(key)}, which no T line marks")
    return head, relation, tail


FORMAT = Format(
    what="a text and its .ann file",
    documents=read,
    gold=True,
    by_name=has_extension(".ann"),
    extensions=(".txt",),
    files=same_stem,
)
