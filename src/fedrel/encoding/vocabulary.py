"""The words a model knows. Number 0 is padding (always the zero vector), 1 any unknown word."""

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedrel.bags import Dataset, Ints

PADDING, UNKNOWN = "<pad>", "<unk>"
_BREAKS = set("\r\n")  # a model lists its words one a line


@dataclass(frozen=True)
class Vocabulary:
    words: tuple[str, ...]  # lower case; the first two are PADDING and UNKNOWN

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def lookup(self, words: Sequence[str]) -> Ints:
        """(len(words),) the model's number of every word."""
        known = self.numbers
        return np.array([known.get(word.lower(), 1) for word in words], dtype=np.int64).reshape(-1)


def from_training(dataset: Dataset, min_count: int, always: Container[str] = ()) -> Vocabulary:
    """The words that the training sentences hold `min_count` times or more, and those of `always` that they
    hold at all; dev and test are not looked at. Rarer words share one vector: a model that knows them by
    heart learns names instead of language, and gives away who was written about.
    """
    counts = Counter[str]()
    for number, count in zip(*np.unique(dataset.train.tokens, return_counts=True), strict=True):
        counts[dataset.words[number].lower()] += int(count)
    kept = (word for word, count in counts.items() if count >= min_count or word in always)
    return Vocabulary((PADDING, UNKNOWN, *(word for word in kept if not _BREAKS & set(word))))
