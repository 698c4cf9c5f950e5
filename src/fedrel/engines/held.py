"""The replies of one request while a round makes use of them: few in memory, many on disk.

Ten thousand replies of a megabyte each would not fit into memory, and a mean looks at one after the other anyway.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from fedrel.learning.named import Named
from fedrel.protocol.codec import Payload, Record, decode

IN_MEMORY = 64 * 2**20  # bytes of replies to one request


class Held(Mapping[str, Mapping[str, Named | float]]):
    """Replies, in the order in which they were added. Those beyond `limit` bytes lie in a file without a name, which is
    gone as soon as nobody holds them; the same bits are decoded from it.
    """

    def __init__(self, limit: int = IN_MEMORY) -> None:
        self._left = limit
        self._replies: dict[str, Mapping[str, Named | float]] = {}

    def add(self, name: str, reply: Record, payload: Payload) -> None:
        """`payload` is the reply encoded; empty: it cannot be put elsewhere."""
        self._left -= len(payload)
        self._replies[name] = reply if self._left >= 0 or not payload else self._on_disk(reply, payload)

    def _on_disk(self, reply: Record, payload: Payload) -> _OnDisk:
        begin = self._file.append(payload)
        numbers = {field: None if isinstance(value, Named) else value for field, value in reply.items()}
        return _OnDisk(self._file, begin, len(payload), numbers)

    @cached_property
    def _file(self) -> _File:
        return _File()

    def __getitem__(self, name: str) -> Mapping[str, Named | float]:
        return self._replies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._replies)

    def __len__(self) -> int:
        return len(self._replies)


@dataclass(frozen=True, eq=False)
class _OnDisk(Mapping[str, Named | float]):
    file: _File
    begin: int
    size: int
    numbers: dict[str, float | None]  # None: tensors, which are read when they are asked for

    def __getitem__(self, field: str) -> Named | float:
        number = self.numbers[field]
        return decode(self.file.read(self.begin, self.size))[field] if number is None else number

    def __contains__(self, field: object) -> bool:
        return field in self.numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)


class _File:
    """Without a name, so that a crash leaves nothing behind."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it stays open as long as a reply in it may be read

    def __del__(self) -> None:
        self._file.close()

    def append(self, payload: Payload) -> int:
        """Where it begins."""
        begin = self._file.seek(0, os.SEEK_END)
        self._file.write(payload)
        return begin

    def read(self, begin: int, size: int) -> bytearray:
        payload = bytearray(size)
        self._file.seek(begin)
        self._file.readinto(payload)
        return payload
