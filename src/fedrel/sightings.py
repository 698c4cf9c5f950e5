"""Sentences with a candidate pair, on disk until they are scored, since the sentences of a pair come from anywhere.

Memory holds what is distinct (pairs, documents) and one number a sentence; the rest is appended to files and mapped
back when it is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrel.bags import Ints, Split

_COLUMNS = {"tokens": "i", "lengths": "i", "spans": "i", "pairs": "i", "sentences": "i", "places": "i"}
_OF_SENTENCES = {"documents": "i", "starts": "q", "bytes": "q"}
_BUFFERED = 1 << 20  # bytes of a column


class Sightings:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._columns = {name: array(code) for name, code in (_COLUMNS | _OF_SENTENCES).items()}
        self._text = bytearray()
        self._text_size = 0
        self.documents: dict[str, int] = {}
        self.pairs: dict[tuple[str, str], int] = {}
        self.sentences = 0

    def add_sentence(self, document: str, start: int, text: str) -> int:
        """Its number, for the sightings in it."""
        columns = self._columns
        columns["documents"].append(self.documents.setdefault(document, len(self.documents)))
        columns["starts"].append(start)
        columns["bytes"].append(self._text_size)
        raw = text.encode("utf-8", "surrogatepass")
        self._text += raw
        self._text_size += len(raw)
        self.sentences += 1
        if len(self._text) > _BUFFERED:
            self._write()
        return self.sentences - 1

    def add(
        self,
        sentence: int,
        tokens: Sequence[int],
        spans: tuple[int, int, int, int],
        places: tuple[int, int, int, int],
        pair: tuple[str, str],
    ) -> None:
        """`spans` of head and tail in tokens, `places` in characters."""
        columns = self._columns
        columns["tokens"].extend(tokens)
        columns["lengths"].append(len(tokens))
        columns["spans"].extend(spans)
        columns["places"].extend(places)
        columns["sentences"].append(sentence)
        columns["pairs"].append(self.pairs.setdefault(pair, len(self.pairs)))

    def _write(self) -> None:
        for name, column in self._columns.items():
            with (self.folder / name).open("ab") as file:
                column.tofile(file)
            del column[:]
        with (self.folder / "text").open("ab") as file:
            file.write(self._text)
        self._text.clear()

    def close(self) -> None:
        """All is written; from here on it is read."""
        self._columns["bytes"].append(self._text_size)
        self._write()
        self._read = {name: self._map(name, code) for name, code in (_COLUMNS | _OF_SENTENCES).items()}
        self._offsets = np.r_[0, np.cumsum(self._read["lengths"], dtype=np.int64)]
        path = self.folder / "text"
        self._texts: Any = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)

    def _map(self, name: str, code: str) -> npt.NDArray[Any]:
        path, kind = self.folder / name, np.dtype(code)
        return np.memmap(path, kind, "r") if path.stat().st_size else np.zeros(0, kind)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def chunks(self, sentences: int, meaning: Ints) -> Iterator[tuple[Split, Ints, Ints, Ints]]:
        """About `sentences` sightings at a time, all of a pair together: as a split, the places where its bags begin,
        the pair of each bag, and the sightings they are. `meaning` says for every pair which one it stands for.
        """
        pairs = meaning[self._read["pairs"]]
        order = np.argsort(pairs, kind="stable")
        starts = np.flatnonzero(np.r_[True, pairs[order[1:]] != pairs[order[:-1]]]) if len(order) else order
        starts = np.r_[starts, len(order)]
        first = 0
        while first < len(starts) - 1:
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + sentences, "right")) - 1)
            rows = order[starts[first] : starts[last]]
            yield self._split(rows), starts[first : last + 1] - starts[first], pairs[order[starts[first:last]]], rows
            first = last

    def _split(self, rows: Ints) -> Split:
        lengths = self._read["lengths"][rows].astype(np.int64)
        offsets = np.r_[0, np.cumsum(lengths)]
        source = np.repeat(self._offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        empty = np.zeros(len(rows), np.int32)
        return Split(
            tokens=self._read["tokens"][source],
            offsets=offsets,
            spans=self._read["spans"].reshape(-1, 4)[rows],
            labels=empty,
            pairs=self._read["pairs"][rows],
            sources=empty,
            expressed=np.full(len(rows), -1, np.int8),
            pair_entities=np.zeros((0, 2), np.int32),
        )

    def place(self, sighting: int) -> tuple[int, int, str, tuple[int, int], tuple[int, int]]:
        """Number of the document, where the sentence begins in it, the sentence, and head and tail in it."""
        sentence = int(self._read["sentences"][sighting])
        begin, end = (int(n) for n in self._read["bytes"][sentence : sentence + 2])
        text = bytes(self._texts[begin:end]).decode("utf-8", "surrogatepass")
        a, b, c, d = (int(n) for n in self._read["places"][4 * sighting : 4 * sighting + 4])
        return int(self._read["documents"][sentence]), int(self._read["starts"][sentence]), text, (a, b), (c, d)
