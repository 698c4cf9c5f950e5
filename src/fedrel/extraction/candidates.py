"""Sentences with candidate pairs, stored until all text is read, since the sentences of a pair can come from anywhere.

More than a few megabytes are written to temporary files, which are memory-mapped for reading.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints, Split

Span = tuple[int, int]

_COLUMNS = {
    **{"names": "B", "name_lengths": "i"},  # of documents
    **{
        "documents": "i",
        "begins": "q",
        "pages": "i",
        "texts": "B",
        "text_lengths": "i",
        "tokens": "i",
        "lengths": "i",
    },  # sentences
    **{"sentences": "i", "pairs": "q", "spans": "i", "places": "i", "types": "i"},  # of sightings
}
_BUFFERED = 1 << 20  # bytes of a column at which all columns are written to files


class Place(TypedDict):
    """Where a pair was seen: in a sentence that begins at character `start` of a document, on this page if it has
    pages. `head` and `tail` are character spans in the sentence.
    """

    document: str
    page: int | None
    start: int
    text: str
    head: Span
    tail: Span


@dataclass(frozen=True)
class Chunk:
    """S sightings of B pairs, each a bag."""

    split: Split  # of S sentences
    starts: Ints  # (B+1,) where the sightings of each pair begin
    pairs: Ints  # (B,) indices into Sightings.pairs
    seen: Ints  # (B,) how often the pair was seen in all, in this chunk or not
    rows: Ints  # (S,) the numbers of the sightings


class Sightings:
    """Mentions of entity pairs in sentences. Use `with Sightings() as seen:`, add sentences and the pairs in them, call
    `close`, then read. `pairs` (P, 2) are the distinct (head, tail), sorted, once it is closed.
    """

    def __init__(self) -> None:
        self._columns: dict[str, array[int]] = {name: array(code) for name, code in _COLUMNS.items()}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._sentences = self._documents = 0
        self._document: str | None = None

    def __enter__(self) -> Sightings:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add_sentence(
        self, document: str, start: int, text: str, tokens: Sequence[int], page: int | None = None
    ) -> None:
        """Adds a sentence, with its word numbers, for the sightings added next."""
        columns = self._columns
        if document != self._document:
            self._document = document
            self._documents += 1
            columns["name_lengths"].append(self._add_text("names", document))
        columns["documents"].append(self._documents - 1)
        columns["begins"].append(start)
        columns["pages"].append(page or 0)
        columns["text_lengths"].append(self._add_text("texts", text))
        columns["tokens"].extend(tokens)
        columns["lengths"].append(len(tokens))
        self._sentences += 1
        if any(len(columns[name]) * columns[name].itemsize > _BUFFERED for name in ("texts", "places")):
            self._write()

    def add(
        self,
        head: int,
        tail: int,
        spans: tuple[int, int, int, int],
        places: tuple[int, int, int, int],
        types: tuple[int, int] = (-1, -1),
    ) -> None:
        """Adds a sighting of two entities, by number, in the current sentence: `spans` are head start, head end, tail
        start and tail end in tokens, `places` the same in characters, `types` the word numbers of their types (-1:
        unknown).
        """
        columns = self._columns
        columns["sentences"].append(self._sentences - 1)
        columns["pairs"].append(head << 32 | tail)
        columns["spans"].extend(spans)
        columns["places"].extend(places)
        columns["types"].extend(types)

    def close(self) -> None:
        """Ends adding and prepares for reading."""
        if self._folder is not None:
            self._write()
        self._read = {name: self._whole(name) for name in _COLUMNS}
        self._starts = {
            name: np.r_[0, np.cumsum(self._read[name], dtype=np.int64)]
            for name in ("name_lengths", "text_lengths", "lengths")
        }
        distinct, self._pair_of = np.unique(self._read["pairs"], return_inverse=True)
        self.pairs: Ints = np.stack([distinct >> 32, distinct & 0xFFFFFFFF], axis=1)  # (P, 2) entities, sorted

    def __len__(self) -> int:
        return len(self._pair_of)

    def chunks(self, size: int, most: int, meaning: Ints) -> Iterator[Chunk]:
        """Chunks of about `size` sightings, all of a pair in the same one; a pair with more than `most` is sampled
        evenly over the text. `meaning` (P,) maps every pair to the one that it is counted as.
        """
        pairs = meaning[self._pair_of]
        order = np.argsort(pairs, kind="stable")
        starts = np.flatnonzero(np.r_[True, pairs[order[1:]] != pairs[order[:-1]]]) if len(order) else order
        seen = np.diff(np.r_[starts, len(order)])  # (bags,)
        if len(seen) and seen.max() > most:
            place = np.arange(len(order)) - np.repeat(starts, seen)
            part = place * np.repeat(np.minimum(seen, most), seen) // np.repeat(seen, seen)  # 0 … most - 1 in each bag
            order = order[(place == 0) | (np.diff(part, prepend=0) != 0)]  # the first of every part
        starts = np.r_[0, np.cumsum(np.minimum(seen, most))]
        first = 0
        while first < len(seen):
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + size, "right")) - 1)
            rows = order[starts[first] : starts[last]]
            yield Chunk(
                split=self._split(rows),
                starts=starts[first : last + 1] - starts[first],
                pairs=pairs[order[starts[first:last]]],
                seen=seen[first:last],
                rows=rows,
            )
            first = last

    def _split(self, rows: Ints) -> Split:
        sentences = self._read["sentences"][rows]
        lengths = self._read["lengths"][sentences].astype(np.int64)
        offsets = np.r_[0, np.cumsum(lengths)]
        source = np.repeat(self._starts["lengths"][sentences] - offsets[:-1], lengths) + np.arange(offsets[-1])
        nothing = np.zeros(len(rows), np.int32)
        return Split(
            tokens=self._read["tokens"][source],
            offsets=offsets,
            spans=self._read["spans"].reshape(-1, 4)[rows],
            labels=nothing,
            pairs=nothing,
            sources=nothing,
            expressed=np.full(len(rows), -1, np.int8),
            pair_entities=np.zeros((0, 2), np.int32),
            types=self._read["types"].reshape(-1, 2)[rows],
        )

    def place(self, sighting: int) -> Place:
        """Where a sighting is, by its number."""
        sentence = int(self._read["sentences"][sighting])
        a, b, c, d = self._read["places"][4 * sighting : 4 * sighting + 4].tolist()
        return {
            "document": self._text("names", "name_lengths", int(self._read["documents"][sentence])),
            "page": int(self._read["pages"][sentence]) or None,
            "start": int(self._read["begins"][sentence]),
            "text": self._text("texts", "text_lengths", sentence),
            "head": (a, b),
            "tail": (c, d),
        }

    def _add_text(self, name: str, text: str) -> int:
        raw = text.encode("utf-8", "surrogatepass")
        self._columns[name].frombytes(raw)
        return len(raw)

    def _text(self, name: str, lengths: str, number: int) -> str:
        begin, end = self._starts[lengths][number : number + 2].tolist()
        return bytes(self._read[name][begin:end]).decode("utf-8", "surrogatepass")

    def _write(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="fedrel-")
        for name, column in self._columns.items():
            with Path(self._folder.name, name).open("ab") as file:
                column.tofile(file)
            del column[:]

    def _whole(self, name: str) -> npt.NDArray[Any]:
        kind = np.dtype(_COLUMNS[name])
        if self._folder is None:
            return np.frombuffer(self._columns[name], kind)
        path = Path(self._folder.name, name)
        return np.asarray(np.memmap(path, kind, "r")) if path.stat().st_size else np.zeros(0, kind)
