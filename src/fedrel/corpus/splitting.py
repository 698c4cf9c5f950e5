"""Splits of distant supervision that leak neither a pair nor a sentence.

Pairs are what is evaluated, so each goes to one split, by its hash. But a sentence with several pairs would then be in
several splits, and what is learnt from it in one would help in another. So sentences are kept together.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

NEITHER = 255  # of a row: left out, since its sentence and its pair are in different splits
TRAIN = 0
_TRIED = 20  # pairs that are tried one by one, where sentences join what should be kept apart


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

    def decide_with_facts(self, shares: Mapping[int, float]) -> bytes:
        """As `decide`, but chance leaves none of these splits, nor train, without a fact: of few facts, the first in
        the order of their hashes go to a split that has none, its share of them. Where there are too few facts, or all
        in one sentence, it stays as it was drawn.
        """
        decided = self.decide()
        filled = {split for split in (TRAIN, *shares) if self.facts_in(decided, split)}
        for split in sorted(shares.keys() - filled):
            free = {pair for _, pair, is_fact, drawn in self._rows() if is_fact and drawn in (TRAIN, split)}
            wanted = max(1, min(round(len(free) * shares[split]), len(free) - 1))
            needed = filled | {TRAIN, split}

            def settled(found: bytes, needed: set[int] = needed) -> bool:
                return all(self.facts_in(found, it) for it in needed)

            if (again := self.draw_again(split, sorted(free), wanted, settled)) is not None:
                decided, _ = again
                filled = needed
        return decided

    def draw_again(
        self, split: int, ranked: Sequence[int], wanted: int, settled: Callable[[bytes], bool]
    ) -> tuple[bytes, int] | None:
        """Of these pairs with a relation the first `wanted`, or fewer, go to a split and the others to train, such that
        what `decide` makes of it is `settled`. Returns that, and how many went; None if nothing will do.
        """
        several, alone = (ranked[:count] for count in range(wanted, 0, -1)), ([pair] for pair in ranked[1:_TRIED])
        before, all_ = self.drawn, set(ranked)
        for chosen in map(set, chain(several, alone)):
            self.drawn = bytearray(
                (split if pair in chosen else TRAIN) if is_fact and pair in all_ else drawn
                for (_, pair, is_fact, _), drawn in zip(self._rows(), before, strict=True)
            )
            if settled(decided := self.decide()):
                return decided, len(chosen)
        self.drawn = before
        return None

    def facts_in(self, decided: bytes, split: int) -> int:
        """How many pairs with a relation a decision puts into a split."""
        rows = zip(self.pairs, self.facts, decided, strict=True)
        return len({pair for pair, is_fact, it in rows if is_fact and it == split})

    def _rows(self) -> Iterable[tuple[int, int, int, int]]:
        return zip(self.sentences, self.pairs, self.facts, self.drawn, strict=True)
