"""Splits of distant supervision that leak neither a pair nor a sentence.

Pairs are what is evaluated, so each goes to one split, by its hash. But a sentence with several pairs would then be in
several splits, and what is learnt from it in one would help in another. So sentences are kept together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

NEITHER = 255  # of a row: left out, since its sentence and its pair are in different splits


@dataclass
class Draft:
    """Rows with the split that was drawn for their pair, a small number, which `decide` makes consistent."""

    sentences: array[int] = field(default_factory=lambda: array("q"))  # hashes
    pairs: array[int] = field(default_factory=lambda: array("q"))
    facts: bytearray = field(default_factory=bytearray)  # 1: with a relation
    drawn: bytearray = field(default_factory=bytearray)

    def add(self, sentence: int, pair: int, *, is_fact: bool, drawn: int) -> None:
        """A row, with hashes of 64 bits, signed, of its sentence and of its pair."""
        self.sentences.append(sentence)
        self.pairs.append(pair)
        self.facts.append(is_fact)
        self.drawn.append(drawn)

    def extend(self, other: Draft) -> None:
        """Adds the rows of another draft after these."""
        self.sentences.extend(other.sentences)
        self.pairs.extend(other.pairs)
        self.facts += other.facts
        self.drawn += other.drawn

    def decide(self) -> bytes:
        """The split of each row. Pairs with a relation go where they were drawn. A sentence goes where its facts go, of
        several splits to the highest; a pair without a relation where the first sentence with a fact goes in which it
        is, and without such a sentence where it was drawn. Rows for which this is contradictory are in NEITHER.
        """
        of_pair = {pair: drawn for _, pair, is_fact, drawn in self._rows() if is_fact}
        of_sentence: dict[int, int] = {}
        for sentence, _, is_fact, drawn in self._rows():
            if is_fact:
                of_sentence[sentence] = max(of_sentence.get(sentence, 0), drawn)
        for sentence, pair, is_fact, _ in self._rows():
            if not is_fact and sentence in of_sentence:
                of_pair.setdefault(pair, of_sentence[sentence])
        for sentence, pair, _, drawn in self._rows():  # what no fact decides
            of_sentence.setdefault(sentence, of_pair.setdefault(pair, drawn))
        return bytes(
            of_pair[pair] if of_pair[pair] == of_sentence[sentence] else NEITHER
            for sentence, pair in zip(self.sentences, self.pairs, strict=True)
        )

    def _rows(self) -> Iterable[tuple[int, int, int, int]]:
        return zip(self.sentences, self.pairs, self.facts, self.drawn, strict=True)
