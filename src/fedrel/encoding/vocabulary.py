"""The words a model knows. Number 0 is padding (always the zero vector), 1 any unknown word."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedrel.bags import Dataset, Ints

PADDING, UNKNOWN = "<pad>", "<unk>"


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


def from_words(words: Iterable[str]) -> Vocabulary:
    """Distinct lower-cased words in order of first appearance."""
    return Vocabulary((PADDING, UNKNOWN, *dict.fromkeys(word.lower() for word in words)))


def from_training(dataset: Dataset, extra: Iterable[str] = ()) -> Vocabulary:
    """Every word of the training sentences (those of dev and test are not looked at), then `extra`."""
    used = np.unique(dataset.train.tokens)
    return from_words([*(dataset.words[i] for i in used), *extra])
