"""Documents as JSON, one object a line, in an array, or one in a file; all but "text" may be left out.

    {"id": "n1", "text": "Aspirin eases pain.",
     "entities": [{"key": "T1", "start": 0, "end": 7, "type": "drug", "id": "MESH:D001241"}, …],
     "relations": [{"head": "T1", "relation": "eases", "tail": "T2"}],
     "sentences": [[0, 19]], "tokens": [[0, 7], [8, 13], [14, 18], [18, 19]], "listed": false}

Offsets count characters of "text" from 0. Without a "key" the entities are T1, T2, … in their order; an "id" is one of
a knowledge base, the same in every document. "head" and "tail" of a relation are keys, or ids: an id, which must be no
key, means every mention of that entity. Without "sentences" and "tokens" the text is split; those that are given must
be in order and must not overlap. With "listed", "relations" holds every pair that counts, those without a relation as
"NA"; without it, the pairs that no relation joins are found. Without an "id" a document is called after its file and
line. Other keys are ignored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedrel.corpus.checks import EMPTY, LEFT_OUT, check_range, check_span, each_file
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.json_rows import EXTENSIONS
from fedrel.corpus.lines import each_object
from fedrel.corpus.looks import label_names, within, within_lists
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

Spans = tuple[tuple[int, int], ...]
Relation = tuple[str, str, str]

_OURS = frozenset(("text", "id", "entities", "relations", "sentences", "tokens", "listed"))  # keys of a document


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of one file. Those without text are skipped; broken ones, and broken entities and relations, are
    counted.
    """

    def document(row: dict[str, Any], where: str) -> Document | None:
        return _document(row, path.name + where.removeprefix(str(path)), where, skip)

    yield from (it for _, it in each_object(path, skip, document) if it)


@dataclass
class _Marked:
    """The entities of a document by key, how many have each id, and the names of those that were left out."""

    by_key: dict[str, Annotation] = field(default_factory=dict)
    ids: Counter[str] = field(default_factory=Counter)
    lost_keys: set[str] = field(default_factory=set)
    lost_ids: set[str] = field(default_factory=set)

    def add(self, annotation: Annotation) -> None:
        self.by_key[annotation.key] = annotation
        if annotation.id:
            self.ids[annotation.id] += 1

    def lose(self, entity: object, key: str) -> None:
        """Notes the names by which relations may ask for an entity that is left out, given what it is called without a
        key.
        """
        fields = entity if isinstance(entity, dict) else {}
        told = {name: str(it).strip() for name in ("key", "id") if isinstance(it := fields.get(name), str | int)}
        self.lost_keys.add(told.get("key") or key)
        if told.get("id"):
            self.lost_ids.add(told["id"])

    def is_lost(self, name: str) -> bool:
        known = name in self.by_key or name in self.ids
        return name in self.lost_keys or (name in self.lost_ids and not known)

    def is_ambiguous(self, name: str) -> bool:
        """Whether it is the key of one entity and the id of others."""
        one = self.by_key.get(name)
        return one is not None and self.ids[name] > (one.id == name)


def _document(row: dict[str, Any], name: str, where: str, skip: Skipped) -> Document | None:
    text, listed = row.get("text"), row.get("listed")
    if not isinstance(text, str):
        raise UserError(f'{where}: "text" is missing or no text')
    if not text.strip():
        skip(where, EMPTY)
        return None
    if not (listed is None or isinstance(listed, bool)):
        raise UserError(f'{where}: "listed" must be true or false')
    name = _name(row, "id", where) or name
    sentences, tokens = (_spans(row, key, text, where) for key in ("sentences", "tokens"))
    _check_within(tokens, sentences, where)
    entities, relations = (_list(row, key, where) for key in ("entities", "relations"))
    marked = _marked(entities or [], text, tokens, where, skip)
    joined = None if relations is None else _relations(relations, marked, where, skip)
    annotations = None if entities is None else tuple(marked.by_key.values())
    if annotations and any(end not in marked.by_key for head, _, tail in joined or () for end in (head, tail)):
        annotations = tuple(replace(it, entities=(it.id,)) if it.id else it for it in annotations)
    return Document(name, text, annotations, joined, where, sentences, tokens, bool(listed))


# ------------------------------------------------------------------------------------------------ entities


def _marked(entities: list[Any], text: str, tokens: Spans | None, where: str, skip: Skipped) -> _Marked:
    marked = _Marked()
    begins = [start for start, _ in tokens or ()]
    for count, entity in enumerate(entities, 1):
        place = f"{where}: entity {count}"
        try:
            annotation = _annotation(_object(entity, "entities", where), text, f"T{count}", place)
            if annotation.key in marked.by_key:
                key = shortened(annotation.key)
                raise UserError(f'{where}: two entities have the "key" "{key}"; give each one of its own')
            if tokens is not None and not _touches(annotation, tokens, begins):
                raise UserError(f"{place}: position {annotation.start}..{annotation.end} touches none of the tokens")
        except UserError as error:
            skip.bad(error, where)
            marked.lose(entity, f"T{count}")
        else:
            marked.add(annotation)
    return marked


def _annotation(entity: dict[str, Any], text: str, key: str, where: str) -> Annotation:
    start, end = entity.get("start"), entity.get("end")
    if type(start) is not int or type(end) is not int:
        raise UserError(f'{where} needs "start" and "end", whole numbers')
    check_span(text, start, end, where)
    type_ = entity.get("type")
    if type_ is not None and not isinstance(type_, str):
        raise UserError(f'{where}: "type" must be text')
    return Annotation(_name(entity, "key", where) or key, start, end, type_ or "", _name(entity, "id", where))


def _touches(annotation: Annotation, tokens: Spans, begins: list[int]) -> bool:
    """Whether the last token that begins before the end of the annotation ends after its start."""
    last = bisect_right(begins, annotation.end - 1) - 1
    return last >= 0 and tokens[last][1] > annotation.start


# ----------------------------------------------------------------------------------------------- relations


def _relations(relations: list[Any], marked: _Marked, where: str, skip: Skipped) -> tuple[Relation, ...]:
    found = []
    for count, it in enumerate(relations, 1):
        place = f"{where}: relation {count}"
        try:
            head, relation, tail = _relation(_object(it, "relations", where), place)
            if marked.is_lost(head) or marked.is_lost(tail):
                skip(where, LEFT_OUT)
                continue
            for name in (head, tail):
                _check_name(name, marked, place)
        except UserError as error:
            skip.bad(error, where)
        else:
            found.append((head, relation, tail))
    return tuple(found)


def _relation(relation: dict[str, Any], where: str) -> Relation:
    name = relation.get("relation")
    if not isinstance(name, str) or not name.strip():
        raise UserError(f'{where}: "relation" is missing or no text')
    return _name(relation, "head", where), name, _name(relation, "tail", where)


def _check_name(name: str, marked: _Marked, where: str) -> None:
    """Raises UserError unless the name is one entity's key, or the id of some."""
    if name not in marked.by_key and name not in marked.ids:
        raise UserError(
            f'{where}: no entity has the "key" "{shortened(name)}"; "head" and "tail" each name one, by key or by id'
        )
    if marked.is_ambiguous(name):
        raise UserError(
            f'{where}: "{shortened(name)}" is the "key" of one entity and the "id" of another; change the "key"'
        )


# ------------------------------------------------------------------------------- sentences, tokens and fields


def _spans(row: dict[str, Any], key: str, text: str, where: str) -> Spans | None:
    """Start and end of each sentence or token, in order and without overlaps."""
    found = _list(row, key, where)
    if found is None:
        return None
    check = check_span if key == "sentences" else check_range
    place, spans = 0, []
    for count, it in enumerate(found, 1):
        if not isinstance(it, list) or len(it) != 2 or not all(type(number) is int for number in it):
            raise UserError(f'{where}: "{key}" must be a list of [start, end], whole numbers')
        start, end = it
        check(text, start, end, f"{where}: {key[:-1]} {count}")
        if start < place:
            raise UserError(
                f"{where}: {key[:-1]} {count} begins at {start}, before the end of the one before it; "
                "give them in order, without overlaps"
            )
        spans.append((start, end))
        place = end
    return tuple(spans)


def _check_within(tokens: Spans | None, sentences: Spans | None, where: str) -> None:
    """Raises UserError for a token that begins in a sentence and ends after it, or begins before it and ends in it."""
    edges = sorted({edge for span in sentences or () for edge in span})
    for count, (start, end) in enumerate(tokens or (), 1):
        after = bisect_right(edges, start)
        if after < len(edges) and edges[after] < end:
            raise UserError(
                f"{where}: token {count} at {start}..{end} crosses the edge of a sentence; mend one of them"
            )


def _list(row: dict[str, Any], key: str, where: str) -> list[Any] | None:
    found = row.get(key)
    if found is not None and not isinstance(found, list):
        of = "objects {…}" if key in ("entities", "relations") else "[start, end], whole numbers"
        raise UserError(f'{where}: "{key}" must be a list of {of}')
    return found


def _object(value: object, key: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f'{where}: "{key}" must be a list of objects {{…}}')
    return value


def _name(row: dict[str, Any], key: str, where: str) -> str:
    """A name may be written as a number, as PubMed's are."""
    value = row.get(key)
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if type(value) is not int:
        raise UserError(f'{where}: "{key}" must be text or a whole number')
    return str(value)


def _by_content(sample: Sample) -> str | None:
    """Not where other keys label the text, or mark entities in it in another way: the labels would be lost."""
    keys, record = sample.keys, sample.record or {}
    text = sample.texts.get("text", "")
    others = {key: value for key, value in record.items() if key not in _OURS}
    if "text" not in keys or label_names(keys) or within(sample.texts, text) or within_lists(others, text):
        return None
    entities = record.get("entities")
    ours = not isinstance(entities, list) or all(isinstance(it, dict) and {"start", "end"} & set(it) for it in entities)
    return f'JSON {"array" if sample.is_array else "lines"} with "text"' if ours else None


FORMAT = Format(
    what='JSON lines with "text", perhaps "entities" and "relations"',
    documents=each_file(read, *EXTENSIONS),
    gold=True,
    by_content=_by_content,
    general=True,
    keys=(frozenset(("text",)), frozenset(("text", "entities", "relations"))),
    extensions=EXTENSIONS,
)
