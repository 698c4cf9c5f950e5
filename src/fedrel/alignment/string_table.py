"""Compact collections of strings: a million ids take 60 MB as a list of str, and 150 MB as a dict."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray


class _StringSequence(Sequence[str]):
    @abstractmethod
    def _text(self, number: int) -> str: ...

    @overload
    def __getitem__(self, where: int) -> str: ...
    @overload
    def __getitem__(self, where: slice) -> list[str]: ...
    def __getitem__(self, where: int | slice) -> str | list[str]:
        chosen = range(len(self))[where]
        return self._text(chosen) if isinstance(chosen, int) else [self._text(number) for number in chosen]


class Strings(_StringSequence):
    """An append-only list of strings, stored as one buffer of UTF-8."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bytes = bytearray()
        self._ends = array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        self._bytes += text.encode()
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[str]:
        return map(self._text, range(len(self)))

    def _text(self, number: int) -> str:
        return self._bytes[self._ends[number] : self._ends[number + 1]].decode()

    def hashes(self) -> NDArray[np.uint32]:
        """The CRC-32 of each string, (strings,)."""
        spans = zip(self._ends, self._ends[1:], strict=False)
        return np.fromiter((crc32(self._bytes[begin:end]) for begin, end in spans), np.uint32, len(self))


class Categorical(_StringSequence):
    """A sequence with few distinct strings: item i is distinct[codes[i]]."""

    def __init__(self, distinct: Sequence[str], codes: Sequence[int]) -> None:
        self._distinct, self._codes = distinct, codes

    def __len__(self) -> int:
        return len(self._codes)

    def _text(self, number: int) -> str:
        return self._distinct[self._codes[number]]


class StringIndex(Mapping[str, int]):
    """The position of each string in a list of distinct strings, by binary search over their hashes."""

    def __init__(self, texts: Strings) -> None:
        self._texts = texts
        hashes = texts.hashes()
        self._order = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._order]

    def __getitem__(self, text: str) -> int:
        digest = np.uint32(crc32(text.encode("utf-8", "surrogatepass")))
        at = int(self._hashes.searchsorted(digest))
        while at < len(self._hashes) and self._hashes[at] == digest:
            number = int(self._order[at])
            if self._texts[number] == text:
                return number
            at += 1
        raise KeyError(text)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
