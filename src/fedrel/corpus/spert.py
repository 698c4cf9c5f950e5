"""SpERT's JSON, an array of sentences in tokens with entities and relations: CoNLL04, SciERC and ADE as SpERT has them.

    [{"tokens": ["Ann", "Lee", "lives", "in", "Bonn", "."],
      "entities": [{"type": "Peop", "start": 0, "end": 2}, {"type": "Loc", "start": 4, "end": 5}],
      "relations": [{"type": "Live_In", "head": 0, "tail": 1}], "orig_id": 17}, …]

Ends are exclusive, and relations count entities from 0. Each row is a document of one sentence: 922, 231 and 288 in
CoNLL04, 1,861, 275 and 551 in SciERC, 4,272 in ADE. Beside the splits lie the names of the types (conll04_types.json),
train and dev in one (conll04_train_dev.json) and an example for prediction, none of which is a split. Entities have no
ids. Other keys are ignored.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fedrel.corpus.format import Format, Sample
from fedrel.corpus.json_rows import (
    EXTENSIONS,
    entity_number,
    json_files,
    list_in,
    name_of,
    position,
    reader,
    shown_keys,
    text_of,
    tokens_in,
    type_of,
)
from fedrel.corpus.tokenised import Relation, TokenSpan, what_is_whole
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError


def _document(row: dict[str, Any], name: str, where: str, skip: Skipped) -> Document | None:
    """A sentence; without "entities" or "relations", these are not marked in it."""
    tokens = tokens_in(row.get("tokens"), "tokens", where)
    marked, joined = (row.get(key) is not None for key in ("entities", "relations"))
    entities = list_in(row, "entities", where) if marked else []
    mentions = list(_mentions(entities, where, skip))
    relations = list(_relations(list_in(row, "relations", where), len(entities), where, skip)) if joined else None
    found = what_is_whole(name_of(row.get("orig_id"), name), [tokens], mentions, relations, where, skip)
    return found if found is None or marked else replace(found, annotations=None)


def _mentions(entities: list[Any], where: str, skip: Skipped) -> Iterator[TokenSpan]:
    for number, entity in enumerate(entities):
        what = f"the entity {number}"
        try:
            if not isinstance(entity, dict):
                raise UserError(f"{where}: {what} is no object")
            start, end = (position(entity.get(key), f'{what}: "{key}"', where) for key in ("start", "end"))
        except UserError as error:
            skip.bad(error, where)
        else:
            yield TokenSpan(f"T{number}", 0, start, end, type_of(entity.get("type")))


def _relations(relations: list[Any], entities: int, where: str, skip: Skipped) -> Iterator[Relation]:
    for number, relation in enumerate(relations):
        what = f"the relation {number}"
        try:
            if not isinstance(relation, dict):
                raise UserError(f"{where}: {what} is no object")
            name = text_of(relation.get("type"), f'{what}: "type"', where)
            head, tail = (entity_number(relation.get(key), entities, what, key, where) for key in ("head", "tail"))
        except UserError as error:
            skip.bad(error, where)
        else:
            yield f"T{head}", name, f"T{tail}"


def _by_content(sample: Sample) -> str | None:
    keys = shown_keys(sample)
    cut = keys == {"tokens"} and sample.lines[0].lstrip().startswith("[")  # before anything else came
    whole = keys >= {"tokens", "entities"} and not keys & {"h", "t"}
    return 'JSON with "tokens" and "entities"' if whole or cut else None


read = reader(_document)

FORMAT = Format(
    what='SpERT, a JSON array of "tokens", "entities" and "relations"',
    documents=read,
    gold=True,
    keys=(frozenset(("tokens", "entities", "relations")),),
    by_content=_by_content,
    extensions=EXTENSIONS,
    candidates=json_files,
)
