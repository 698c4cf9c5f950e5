"""Sentences of a split as streams that can be read again and again, as the [data] section wants them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from fedrel.config import Data
from fedrel.corpus import NA, Instance
from fedrel.corpus.reading import Reading
from fedrel.corpus.splits import unlabelled_splits
from fedrel.data.label_settings import require_known_labels
from fedrel.data.sources import agreed_relations, are_texts, has_na, rules_of
from fedrel.errors import UserError
from fedrel.util.escaping import shown

_FIRST = 1_000  # sentences of train whose relations are compared with those of a split first
_LISTED = 20  # labels that a message names

Stream = Callable[[], Iterable[Instance]]


class Wanted:
    """A stream without sentences of other relations than those agreed beforehand, if there are such. How many it left
    out is of the latest pass, and complete when that pass is. `known` names where the relations come from.
    """

    def __init__(self, stream: Stream, data: Data, known: str = "data.relations") -> None:
        self._stream, self._known = stream, known
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
        return [f"{self._others:,} {what} left out: relation not in {self._known}"] if self._others else []

    def notes(self) -> list[str]:
        """What a person should know of the latest pass, a line each."""
        return self.left_out()


class SplitFile(Wanted):
    """One split in its file or folder, read as the [data] section asks for."""

    def __init__(
        self, data: Data, path: Path, *, platform: str = "", split: str = "", known: str = "data.relations"
    ) -> None:
        self.path, self.platform = path, platform
        agreed = frozenset(agreed_relations(data))
        self._reading = Reading(data.source, path, rules_of(data), platform=platform, split=split, relations=agreed)
        everything = self._reading.instances
        drop_na = data.na == "drop" and not are_texts(data)
        super().__init__(partial(_with_relation, everything) if drop_na else everything, data, known)

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
            labels = [] if file.platform else sorted(set(file.labels.values()))[:_LISTED]  # a platform's are its own
            there = f"; its labels are {', '.join(shown(it, 60) for it in labels)}" if labels and because else ""
            raise UserError(f"{file.path}: no sentences; {name.rpartition('/')[2]} needs at least one{because}{there}")


def shares_a_relation(train: Stream, other: Stream) -> bool:
    """Whether some sentence of a split has a relation that train has, too; also where one of them has none at all."""
    some = _relations(itertools.islice(train(), _FIRST))  # which nearly always decide
    if any(it.relation in some for it in other()):
        return True
    relations = _relations(other())
    known = _relations(train())
    return not relations or not known or not relations.isdisjoint(known)


def _relations(instances: Iterable[Instance]) -> set[str]:
    return {it.relation for it in instances} - {NA}


def unlabelled_notes(path: Path, source: str, place: str = "") -> list[str]:
    """What was passed over for lack of labels, and for which split, a line each; `place` comes before the names."""
    return [
        f"{place}{file.name} was passed over for {split}: it has no labels"
        for split, file in unlabelled_splits(path, source).items()
    ]


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
