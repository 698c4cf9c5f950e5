"""OpenNRE's JSON lines: {"text" or "token", "h": {"id", "name", "pos"}, "t": {…}, "relation"}.

`pos` counts characters with "text" and tokens with "token". Two keys that OpenNRE does not have are read where present:
"source" (who wrote the sentence) and "expressed" (true or false, for synthetic data).
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedrel.corpus.format import Format, Sample, no_header
from fedrel.corpus.lines import json_object, numbered_lines
from fedrel.corpus.tokens import token_span, tokenize
from fedrel.corpus.types import Instance, Mention, Skipped
from fedrel.errors import UserError


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line. None is skipped."""
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        yield where, _instance(line, where)


def _instance(line: str, where: str) -> Instance:
    row = json_object(line, where)
    relation, source, expressed = row.get("relation"), row.get("source", ""), row.get("expressed")
    if not isinstance(relation, str) or not relation:
        raise UserError(f'{where}: "relation" is missing or no text')
    if not isinstance(source, str) or not (expressed is None or isinstance(expressed, bool)):
        raise UserError(f'{where}: "source" must be text and "expressed" true or false')
    if isinstance(row.get("text"), str):
        tokens, begins, ends = tokenize(row["text"])
        characters = _positions(row, len(row["text"]), "characters", where)
        spans = [
            token_span(begins, ends, *span, f"{where}: {word}")
            for span, (_, word) in zip(characters, _SIDES, strict=True)
        ]
    elif isinstance(row.get("token"), list) and all(isinstance(token, str) for token in row["token"]):
        tokens = row["token"]
        spans = _positions(row, len(tokens), "tokens", where)
    else:
        raise UserError(f'{where}: neither "text" nor "token" holds the sentence')
    head, tail = (
        Mention(_identity(row[side], where), *span, _type(row[side]))
        for (side, _), span in zip(_SIDES, spans, strict=True)
    )
    return Instance(tokens, head, tail, relation, source, expressed)


_SIDES = (("h", "head"), ("t", "tail"))


def _positions(row: dict[str, object], size: int, unit: str, where: str) -> list[tuple[int, int]]:
    """Head and tail, each start and end in a sentence of `size` units."""
    spans = []
    for side, word in _SIDES:
        entity = row.get(side)
        position = entity.get("pos") if isinstance(entity, dict) else None
        if not isinstance(position, list) or len(position) != 2 or not all(type(n) is int for n in position):
            raise UserError(f'{where}: "{side}" needs "pos": [start, end]')
        start, end = position
        if not 0 <= start < end <= size:
            raise UserError(f"{where}: {word} position {start}..{end} lies outside the {size} {unit}")
        spans.append((start, end))
    return spans


def _identity(entity: dict[str, object], where: str) -> str:
    identity = entity.get("id") or entity.get("name")
    if not isinstance(identity, str) or not identity.strip():
        raise UserError(f'{where}: an entity needs an "id" or a "name"')
    return identity


def _type(entity: dict[str, object]) -> str:
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
    """By two of its keys: many formats have one of them."""
    return 'JSON lines with "h", "t" and "relation"' if len(sample.keys & {"h", "t", "relation"}) > 1 else None


FORMAT = Format(
    what='JSON lines with "text" or "token", "h", "t" and "relation"',
    sentences=read,
    by_content=_by_content,
    keys=(frozenset(("text", "h", "t", "relation")), frozenset(("token", "h", "t", "relation"))),
    header_rows=no_header,
)
