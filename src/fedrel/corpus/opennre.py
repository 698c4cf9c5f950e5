"""OpenNRE's JSON: {"text" or "token", "h": {"id", "name", "pos"}, "t": {…}, "relation"}, one a line or in an array.

    {"text": "Ann was born in Bonn.", "h": {"id": "Q1", "name": "Ann", "pos": [0, 3]},
     "t": {"id": "Q2", "name": "Bonn", "pos": [16, 20]}, "relation": "place of birth"}

Wiki80, Wiki20m, NYT10m and MIRGENE come so. `pos` counts characters with "text" and tokens with "token"; its end is
exclusive. Where it ends after the text, as it does where blanks at the end of a text were removed, it is read up to the
end if that is what "name" says. An entity without an "id" has none: its "name" is no id. Three keys that OpenNRE does
not have are read where present: "source" (who wrote the sentence), "expressed" (true or false: whether the sentence
states its relation, where that is known), and "type" of an entity.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus.checks import check_length, sentence_tokens
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample, no_header
from fedrel.corpus.lines import each_object
from fedrel.corpus.tokens import token_span
from fedrel.corpus.types import Instance, Mention, Skipped
from fedrel.corpus.unlabelled import without_key
from fedrel.errors import UserError

_SIDES = (("h", "head"), ("t", "tail"))

Span = tuple[int, int]


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line. Broken rows are counted."""
    yield from each_object(path, skip, _instance)


def _instance(row: dict[str, Any], where: str) -> Instance:
    relation, source, expressed = row.get("relation"), row.get("source", ""), row.get("expressed")
    if not isinstance(relation, str) or not relation:
        raise UserError(f'{where}: "relation" is missing or no text')
    if not isinstance(source, str) or not (expressed is None or isinstance(expressed, bool)):
        raise UserError(f'{where}: "source" must be text and "expressed" true or false')
    tokens, spans = _sentence(row, where)
    head, tail = (
        Mention(_identity(row[side], where), *span, _type(row[side]))
        for (side, _), span in zip(_SIDES, spans, strict=True)
    )
    if head.id == tail.id and spans[0] == spans[1]:
        raise UserError(
            f"{where}: head and tail are one entity at one place; mend the positions, or remove the row, since a "
            "relation joins two"
        )
    return Instance(tokens, head, tail, relation, source, expressed)


def _sentence(row: dict[str, Any], where: str) -> tuple[list[str], list[Span]]:
    """The tokens, and those of head and tail."""
    text, tokens = row.get("text"), row.get("token")
    if isinstance(text, str):
        places = [_position(row, *side, len(text), "characters", where) for side in _SIDES]
        tokens, begins, ends = sentence_tokens(text, where)
        named = zip(places, _SIDES, strict=True)
        return tokens, [token_span(begins, ends, *place, f"{where}: {word}") for place, (_, word) in named]
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        check_length(len(tokens), where)
        return tokens, [_position(row, *side, len(tokens), "tokens", where) for side in _SIDES]
    raise UserError(f'{where}: neither "text" nor "token" holds the sentence')


def _position(row: dict[str, Any], side: str, word: str, size: int, unit: str, where: str) -> Span:
    """Start and end of head or tail in a sentence of `size` units."""
    entity = row.get(side)
    position = entity.get("pos") if isinstance(entity, dict) else None
    if not isinstance(position, list) or len(position) != 2 or not all(type(n) is int for n in position):
        raise UserError(f'{where}: "{side}" needs "pos": [start, end]')
    start, end = position
    if end > size > start >= 0 and unit == "characters" and _same_end(row, side, start):
        end = size
    if not 0 <= start < end <= size:
        place = shortened(f"{start}..{end}")
        raise UserError(f"{where}: {word} position {place} lies outside the {size} {unit}")
    return start, end


def _same_end(row: dict[str, Any], side: str, start: int) -> bool:
    """Whether the text from `start` on is the entity's name, but for blanks."""
    name = row[side].get("name")
    return isinstance(name, str) and bool(name.strip()) and row["text"][start:].strip() == name.strip()


def _identity(entity: dict[str, Any], where: str) -> str:
    identity = entity.get("id")
    if not (identity is None or isinstance(identity, str)):
        raise UserError(f'{where}: the "id" of an entity must be text; leave it out where there is none')
    return identity if identity and identity.strip() else ""


def _type(entity: dict[str, Any]) -> str:
    told = entity.get("type")
    return told if isinstance(told, str) else ""


def lines(instances: Iterable[Instance]) -> Iterator[str]:
    """A JSON line for each sentence, with its tokens and token positions, that `read` reads back."""
    for i in instances:
        row: dict[str, object] = {
            "token": list(i.tokens),
            "h": _entity(i, i.head),
            "t": _entity(i, i.tail),
            "relation": i.relation,
        }
        if i.source:
            row["source"] = i.source
        if i.expressed is not None:
            row["expressed"] = i.expressed
        yield json.dumps(row, ensure_ascii=False) + "\n"


def _entity(instance: Instance, mention: Mention) -> dict[str, object]:
    name = " ".join(instance.tokens[mention.start : mention.end])
    entity: dict[str, object] = {"id": mention.id, "name": name, "pos": [mention.start, mention.end]}
    return {**entity, "type": mention.type} if mention.type else entity


def _by_content(sample: Sample) -> str | None:
    """By two of its keys, one of them an entity: many formats have one of them."""
    found = sample.keys & {"h", "t", "relation"}
    if len(found) < 2 or not sample.keys & {"text", "token"}:
        return None
    return f'JSON {"array" if sample.is_array else "lines"} with "h", "t" and "relation"'


FORMAT = Format(
    what='JSON lines with "text" or "token", "h", "t" and "relation"',
    sentences=read,
    by_content=_by_content,
    unlabelled=without_key("relation"),
    keys=(frozenset(("text", "h", "t", "relation")), frozenset(("token", "h", "t", "relation"))),
    header_rows=no_header,
)
