"""Documents as JSON lines, one object a line; all but "text" may be left out.

    {"id": "n1", "text": "Aspirin eases pain.",
     "entities": [{"key": "T1", "start": 0, "end": 7, "type": "drug", "id": "MESH:D001241"}, …],
     "relations": [{"head": "T1", "relation": "eases", "tail": "T2"}]}

Offsets count characters of "text" from 0. Without a "key" the entities are T1, T2, … in their order; without
an "id" a document is called after its file and line. Other keys are ignored.
"""

from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.checks import EMPTY, check_span, each_file
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.lines import json_object, numbered_lines
from fedrel.corpus.looks import label_names
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of one file. Those without text are skipped."""
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        document = _document(json_object(line, where), f"{path.name}:{number}", where)
        if document.text.strip():
            yield document
        else:
            skip(where, EMPTY)


def _document(row: dict[str, object], name: str, where: str) -> Document:
    text = row.get("text")
    if not isinstance(text, str):
        raise UserError(f'{where}: "text" is missing or no text')
    annotations = relations = None
    if row.get("entities") is not None:
        marked: dict[str, Annotation] = {}
        for count, entity in enumerate(_objects(row, "entities", where), 1):
            annotation = _annotation(entity, text, f"T{count}", f"{where}: entity {count}")
            if marked.setdefault(annotation.key, annotation) is not annotation:
                key = shortened(annotation.key)
                raise UserError(f'{where}: two entities have the "key" "{key}"; give each one of its own')
        annotations = tuple(marked.values())
    if row.get("relations") is not None:
        keys = {annotation.key for annotation in annotations or ()}
        relations = tuple(
            _relation(relation, keys, f"{where}: relation {count}")
            for count, relation in enumerate(_objects(row, "relations", where), 1)
        )
    return Document(_name(row, "id", where) or name, text, annotations, relations, where)


def _annotation(entity: dict[str, object], text: str, key: str, where: str) -> Annotation:
    start, end = entity.get("start"), entity.get("end")
    if type(start) is not int or type(end) is not int:
        raise UserError(f'{where} needs "start" and "end", whole numbers')
    check_span(text, start, end, where)
    type_ = entity.get("type")
    if type_ is not None and not isinstance(type_, str):
        raise UserError(f'{where}: "type" must be text')
    return Annotation(_name(entity, "key", where) or key, start, end, type_ or "", _name(entity, "id", where))


def _relation(relation: dict[str, object], keys: set[str], where: str) -> tuple[str, str, str]:
    name = relation.get("relation")
    if not isinstance(name, str) or not name.strip():
        raise UserError(f'{where}: "relation" is missing or no text')
    head, tail = _name(relation, "head", where), _name(relation, "tail", where)
    for key in (head, tail):
        if key not in keys:
            raise UserError(f'{where}: no entity has the "key" "{shortened(key)}"; "head" and "tail" each name one')
    return head, name, tail


def _objects(row: dict[str, object], key: str, where: str) -> list[dict[str, object]]:
    found = row[key]
    if not isinstance(found, list) or not all(isinstance(it, dict) for it in found):
        raise UserError(f'{where}: "{key}" must be a list of objects {{…}}')
    return found


def _name(row: dict[str, object], key: str, where: str) -> str:
    """A name may be written as a number, as PubMed's are."""
    value = row.get(key)
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if type(value) is not int:
        raise UserError(f'{where}: "{key}" must be text or a whole number')
    return str(value)


def _by_content(sample: Sample) -> str | None:
    """Not where other keys label the text, or mark entities in it in another way: the labels would be lost."""
    if "text" not in sample.keys or sample.is_array or label_names(sample.keys):
        return None
    entities = (sample.record or {}).get("entities")
    ours = not isinstance(entities, list) or all(isinstance(it, dict) and {"start", "end"} & set(it) for it in entities)
    return 'JSON lines with "text"' if ours else None


FORMAT = Format(
    what='JSON lines with "text", perhaps "entities" and "relations"',
    documents=each_file(read, ".jsonl"),
    gold=True,
    by_content=_by_content,
    general=True,
    keys=(frozenset(("text",)), frozenset(("text", "entities", "relations"))),
    extensions=(".jsonl", ".json"),
)
