"""Documents from sentences that are tokenised already: offsets, sentences and tokens as the format gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedrel.corpus.checks import EMPTY
from fedrel.corpus.columns import shortened
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

Relation = tuple[str, str, str]  # head, relation, tail; head and tail are keys of mentions, or names of entities


@dataclass(frozen=True)
class TokenSpan:
    """A mention: tokens start … end - 1 of a sentence, which is counted from 0. The other fields are those of
    `Annotation`.
    """

    key: str
    sentence: int
    start: int
    end: int
    type: str = ""
    id: str = ""
    entities: tuple[str, ...] = ()


def tokenised_document(
    name: str,
    sentences: Sequence[Sequence[str]],
    mentions: Iterable[TokenSpan],
    relations: tuple[Relation, ...] | None,
    where: str,
    *,
    listed: bool = False,
) -> Document:
    """A document whose text is its tokens, a blank between two of them and a line end after a sentence. Tokens without
    a visible character stay: offsets of the format count them. UserError for a mention outside of its sentence.
    """
    pieces: list[str] = []
    tokens: list[tuple[int, int]] = []
    spans: list[tuple[int, int]] = []
    first: list[int] = []  # token of each sentence
    place = 0
    for sentence in sentences:
        first.append(len(tokens))
        begin = place
        for token in sentence:
            tokens.append((place, place + len(token)))
            place += len(token) + 1
        pieces.append(" ".join(sentence))
        place = max(place, begin + 1)  # an empty sentence is a line, too
        spans.append((begin, place - 1))
    marked = []
    for it in mentions:
        check_mention(it, sentences, where)
        start, end = tokens[first[it.sentence] + it.start][0], tokens[first[it.sentence] + it.end - 1][1]
        marked.append(Annotation(it.key, start, end, it.type, it.id, it.entities))
    kept = tuple(span for span in spans if span[0] < span[1])
    return Document(name, "\n".join(pieces), tuple(marked), relations, where, kept, tuple(tokens), listed)


def check_mention(it: TokenSpan, sentences: Sequence[Sequence[str]], where: str) -> None:
    """Raises UserError unless a mention lies within its sentence and covers a word."""
    key = shortened(it.key)
    if not 0 <= it.sentence < len(sentences):
        raise UserError(
            f'{where}: the entity "{key}" is in sentence {it.sentence} of {len(sentences)}; sentences count from 0'
        )
    length = len(sentences[it.sentence])
    if not 0 <= it.start < it.end <= length:
        raise UserError(
            f'{where}: the entity "{key}" has the tokens {it.start}..{it.end} of a sentence of {length}; '
            "positions must lie within it"
        )
    if not "".join(sentences[it.sentence][it.start : it.end]).strip():
        raise UserError(f'{where}: the entity "{key}" covers no character; it must cover a word')


def what_is_whole(
    name: str,
    sentences: Sequence[Sequence[str]],
    mentions: Iterable[TokenSpan],
    relations: Iterable[Relation] | None,
    where: str,
    skip: Skipped,
) -> Document | None:
    """A tokenised document without the mentions that are broken and the relations that need these, or that are there
    twice; `skip` is told of all of them. None, and it is told, if there is no text.
    """
    if not any(token.strip() for sentence in sentences for token in sentence):
        skip(where, EMPTY)
        return None
    whole = []
    for it in mentions:
        try:
            check_mention(it, sentences, where)
        except UserError as error:
            skip.bad(error, where)
        else:
            whole.append(it)
    joined = None
    if relations is not None:
        names = {name for it in whole for name in (it.key, *it.entities)}
        joined = tuple(once((it for it in relations if _is_there(it, names, where, skip)), where, skip))
    return tokenised_document(name, sentences, whole, joined, where)


def _is_there(relation: Relation, names: set[str], where: str, skip: Skipped) -> bool:
    if relation[0] in names and relation[2] in names:
        return True
    skip(where, "the relation needs an entity that was left out")
    return False


def once(relations: Iterable[Relation], where: str, skip: Skipped) -> Iterator[Relation]:
    """Each relation that is not the same as an earlier one, of which `skip` is told."""
    seen: set[Relation] = set()
    for relation in relations:
        if relation in seen:
            skip(where, "the relation is there twice")
        else:
            seen.add(relation)
            yield relation
