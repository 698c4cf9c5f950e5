"""Sentences of a split as streams that can be read again and again: filtered, and with pairs held out of train."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from fedrel.config import Data
from fedrel.corpus import FORMATS, NA, Instance
from fedrel.corpus.pairs import UNMARKED
from fedrel.corpus.reading import Reading
from fedrel.corpus.rules import tokens_key
from fedrel.corpus.splitting import NEITHER, Draft
from fedrel.data.label_settings import require_known_labels
from fedrel.data.sources import WORLD, agreed_relations, are_texts, has_na, rules_of
from fedrel.errors import UserError
from fedrel.util.escaping import shown

_LISTED = 20  # labels that a message names
HELD_OUT = 10  # one in ten, where a split has to be carved from train

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
        self._seen: set[str] = set()

    def __call__(self) -> Iterator[Instance]:
        self._others = 0
        for instance in self._stream():
            self._seen.add(instance.relation)
            if self._relations is None or instance.relation in self._relations:
                yield instance
            else:
                self._others += 1

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that were seen, and what became of each."""
        return {label: label for label in self._seen}

    def left_out(self) -> list[str]:
        """A line for each reason."""
        what = self._noun[self._others != 1]
        return [f"{self._others:,} {what} left out: relation not in data.relations"] if self._others else []

    def notes(self) -> list[str]:
        """What a person should know of the latest pass, a line each."""
        return self.left_out()


class SplitFile(Wanted):
    """One split in its file or folder, read as the [data] section asks for."""

    def __init__(self, data: Data, path: Path, *, platform: str = "", split: str = "") -> None:
        self.path, self.platform = path, platform
        agreed = frozenset(agreed_relations(data))
        self._reading = Reading(data.source, path, rules_of(data), platform=platform, split=split, relations=agreed)
        everything = self._reading.instances
        drop_na = data.na == "drop" and not are_texts(data)
        super().__init__(partial(_with_relation, everything) if drop_na else everything, data)

    def left_out(self) -> list[str]:
        """A line for each reason, those of the reader first."""
        return [*self._reading.left_out(), *super().left_out()]

    def notes(self) -> list[str]:
        """What was left out, and what labels and entities were taken for."""
        return [*self._reading.notes(), *super().left_out()]

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that the latest pass saw as they are in the file, and what became of each."""
        return self._reading.labels

    @property
    def gold(self) -> bool:
        """Whether people labelled the sentences."""
        return self._reading.form.gold


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
            if UNMARKED in because and name == "test":  # as published, where the answers are kept back
                because += "; put documents with relations there, such as those of dev, and take others for dev"
            labels = [] if file.platform else sorted(set(file.labels.values()))[:_LISTED]  # a platform's are its own
            there = f"; its labels are {', '.join(shown(it, 60) for it in labels)}" if labels and because else ""
            raise UserError(f"{file.path}: no sentences; {name.rpartition('/')[2]} needs at least one{because}{there}")


def all_notes(notes: Iterable[str], splits: Mapping[str, Wanted], *, whole: Data | None = None) -> Iterator[str]:
    """The notes, then what each split left out: a generator, since that is known only when `build` has read all. If the
    splits are the `whole` of what a [data] section names, UserError for settings that match no label; one party of a
    federation may well lack some.
    """
    yield from notes
    if whole:
        yield from require_known_labels(whole, dict(it for file in splits.values() for it in file.labels.items()))
    for split, stream in splits.items():
        yield from (f"{split}: {line}" for line in stream.notes())


class Carving:
    """Rows of train that go to another split, decided once for the whole stream, row by row.

    Gold rows of one document stay together; where documents are unknown, those of one sentence. What distant
    supervision labelled is divided by pairs, since pairs are what is evaluated, with sentences kept together (`Draft`).
    Labelled texts are divided one by one. What is drawn depends on the content and the name of the split alone, so it
    is the same on every platform and whatever files are called.
    """

    def __init__(self, train: Stream, split: str, share: float, *, gold: bool) -> None:
        self._train, self._split, self._share, self._gold = train, split, share, gold
        self._decided: bytes | None = None  # of each row, in their order

    def kept(self) -> Iterator[Instance]:
        """The rows that stay in train."""
        return self._rows(_STAYS)

    def carved(self) -> Iterator[Instance]:
        """The rows that go to the other split."""
        return self._rows(_GOES)

    @property
    def left_out(self) -> int:
        """Rows that are in neither, as their sentence and their pair are in different splits."""
        return 0 if self._decided is None else self._decided.count(NEITHER)

    def _rows(self, wanted: int) -> Iterator[Instance]:
        if self._gold:
            for instance in self._train():
                if self._draws(instance.document or tokens_key(instance)) == (wanted == _GOES):
                    yield instance
            return
        if self._decided is None:
            self._decided = self._decide()
        for instance, decision in zip(self._train(), self._decided, strict=True):
            if decision == wanted:
                yield instance

    def _draws(self, *content: str) -> bool:
        drawn = zlib.crc32("\t".join((self._split, *content)).encode("utf-8", "surrogatepass"))
        if self._share == 1 / HELD_OUT:
            return drawn % HELD_OUT == 0
        return drawn % 10_000 < self._share * 10_000

    def _decide(self) -> bytes:
        draft = Draft()
        for it in self._train():
            sentence, pair = hash(tuple(it.tokens)), hash((it.head.id, it.tail.id))
            draft.add(sentence, pair, is_fact=it.relation != NA, drawn=self._draws(it.head.id, it.tail.id))
        return draft.decide()


_STAYS, _GOES = 0, 1


def carve(streams: Mapping[str, Stream], split: str, share: float, *, gold: bool) -> tuple[dict[str, Stream], Carving]:
    """Moves a share of train to `split`, as `Carving` says."""
    carving = Carving(streams["train"], split, share, gold=gold)
    return {**streams, "train": carving.kept, split: carving.carved}, carving


def hold_out(
    streams: Mapping[str, Stream], splits: Sequence[str], path: Path, *, gold: bool
) -> tuple[dict[str, Stream], list[str]]:
    """One platform's train and what it holds out: files of its own, or else a tenth of its train; and which splits are
    carved in that way. What is drawn is the same everywhere, so that of platforms without such files none trains on a
    fact that another holds out.
    """
    held = dict(streams)
    carved = [split for split in ("test", "dev") if split in splits and split not in streams]
    for split in carved:
        held, _ = carve(held, split, 1 / HELD_OUT, gold=gold)
        if is_empty(held["train"]):
            raise UserError(f"{path}: too little to hold out {split} and train on the rest; add a {split} file")
    return held, carved


def without_held_out(
    streams: Mapping[str, Stream], splits: Sequence[str], path: Path, *, gold: bool
) -> dict[str, Stream]:
    """The coordinator's splits, its train without what platforms may hold out: it does not know who does."""
    if "train" not in streams:
        return dict(streams)
    kept, _ = hold_out({"train": streams["train"]}, splits, path, gold=gold)
    return {**streams, "train": kept["train"]}


def unit(data: Data) -> str:
    """What is held out of train as a whole: `text`, `document` (or sentence), `pair`."""
    if are_texts(data):
        return "text"
    if data.source == WORLD or not FORMATS[data.source].gold:
        return "pair"
    return "sentence" if FORMATS[data.source].documents is None else "document"


def carved_note(split: str, data: Data) -> str:
    """That a split was not given, and what took its place."""
    what = "texts" if are_texts(data) else "sentences"
    return f"no {split} {what} given: one {unit(data)} in {HELD_OUT} was carved from train for {split}"
