"""What predict reads, sentences with two entities or bags of them, and what it says of them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedrel.corpus.checks import check_span
from fedrel.errors import UserError
from fedrel.extraction.candidates import Span
from fedrel.extraction.facts import arrow, in_short


@dataclass(frozen=True)
class Sentence:
    """A sentence and the character spans of two entities in it, text[head[0]:head[1]] and text[tail[0]:tail[1]], with
    their types (drug, disease, …) for a model that reads types in the place of names.
    """

    text: str
    head: Span
    tail: Span
    types: tuple[str, str] = ("", "")


@dataclass(frozen=True, repr=False)
class Prediction:
    """The predicted relation of two entities, by one sentence or by a bag of them, whose first gives the names."""

    head: str
    relation: str
    tail: str
    confidence: float
    confidences: dict[str, float]  # of all relations, best first

    def __str__(self) -> str:
        return f"{arrow(self.head, self.relation, self.tail)}  {in_short(self.confidence)}"

    def __repr__(self) -> str:
        return f"Prediction({self})"


def bags_of(sentences: Iterable[Sentence | Sequence[Sentence]]) -> Iterator[tuple[str, Sequence[Sentence]]]:
    """Every sentence or list of sentences as a bag, with what an error about it begins with."""
    for number, item in enumerate(sentences, 1):
        bag = [item] if isinstance(item, Sentence) else item
        if not isinstance(bag, Sequence) or not all(isinstance(it, Sentence) for it in bag):
            raise UserError(f"sentence {number} is a {type(item).__name__}; predict reads Sentences and lists of them")
        if not bag:
            raise UserError(f"sentence {number} is an empty list; a bag has at least one Sentence")
        yield f"sentence {number}: ", bag


def checked(text: str, span: Span, name: str) -> Span:
    """The span of a text as two integers. Raises UserError, which begins with its name, if it is none."""
    try:
        start, end = map(operator.index, span)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be two offsets into the text, (start, end), not {span!r}") from None
    check_span(text, start, end, name)
    return start, end
