"""The sentences that support facts, as the model read them: what a person judges, and what can be learnt from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedrel.corpus import Instance, Mention
from fedrel.errors import UserError
from fedrel.extraction.extract import Words
from fedrel.extraction.facts import Fact, Support

Spans = tuple[int, int, int, int]  # head start, head end, tail start and tail end, in tokens
_LONGEST_LINE = 10_000_000  # characters of a fact


@dataclass(frozen=True, slots=True)
class Supporting:
    """A sentence that supports a fact, as the model read it."""

    fact: Fact
    support: Support
    tokens: Sequence[str]
    spans: Spans

    @property
    def instance(self) -> Instance:
        """The sentence with the fact's relation as its label."""
        a, b, c, d = self.spans
        head, tail = Mention(self.fact.head, a, b), Mention(self.fact.tail, c, d)
        return Instance(self.tokens, head, tail, self.fact.relation, document=self.support.document)


def supporting(facts: Iterable[Fact]) -> Iterator[Supporting]:
    """The sentences of facts. Raises UserError for one whose names are not in it."""
    for fact in facts:
        for it in fact.support:
            words = Words.of(it.text)
            spans = (*words.touched(*it.head), *words.touched(*it.tail))
            if not 0 <= spans[0] < spans[1] <= len(words) or not 0 <= spans[2] < spans[3] <= len(words):
                raise UserError(
                    f"{fact.head_name} – {fact.relation} – {fact.tail_name}: the places of its names lie outside its "
                    f"sentence in {it.document}; extract the facts again"
                )
            yield Supporting(fact, it, words.tokens, spans)


def are_facts(path: Path) -> bool:
    """Whether a file is one of facts, as fedrel extract writes it: by its first line."""
    if not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8") as file:
            row = json.loads(file.readline(_LONGEST_LINE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and {"head", "relation", "tail", "support"} <= row.keys()
