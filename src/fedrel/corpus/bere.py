"""Sentence, head, tail and relation as JSON, an array or one object a line: BERE's data, and that of THUNLP's old NRE.

    [{"sentence": "Zinc stops xase .", "head": {"word": "Zinc", "id": "DB1"}, "tail": {"word": "xase", "id": "P2"},
      "relation": "inhibitor", "pmid": "17"}, …]

Entities have no offsets, so they are looked for in the sentence: as whole words, in any case if they are not there as
they are written, and inside of longer words at last, where BERE itself takes them, too. Where one name is a part of the
other, places that do not overlap come first. Most of this data is distant supervision (BERE's drugs and targets, NYT);
its drug-drug interactions were labelled by people.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedrel.corpus.checks import sentence_tokens
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.json_rows import EXTENSIONS, name_of, type_of
from fedrel.corpus.lines import each_object
from fedrel.corpus.tokens import token_span
from fedrel.corpus.types import Instance, Mention, Skipped
from fedrel.corpus.unlabelled import without_key
from fedrel.errors import UserError

_ENTITY = re.compile(r'"(?:head|tail)"\s*:\s*\{\s*"(?:word|name|id|type)"\s*:')

Span = tuple[int, int]


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place. A row that cannot be read, as one that lacks an entity, is reported as broken."""
    yield from each_object(path, skip, _instance)


def _instance(row: dict[str, Any], where: str) -> Instance:
    sentence, relation = row.get("sentence"), row.get("relation")
    if not isinstance(sentence, str) or not sentence.strip():
        raise UserError(f'{where}: "sentence" is missing or no text')
    if not isinstance(relation, str) or not relation.strip():
        raise UserError(f'{where}: "relation" is missing or no text; write NA where there is none')
    entities = [_entity(row, side, where) for side in ("head", "tail")]
    spans = _apart(*(_places(sentence, word, where) for word, _, _ in entities))
    tokens, begins, ends = sentence_tokens(sentence, where)
    head, tail = (
        Mention(identity, *token_span(begins, ends, *span, f"{where}: {shortened(word)}"), type_)
        for (word, identity, type_), span in zip(entities, spans, strict=True)
    )
    document = name_of(row.get("pmid"), "")
    return Instance(tokens, head, tail, relation.strip(), source=document, document=document)


def _entity(row: dict[str, Any], side: str, where: str) -> tuple[str, str, str]:
    """Word, id and type."""
    entity = row.get(side)
    word = entity.get("word", entity.get("name")) if isinstance(entity, dict) else None
    if not isinstance(entity, dict) or not isinstance(word, str) or not word.strip():
        raise UserError(f'{where}: "{side}" needs "word", what the entity is called in the sentence')
    return word.strip(), name_of(entity.get("id"), ""), type_of(entity.get("type"))


def _places(sentence: str, word: str, where: str) -> list[Span]:
    """All places of a word that are as good as its best one; UserError if there is none."""
    spellings = [(sentence, it) for it in dict.fromkeys((word, word.replace("_", " "), word.replace(" ", "_")))]
    lowered = sentence.lower()
    if len(lowered) == len(sentence):  # it is not for a few letters, and then places would differ
        spellings += [(lowered, it.lower()) for _, it in spellings]
    for whole in (True, False):
        for text, wanted in spellings:
            if found := [span for span in _occurrences(text, wanted) if not whole or _is_whole(text, *span)]:
                return found
    raise UserError(f'{where}: the entity "{shortened(word)}" is not in the sentence; write it as the sentence does')


def _occurrences(text: str, word: str) -> Iterator[Span]:
    place = text.find(word)
    while place >= 0:
        yield place, place + len(word)
        place = text.find(word, place + len(word))


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no letter, digit or underscore goes on at either end."""
    before, after = text[max(start - 1, 0) : start + 1], text[end - 1 : end + 1]
    return not any(len(both) == 2 and all(it.isalnum() or it == "_" for it in both) for both in (before, after))


def _apart(heads: Sequence[Span], tails: Sequence[Span]) -> tuple[Span, Span]:
    """The first head and tail that do not overlap; the first of each if all do."""
    for head in heads:
        for tail in tails:
            if head[1] <= tail[0] or tail[1] <= head[0]:
                return head, tail
    return heads[0], tails[0]


def _by_content(sample: Sample) -> str | None:
    beginning = "".join(sample.lines).lstrip()
    named = '"sentence"' in beginning or '"word"' in beginning  # of an array with a key a line, one is there
    if beginning.startswith(("[", "{")) and named and _ENTITY.search(beginning):
        return 'JSON with "sentence", "head" and "tail"'
    return None


FORMAT = Format(
    what='BERE and old NRE: JSON with "sentence", "head", "tail" and "relation"',
    sentences=read,
    unlabelled=without_key("relation"),
    keys=(frozenset(("sentence", "head", "tail", "relation")),),
    by_content=_by_content,
    extensions=EXTENSIONS,
)
