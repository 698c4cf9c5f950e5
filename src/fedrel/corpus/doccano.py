"""doccano's exports of sequence labelling, JSON lines or an array: entities with relations, or entities alone.

    {"id": 1, "text": "Ann Lee runs Acme.",
     "entities": [{"id": 7, "label": "PER", "start_offset": 0, "end_offset": 7}, {"id": 8, "label": "ORG", …}],
     "relations": [{"id": 3, "from_id": 7, "to_id": 8, "type": "runs"}], "Comments": []}
    {"id": 2, "text": "Bo left.", "label": [[0, 2, "PER"]], "Comments": []}

Offsets count characters of the text from 0, ends are exclusive. In older exports the text is called "data", the
entities "labels", or "annotations" with numbers for labels. Ids hold within a text alone. Without "relations" there are
no relations to learn from.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus.checks import EMPTY, each_file
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.lines import each_object
from fedrel.corpus.marks import Marks, named
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

_TEXTS = ("text", "data")
_ENTITIES = ("entities", "label", "labels", "annotations")


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of one file. Those without text are skipped."""
    for where, document in each_object(path, skip, lambda row, where: _document(row, where, path, skip)):
        if document.text.strip():
            yield document
        else:
            skip(where, EMPTY)


def _document(row: dict[str, Any], where: str, path: Path, skip: Skipped) -> Document:
    text = next((row[key] for key in _TEXTS if isinstance(row.get(key), str)), None)
    if text is None:
        raise UserError(f'{where}: neither "text" nor "data" holds the text')
    marks = Marks(text, skip)
    for count, it in enumerate(_list(row, next((key for key in _ENTITIES if key in row), ""), where), 1):
        _mark(marks, it, f"{where}: entity {count}")
    relations = None
    if row.get("relations") is not None:
        for count, it in enumerate(_list(row, "relations", where), 1):
            _join(marks, it, f"{where}: relation {count}", skip)
        relations = marks.relations
    name = named(row.get("id")) or path.name + where.removeprefix(str(path))
    return Document(name, text, marks.annotations, relations, where)


def _list(row: dict[str, Any], key: str, where: str) -> list[Any]:
    found = row.get(key)
    if found is not None and not isinstance(found, list):
        raise UserError(f'{where}: "{key}" must be a list')
    return found or []


def _mark(marks: Marks, it: Any, where: str) -> None:
    def span() -> tuple[object, object]:
        if isinstance(it, list) and len(it) == 3:
            return it[0], it[1]
        if not isinstance(it, dict) or not {"start_offset", "end_offset"} <= set(it):
            raise UserError(f'{where}: no "start_offset" and "end_offset", nor [start, end, "LABEL"]')
        return it["start_offset"], it["end_offset"]

    fields = it if isinstance(it, dict) else {}
    type_ = it[2] if isinstance(it, list) and len(it) == 3 else fields.get("label")
    marks.entity(fields.get("id"), span, type_, where)


def _join(marks: Marks, it: Any, where: str, skip: Skipped) -> None:
    fields = it if isinstance(it, dict) else {}
    if relation := named(fields.get("type")):
        marks.relation(fields.get("from_id"), relation, fields.get("to_id"), where)
    else:
        skip.bad(UserError(f'{where}: "from_id", "to_id" or "type" is missing'), where)


def _by_content(sample: Sample) -> str | None:
    if not sample.keys & {*_TEXTS}:
        return None
    if sample.keys & {"entities", "annotations"} and '"start_offset"' in (sample.text or "".join(sample.lines)):
        return 'texts with entities that have a "start_offset"'
    if {"entities", "relations", "Comments"} <= sample.keys:
        return 'texts with "entities", "relations" and "Comments"'
    rows = [sample.record] if sample.is_array else map(_object, sample.lines)
    if any(_is_span(it) for row in rows for it in _labels(row or {})):
        return 'texts with "label": [[start, end, "LABEL"]]'
    return None


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _labels(row: dict[str, Any]) -> list[Any]:
    """The first few entities of the older kind."""
    found = row.get("label", row.get("labels"))
    return found[:3] if isinstance(found, list) else []


def _is_span(it: Any) -> bool:
    return isinstance(it, list) and len(it) == 3 and type(it[0]) is type(it[1]) is int and isinstance(it[2], str)


FORMAT = Format(
    what='doccano: JSON lines with "entities" and "relations", or "label": [[start, end, "LABEL"]]',
    documents=each_file(read, ".jsonl", ".json"),
    gold=True,
    by_content=_by_content,
    keys=(frozenset(("text", "entities", "relations")), frozenset(("text", "label")), frozenset(("data", "label"))),
    extensions=(".jsonl", ".json"),
)
