"""Sentences as word numbers, for extractors with an embedding table of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedrel.config import Extractor
from fedrel.data.store import Ints, Split
from fedrel.encoding.packed import PackedShard, pack
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.util.files import write_atomic

_VOCABULARY = "vocabulary.txt"


@dataclass(frozen=True)
class WordEncoding:
    """Encodes sentences by a vocabulary of words; see `fedrel.encoding.Encoding`."""

    vocabulary: Vocabulary
    reach: int  # distances to an entity are clipped to ±reach
    gap: int  # separators after each sentence

    @classmethod
    def of(cls, settings: Extractor, vocabulary: Vocabulary) -> WordEncoding:
        """The encoding for an extractor with these settings."""
        return cls(vocabulary, settings.reach, settings.window // 2)

    @classmethod
    def load(cls, folder: Path, settings: Extractor) -> WordEncoding:
        """The encoding that `save` has written to a folder."""
        words = (folder / _VOCABULARY).read_text(encoding="utf-8").split("\n")
        return cls.of(settings, Vocabulary(tuple(words)))

    def save(self, folder: Path) -> list[str]:
        """Writes the vocabulary for `load`; returns the names of the files."""
        write_atomic(folder / _VOCABULARY, "\n".join(self.vocabulary.words))
        return [_VOCABULARY]

    def __len__(self) -> int:
        return len(self.vocabulary)

    def numbers(self, words: Sequence[str]) -> Ints:
        """(len(words),) the number of each word in the vocabulary."""
        return self.vocabulary.lookup(words)

    def pack(self, split: Split, rows: Ints, bag_starts: Ints, numbers: Ints | None = None) -> PackedShard:
        """The sentences of these rows, in this order. `numbers` maps the split's word numbers to the vocabulary's; None
        if they are the same.
        """
        return pack(split, rows, bag_starts, numbers, reach=self.reach, gap=self.gap)
