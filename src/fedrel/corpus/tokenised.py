"""Documents from sentences that are tokenised already: offsets, sentences and tokens as the format gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedrel.corpus.types import Annotation, Document
from fedrel.errors import UserError


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
    relations: tuple[tuple[str, str, str], ...] | None,
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
        if not 0 <= it.sentence < len(sentences):
            raise UserError(f"{where}: {it.key} is in sentence {it.sentence} of {len(sentences)}, counted from 0")
        length = len(sentences[it.sentence])
        if not 0 <= it.start < it.end <= length:
            raise UserError(
                f"{where}: {it.key} has the tokens {it.start}..{it.end} of a sentence of {length}; "
                "positions must lie within it"
            )
        start, end = tokens[first[it.sentence] + it.start][0], tokens[first[it.sentence] + it.end - 1][1]
        if start == end:
            raise UserError(f"{where}: {it.key} covers no character; it must cover a word")
        marked.append(Annotation(it.key, start, end, it.type, it.id, it.entities))
    kept = tuple(span for span in spans if span[0] < span[1])
    return Document(name, "\n".join(pieces), tuple(marked), relations, where, kept, tuple(tokens), listed)
