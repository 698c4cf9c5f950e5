"""From words to tensors: how an extractor reads sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from fedrel.data.store import Ints, Split
from fedrel.encoding.shard import Shard


class Encoding(Protocol):
    def __len__(self) -> int: ...

    def numbers(self, words: Sequence[str]) -> Ints:
        """(len(words),) what `pack` calls each of these words."""

    def pack(self, split: Split, rows: Ints, bag_starts: Ints, numbers: Ints | None = None) -> Shard:
        """The given rows in the given order; `numbers` maps the split's words to ours, unless they are ours already."""

    def save(self, folder: Path) -> list[str]:
        """Writes what is needed to read other text the same way; the names of the files."""
