"""Sentences of a split as streams that can be read again and again: filtered, and with pairs held out of train."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from fedrel.config import Data
from fedrel.corpus import NA, Instance
from fedrel.corpus.reading import Reading
from fedrel.data.sources import agreed_relations, are_texts, has_na
from fedrel.errors import UserError

HELD_OUT = 10  # one pair in ten, where a split has to be carved from train

Stream = Callable[[], Iterable[Instance]]


class Wanted:
    """A stream without sentences of other relations than those agreed beforehand, if there are such. How many it left
    out is of the latest pass, and complete when that pass is.
    """

    def __init__(self, stream: Stream, data: Data) -> None:
        self._stream = stream
        self._relations = {*agreed_relations(data), *([NA] if has_na(data) else [])} if data.relations else None
        self._noun = ("text", "texts") if are_texts(data) else ("sentence", "sentences")
        self._others = 0

    def __call__(self) -> Iterator[Instance]:
        self._others = 0
        for instance in self._stream():
            if self._relations is None or instance.relation in self._relations:
                yield instance
            else:
                self._others += 1

    def left_out(self) -> list[str]:
        """A line for each reason."""
        what = self._noun[self._others != 1]
        return [f"{self._others:,} {what} left out: relation not in data.relations"] if self._others else []


class SplitFile(Wanted):
    """One split in its file or folder, read as the [data] section asks for."""

    def __init__(self, data: Data, path: Path) -> None:
        self.path = path
        self._reading = Reading(data.source, path)
        everything = self._reading.instances
        drop_na = data.na == "drop" and not are_texts(data)
        super().__init__(partial(_with_relation, everything) if drop_na else everything, data)

    def left_out(self) -> list[str]:
        """A line for each reason, those of the reader first."""
        return [*self._reading.left_out(), *super().left_out()]


def _with_relation(stream: Stream) -> Iterator[Instance]:
    return (instance for instance in stream() if instance.relation != NA)


def is_empty(stream: Stream) -> bool:
    return next(iter(stream()), None) is None


def require_sentences(files: Mapping[str, SplitFile]) -> None:
    """Raises UserError, with what was left out, for a file of which no sentence is left. A file may be named
    platform/split.
    """
    for name, file in files.items():
        if is_empty(file):
            because = f" ({'; '.join(file.left_out())})" if file.left_out() else ""
            raise UserError(f"{file.path}: no sentences; {name.rpartition('/')[2]} needs at least one{because}")


def all_notes(notes: Iterable[str], splits: Mapping[str, Wanted]) -> Iterator[str]:
    """The notes, then what each split left out: a generator, since that is known only when `build`, which writes the
    notes last, has read all.
    """
    yield from notes
    for split, stream in splits.items():
        yield from (f"{split}: {line}" for line in stream.left_out())


def carve(streams: Mapping[str, Stream], split: str, share: float) -> dict[str, Stream]:
    """Moves a share of the pairs from train to `split`; a pair is never in both. Which ones depends on the names of the
    split and of the pair's entities alone.
    """
    train = streams["train"]

    def is_held_out(instance: Instance) -> bool:
        drawn = zlib.crc32(f"{split}\t{instance.head.id}\t{instance.tail.id}".encode())
        if share == 1 / HELD_OUT:
            return drawn % HELD_OUT == 0
        return drawn % 10_000 < share * 10_000

    def keep() -> Iterator[Instance]:
        return itertools.filterfalse(is_held_out, train())

    def carved() -> Iterator[Instance]:
        return filter(is_held_out, train())

    return {**streams, "train": keep, split: carved}


def hold_out(streams: Mapping[str, Stream], splits: Sequence[str], path: Path) -> tuple[dict[str, Stream], list[str]]:
    """One platform's train and what it holds out: files of its own, or else a tenth of its pairs; and which splits are
    carved in that way. The pairs are the same everywhere, so that of platforms without such files none trains on what
    another holds out.
    """
    held = dict(streams)
    carved = [split for split in ("test", "dev") if split in splits and split not in streams]
    for split in carved:
        held = carve(held, split, 1 / HELD_OUT)
        if is_empty(held["train"]):
            raise UserError(f"{path}: too little to hold out {split} and train on the rest; add a {split} file")
    return held, carved


def without_held_out(streams: Mapping[str, Stream], splits: Sequence[str], path: Path) -> dict[str, Stream]:
    """The coordinator's splits, its train without the pairs that platforms may hold out: it does not know who does."""
    if "train" not in streams:
        return dict(streams)
    kept, _ = hold_out({"train": streams["train"]}, splits, path)
    return {**streams, "train": kept["train"]}


def carved_note(split: str, data: Data) -> str:
    what, one = ("texts", "text") if are_texts(data) else ("sentences", "pair")
    return f"no {split} {what} given: one {one} in {HELD_OUT} was carved from train for {split}"
