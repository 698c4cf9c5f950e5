"""From words to tensors: how an extractor reads sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from fedrel.data.store import Ints, Split
from fedrel.encoding.packed import PackedShard
from fedrel.encoding.pieces import PieceEncoding, PieceShard
from fedrel.encoding.shard import Batch, Shard
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.encoding.words import WordEncoding

__all__ = [
    "Batch",
    "Encoding",
    "PackedShard",
    "PieceEncoding",
    "PieceShard",
    "Shard",
    "Vocabulary",
    "WordEncoding",
]


class Encoding(Protocol):
    """How an extractor reads sentences; its length is the number of rows in the embedding table."""

    def __len__(self) -> int: ...

    def numbers(self, words: Sequence[str]) -> Ints:
        """(len(words),) the number of each word in this encoding."""

    def pack(self, split: Split, rows: Ints, bag_starts: Ints, numbers: Ints | None = None) -> Shard:
        """The sentences of these rows, in this order, with bags that begin at `bag_starts` (bags+1,). `numbers` maps
        the split's word numbers to this encoding's; None if they are the same.
        """

    def save(self, folder: Path) -> list[str]:
        """Writes the files that are needed to encode other text in the same way; returns their names."""
