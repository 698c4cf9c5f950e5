"""Sentences as word numbers, for extractors with an embedding table of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedrel.config import Extractor
from fedrel.data.store import Ints, Split
from fedrel.encoding.packed import PackedShard, pack
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.errors import UserError
from fedrel.util.files import write_atomic

_VOCABULARY, _STAND_INS = "vocabulary.txt", "stand_ins.txt"


@dataclass(frozen=True)
class WordEncoding:
    """Encodes sentences by a vocabulary of words; see `fedrel.encoding.Encoding`."""

    vocabulary: Vocabulary
    reach: int  # distances to an entity are clipped to ±reach
    gap: int  # separators after each sentence
    # (V,) the word that each word becomes where a name is hidden; None: none is
    stand_ins: Ints | None = field(default=None, compare=False)

    @classmethod
    def of(cls, settings: Extractor, vocabulary: Vocabulary, stand_ins: Ints | None = None) -> WordEncoding:
        """The encoding for an extractor with these settings."""
        return cls(vocabulary, settings.reach, settings.window // 2, stand_ins)

    @classmethod
    def load(cls, folder: Path, settings: Extractor) -> WordEncoding:
        """The encoding that `save` has written to a folder."""
        words = (folder / _VOCABULARY).read_text(encoding="utf-8").split("\n")
        stand_ins = _read_stand_ins(folder / _STAND_INS, len(words)) if settings.hide_names else None
        return cls.of(settings, Vocabulary(tuple(words)), stand_ins)

    def save(self, folder: Path) -> list[str]:
        """Writes vocabulary and stand-ins for `load`; returns the names of the files."""
        write_atomic(folder / _VOCABULARY, "\n".join(self.vocabulary.words))
        if self.stand_ins is None:
            return [_VOCABULARY]
        write_atomic(folder / _STAND_INS, "\n".join(map(str, self.stand_ins.tolist())))
        return [_VOCABULARY, _STAND_INS]

    def __len__(self) -> int:
        return len(self.vocabulary)

    def numbers(self, words: Sequence[str]) -> Ints:
        """(len(words),) the number of each word in the vocabulary."""
        return self.vocabulary.lookup(words)

    def pack(self, split: Split, rows: Ints, bag_starts: Ints, numbers: Ints | None = None) -> PackedShard:
        """The sentences of these rows, in this order. `numbers` maps the split's word numbers to the vocabulary's; None
        if they are the same.
        """
        return pack(split, rows, bag_starts, numbers, reach=self.reach, gap=self.gap, stand_ins=self.stand_ins)


def _read_stand_ins(path: Path, words: int) -> Ints:
    try:
        found = np.array(path.read_text(encoding="utf-8").split(), dtype=np.int64)
    except (OSError, ValueError):
        found = np.zeros(0, np.int64)
    if len(found) != words or not ((found >= 0) & (found < words)).all():
        raise UserError(f"{path}: not the stand-ins of these words; copy the model again")
    return found
