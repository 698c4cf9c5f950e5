"""Sentences as word numbers, for extractors with a table of word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedrel.config import Extractor
from fedrel.data.store import Ints, Split
from fedrel.encoding.packed import PackedShard, pack
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.util.files import write_whole

_VOCABULARY = "vocabulary.txt"


@dataclass(frozen=True)
class WordEncoding:
    vocabulary: Vocabulary
    reach: int
    gap: int

    @classmethod
    def of(cls, settings: Extractor, vocabulary: Vocabulary) -> WordEncoding:
        return cls(vocabulary, settings.reach, settings.window // 2)

    @classmethod
    def load(cls, folder: Path, settings: Extractor) -> WordEncoding:
        words = (folder / _VOCABULARY).read_text(encoding="utf-8").split("\n")
        return cls.of(settings, Vocabulary(tuple(words)))

    def save(self, folder: Path) -> list[str]:
        """Writes what `load` reads; the names of the files."""
        write_whole(folder / _VOCABULARY, "\n".join(self.vocabulary.words))
        return [_VOCABULARY]

    def __len__(self) -> int:
        return len(self.vocabulary)

    def numbers(self, words: Sequence[str]) -> Ints:
        """(len(words),) what `pack` calls each of these words."""
        return self.vocabulary.lookup(words)

    def pack(self, split: Split, rows: Ints, bag_starts: Ints, numbers: Ints | None = None) -> PackedShard:
        """`numbers` maps the split's words to ours; without it, the split's words are ours already."""
        return pack(split, rows, bag_starts, numbers, reach=self.reach, gap=self.gap)
