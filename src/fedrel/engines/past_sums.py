"""Sums that a coordinator has opened, kept on disk until every platform was told of them.

A platform works out by itself what follows from them (`federation/following.py`), and trains from nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedrel.protocol import sum_messages as say
from fedrel.protocol.checkpoint import load_record, save_record
from fedrel.protocol.codec import Record
from fedrel.protocol.records import named_in, number_in
from fedrel.protocol.round import Ask
from fedrel.protocol.sum_messages import Opened
from fedrel.util.files import private_folder

_FIRST = "first.safetensors"
_SUM = re.compile(r"(\d+)-(\d+)-(\d+)\.safetensors")  # round, attempt, place
_NOT_BEGUN = -1  # where a round is expected: the platform does not know the first weights

# Asks platforms something, and gives what is read of each reply, one after the other
Step = Callable[[str, Mapping[str, Record], Callable[[Record], float]], Iterator[tuple[str, float]]]


@dataclass
class PastSums:
    """`platforms`: all who are to be told. `attempt`: of the round at work."""

    folder: Path
    platforms: Collection[str]
    attempt: Callable[[], int]
    _ready: dict[str, int] = field(default_factory=dict)  # the round that a platform is ready for
    _told: dict[str, str] = field(default_factory=dict)  # the file that a platform was told last

    def add(self, ask: Ask, opened: Opened) -> None:
        """One more."""
        private_folder(self.folder)
        if opened.round == 0:
            save_record(self.folder / _FIRST, {say.FIRST: ask.model})
        place = sum(it[:2] == (opened.round, opened.attempt) for _, it in self._sums())
        save_record(self.folder / f"{opened.round}-{opened.attempt}-{place}.safetensors", say.opened([opened]))

    def tell(self, ask: Ask, step: Step) -> None:
        """Tells all who are asked what was added up since they were told last. Whoever was started again says only
        then how far it is, and is told once more.
        """
        for path, (round_, attempt, _) in self._sums():
            if round_ >= ask.round and attempt != self.attempt():
                path.unlink(missing_ok=True)  # of a round that is repeated: this never counted
        for _ in range(2):
            told = self._untold(ask)
            silent = set(told)
            for name, ready in step(say.FOLLOW, told, _ready) if told else ():
                self._ready[name] = int(ready)
                silent.discard(name)
            for name in silent:
                self._told.pop(name, None)
        behind = min((self._ready.get(name, _NOT_BEGUN) for name in self.platforms), default=_NOT_BEGUN)
        for path, (round_, _, _) in self._sums():
            if round_ < behind:
                path.unlink(missing_ok=True)

    def _untold(self, ask: Ask) -> dict[str, Record]:
        """What each platform is told, if there is anything new: whole rounds, from the one that it is ready for. It is
        the same record for all who are told the same.
        """
        made: dict[tuple[bool, tuple[str, ...]], Record] = {}
        found, sums = {}, self._sums()
        for name in ask.to:
            ready = self._ready.get(name, 0)
            since = [path for path, (round_, _, _) in sums if round_ >= ready]
            begins = ready == _NOT_BEGUN and (self.folder / _FIRST).exists()
            if (since and self._told.get(name) != since[-1].name) or begins:
                of = begins, tuple(path.name for path in since)
                if of not in made:
                    made[of] = self._record(since, first=begins)
                found[name] = made[of]
                self._told[name] = since[-1].name if since else ""
        return found

    def _record(self, files: Collection[Path], *, first: bool) -> Record:
        sums = [it for path in files for it in say.opened_in(load_record(path))]
        return say.opened(sums, named_in(load_record(self.folder / _FIRST), say.FIRST) if first else None)

    def _sums(self) -> list[tuple[Path, tuple[int, int, int]]]:
        """The files in the order of what they hold."""
        named = ((path, _SUM.fullmatch(path.name)) for path in self.folder.glob("*.safetensors"))
        return sorted(((path, (int(it[1]), int(it[2]), int(it[3]))) for path, it in named if it), key=lambda it: it[1])


def _ready(reply: Record) -> float:
    ready = number_in(reply, say.FOLLOWED)
    if reply.keys() != {say.FOLLOWED} or ready != int(ready) or ready < _NOT_BEGUN:
        raise ValueError("the reply does not say how far the platform is")
    return ready
