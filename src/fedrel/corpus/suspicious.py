"""Rows that a person should look at: counted by kind, the first few named with their places."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from itertools import combinations, islice

from fedrel.corpus.packed import named_as_given
from fedrel.corpus.rules import LOCAL
from fedrel.corpus.types import SHOWN, Document, Instance, LabelledText, Mention

LONGEST, SHORTEST = 300, 3  # tokens of a sentence

Found = Iterator[tuple[str, str]]  # the kind, and what was seen


class Suspicions:
    """Counts rows by what is odd about them. An entity is known by its id; without one, by its type and place in the
    sentence, since what stands for the id differs from document to document. With `blinded`, ids say nothing either.
    """

    def __init__(self, *, blinded: bool = False) -> None:
        self.blinded = blinded
        self.totals: Counter[str] = Counter()
        self.first: defaultdict[str, list[str]] = defaultdict(list)
        # What was seen, by its hash, and where it was first: half a million rows fit in memory, their words would not.
        self._rows: dict[int, str] = {}
        self._labels: dict[int, tuple[str, str]] = {}
        self._splits: defaultdict[str, dict[int, str]] = defaultdict(dict)

    def look_at(self, it: Instance | LabelledText | Document, where: str, split: str = "") -> None:
        """Counts what is odd about a row, given its place and its split."""
        if isinstance(it, Instance):
            found = self._in_sentence(it, where, split)
        elif isinstance(it, LabelledText):
            found = self._repeated(where, split, it.label, (), "text", tuple(it.tokens))
        else:
            found = self._repeated(where, split, "", (), "text", it.text)
        for kind, what in found:
            self.totals[kind] += 1
            if len(self.first[kind]) < SHOWN and (told := named_as_given(f"{where}: {what}")) not in self.first[kind]:
                self.first[kind].append(told)

    def in_two_splits(self) -> dict[str, int]:
        """`train-test`: how many sentences with their pairs, or texts, are in both, whatever their labels."""
        return {
            f"{one}-{other}": len(self._splits[one].keys() & self._splits[other].keys())
            for one, other in combinations(list(self._splits), 2)
        }

    def first_in_two_splits(self) -> dict[str, list[str]]:
        """`train-test`: where the first few of them are, for every two splits that have such."""
        found = {
            f"{one}-{other}": list(islice(_in_both(self._splits[one], self._splits[other]), SHOWN))
            for one, other in combinations(list(self._splits), 2)
        }
        return {splits: places for splits, places in found.items() if places}

    def _in_sentence(self, it: Instance, where: str, split: str) -> Found:
        head, tail, tokens = it.head, it.tail, tuple(it.tokens)
        places = (head.start, head.end, tail.start, tail.end)
        pair = self._known(head), self._known(tail)
        yield from self._repeated(where, split, it.relation, places, "sentence and pair", tokens, pair)
        if head.id == tail.id:
            words = " ".join(tokens[head.start : head.end]) if head.id.startswith(LOCAL) else head.id
            yield "head and tail are one entity", f"{words} stands for both"
        elif head.start < tail.end and tail.start < head.end:
            yield "head and tail overlap", f"tokens {head.start}..{head.end} and {tail.start}..{tail.end}"
        if len(tokens) > LONGEST:
            yield f"more than {LONGEST} tokens", f"{len(tokens):,} tokens"
        if len(tokens) < SHORTEST:
            yield f"fewer than {SHORTEST} tokens", f"{len(tokens)} tokens"

    def _known(self, mention: Mention) -> Hashable:
        """What is the same for the same entity in an equal sentence."""
        local = self.blinded or mention.id.startswith(LOCAL)
        return (mention.start, mention.end, mention.type) if local else mention.id

    def _repeated(self, where: str, split: str, label: str, places: Hashable, what: str, *content: Hashable) -> Found:
        """`content` is what should have one label; a row is a duplicate if its places and its label are equal, too."""
        key = hash(content)
        self._splits[split].setdefault(key, where)
        row = hash((key, places, label))
        if row in self._rows:
            yield "duplicate rows", f"the same as {self._rows[row]}"
        self._rows.setdefault(row, where)
        before, other = self._labels.setdefault(key, (where, label))
        if other != label:
            yield f"one {what}, two labels", f'"{label}" here, "{other}" in {before}'


def _in_both(one: dict[int, str], other: dict[int, str]) -> Iterator[str]:
    return (named_as_given(f"{where}: also in {one[key]}") for key, where in other.items() if key in one)
