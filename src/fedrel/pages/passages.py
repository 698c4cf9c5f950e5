"""Sentences with their two names marked, in the text around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from fedrel.pages.wording import Part

_AROUND = 240  # characters of the document before and after a sentence
_WINDOW = 20_000  # characters of a document before and after the place that is looked at


@dataclass(frozen=True)
class Passage:
    """A sentence with the text before and after it, as far as the document is at hand."""

    before: str
    parts: list[Part]
    after: str


@dataclass(frozen=True)
class Stretch:
    """A stretch of a document: plain text, or a sentence that supports facts, with the numbers of the facts."""

    text: str
    facts: tuple[int, ...] = ()


def parts_of(text: str, head: tuple[int, int], tail: tuple[int, int]) -> list[Part]:
    """A text, split at the boundaries of head and tail, which are places in it."""
    bounds = sorted({0, len(text), *(min(place, len(text)) for place in (*head, *tail))})
    found: list[Part] = []
    for begin, end in pairwise(bounds):
        roles = [name for name, (first, last) in (("head", head), ("tail", tail)) if first <= begin and end <= last]
        found.append((" ".join(roles), text[begin:end]))
    return found


def passage(text: str, start: int, head: tuple[int, int], tail: tuple[int, int], document: str | None) -> Passage:
    """A sentence, with its two names, in its document, where it begins at this character. The document's text may not
    be at hand, or may have changed since.
    """
    end = start + len(text)
    before = after = ""
    if document is not None and document[start:end] == text:
        before, after = document[max(0, start - _AROUND) : start], document[end : end + _AROUND]
        if start > _AROUND:
            before = "…" + before.partition(" ")[2]
        if end + _AROUND < len(document):
            after = after.rpartition(" ")[0] + "…"
    return Passage(before, parts_of(text, head, tail), after)


def stretches(document: str, sentences: Iterable[tuple[int, int, int]], around: int) -> Iterator[Stretch]:
    """A document, or the part of a long one around a character, split into sentences of facts and what lies between.
    `sentences` are (start, end, number of the fact).
    """
    low, high = max(0, around - _WINDOW), min(len(document), around + _WINDOW)
    facts: dict[tuple[int, int], list[int]] = {}
    for start, end, number in sentences:
        facts.setdefault((start, end), []).append(number)
    at = low
    for (start, end), numbers in sorted(facts.items()):
        if start < at or end > high:
            continue
        if start > at:
            yield Stretch(document[at:start])
        yield Stretch(document[start:end], tuple(dict.fromkeys(numbers)))
        at = end
    if at < high:
        yield Stretch(document[at:high])
