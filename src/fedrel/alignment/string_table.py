"""Many short texts in little memory: a million ids as a list of str take 60 MB, and 150 MB as a dict."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray


class _Texts(Sequence[str]):
    @abstractmethod
    def _text(self, number: int) -> str: ...

    @overload
    def __getitem__(self, where: int) -> str: ...
    @overload
    def __getitem__(self, where: slice) -> list[str]: ...
    def __getitem__(self, where: int | slice) -> str | list[str]:
        chosen = range(len(self))[where]
        return self._text(chosen) if isinstance(chosen, int) else [self._text(number) for number in chosen]


class Strings(_Texts):
    """Texts one after the other as UTF-8."""

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
        """One for each text: equal texts have equal hashes, and seldom have different ones."""
        spans = zip(self._ends, self._ends[1:], strict=False)
        return np.fromiter((crc32(self._bytes[begin:end]) for begin, end in spans), np.uint32, len(self))


class Chosen(_Texts):
    """Texts of which there are few different ones."""

    def __init__(self, different: Sequence[str], numbers: Sequence[int]) -> None:
        self._different, self._numbers = different, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def _text(self, number: int) -> str:
        return self._different[self._numbers[number]]


class Numbers(Mapping[str, int]):
    """The place of each of some different texts."""

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
