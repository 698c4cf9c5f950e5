"""DocRED's JSON, and Re-DocRED's: an array of documents in sentences and tokens, whose relations join entities.

    [{"title": "Ann Lee", "sents": [["Ann", "Lee", "was", "born", "in", "Bonn", "."], ["She", "sings", "."]],
      "vertexSet": [[{"name": "Ann Lee", "sent_id": 0, "pos": [0, 2], "type": "PER"}],
                    [{"name": "Bonn", "sent_id": 0, "pos": [5, 6], "type": "LOC"}]],
      "labels": [{"h": 0, "t": 1, "r": "P19", "evidence": [0]}]}, …]

Each item of "vertexSet" is an entity, the list of its mentions; "pos" counts the tokens of the sentence, its end
exclusive. Documents without "labels", such as those of DocRED's test, have no relations marked. DocRED has 3,053
annotated documents to train on, 1,000 for dev and 1,000 for test; Re-DocRED has 3,053, 500 and 500. Where
train_annotated.json and train_distant.json lie side by side, train is the first: nobody checked the labels of the
other. Entities have no ids.
"""

from collections.abc import Iterator
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
    sentences = [tokens_in(it, "sents", where) for it in list_in(row, "sents", where)]
    entities = list_in(row, "vertexSet", where)
    mentions = list(_mentions(entities, where, skip))
    relations = None
    if row.get("labels") is not None:
        relations = list(_relations(list_in(row, "labels", where), len(entities), where, skip))
    return what_is_whole(name_of(row.get("title"), name), sentences, mentions, relations, where, skip)


def _mentions(entities: list[Any], where: str, skip: Skipped) -> Iterator[TokenSpan]:
    """Every mention once: where mentions of entities were merged, some are there twice."""
    for vertex, mentions in enumerate(entities):
        seen: set[tuple[int, int, int]] = set()
        if not isinstance(mentions, list):
            skip.bad(UserError(f"{where}: the entity {vertex} is no list of mentions"), where)
            continue
        for number, mention in enumerate(mentions):
            try:
                place = _place(mention, f"the entity {vertex}, mention {number}", where)
            except UserError as error:
                skip.bad(error, where)
                continue
            if place not in seen:
                seen.add(place)
                yield TokenSpan(f"{vertex}.{number}", *place, type_of(mention.get("type")), entities=(str(vertex),))


def _place(mention: Any, what: str, where: str) -> tuple[int, int, int]:
    """Sentence, start and end."""
    span = mention.get("pos") if isinstance(mention, dict) else None
    if not isinstance(span, list) or len(span) != 2:
        raise UserError(f'{where}: {what} needs "sent_id" and "pos": [start, end]')
    start, end = (position(it, f'{what}: "pos"', where) for it in span)
    return position(mention.get("sent_id"), f'{what}: "sent_id"', where), start, end


def _relations(labels: list[Any], entities: int, where: str, skip: Skipped) -> Iterator[Relation]:
    for number, label in enumerate(labels):
        what = f"the relation {number}"
        try:
            if not isinstance(label, dict):
                raise UserError(f"{where}: {what} is no object")
            name = text_of(label.get("r", label.get("relation")), f'{what}: "r"', where)
            head, tail = (entity_number(label.get(key), entities, what, key, where) for key in ("h", "t"))
        except UserError as error:
            skip.bad(error, where)
        else:
            yield str(head), name, str(tail)


def _by_content(sample: Sample) -> str | None:
    keys = shown_keys(sample)
    return 'JSON with "vertexSet"' if "vertexSet" in keys or keys >= {"title", "sents"} else None


read = reader(_document)

FORMAT = Format(
    what='DocRED and Re-DocRED, a JSON array of "sents", "vertexSet" and "labels"',
    documents=read,
    gold=True,
    keys=(frozenset(("sents", "vertexSet", "labels")),),
    by_content=_by_content,
    extensions=EXTENSIONS,
    candidates=json_files,
    training_file="train_annotated.json, train_revised.json",
)
