"""A platform's own record of what left it: a line of JSON for every reply, on disk before the reply goes.

Every line ends with a hash of the rest of it, and the rest holds the hash of the line before: a line that was changed,
cut out, added or moved shows. Whoever may write the file can still make all of it anew, or cut off its end; who wants
to find that out keeps a copy of the last hash elsewhere.

A reply may be in the ledger and not have left, if the platform was killed between the two; never the other way round.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import stat
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from fedrel.errors import UserError
from fedrel.privacy.entries import COORDINATOR, FIRST, HEADER, Entry, Field, Line, decode, decode_simulated, encode
from fedrel.util.files import write_whole

__all__ = [
    "FILE",
    "HEADER",
    "Entry",
    "Field",
    "Ledger",
    "Line",
    "read",
    "read_simulated",
    "scan",
    "simulated",
    "verify",
]

FILE = "ledger.jsonl"
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_TORN = "breaks off: the platform or its disk failed while it was written, and what it speaks of did not leave"


# ------------------------------------------------------------------------------------------ writing


class Ledger:
    """`with Ledger.open(path) as ledger:`. Threads may share it; another process cannot open it at the same time."""

    def __init__(self, path: Path, descriptor: int, last: str) -> None:
        self.path = path
        self.last = last  # the hash of the last line
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._lock = threading.Lock()
        _OPEN.add(self)

    @classmethod
    def open(cls, path: Path, *, say: Callable[[str], None] = lambda line: None) -> Ledger:
        """Made if it is not there. A last line that breaks off, after a crash, is put aside, and `say` is told."""
        path = path.absolute()
        with _told(path, "nothing leaves without a ledger"):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                _hold(descriptor, path)
                last = _mend(descriptor, path, say)
                _keep_name(path)
                return cls(path, descriptor, last)
            except BaseException:
                os.close(descriptor)
                raise

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write(
        self,
        *,
        run: str,
        round: int,
        task: str,
        payload: bytes | bytearray,
        fields: Iterable[tuple[str, str, tuple[int, ...], int]],
        to: str = COORDINATOR,
    ) -> None:
        """Puts down a reply that is about to leave, with what `federation.codec.fields` says of it. Where this raises,
        the reply must stay.
        """
        made_of = tuple(Field(name, dtype, tuple(shape), size) for name, dtype, shape, size in fields)
        if sum(field.bytes for field in made_of) != len(payload):
            raise ValueError("the fields are not those of the payload")
        digest = hashlib.sha256(payload).hexdigest()
        self._append(Entry(_now(), run, round, task, to, len(payload), digest, made_of))

    def refuse(self, *, run: str, round: int, task: str, why: str, to: str = COORDINATOR) -> None:
        """Puts down a request that gets this sentence for an answer."""
        if not why:
            raise ValueError("a refusal has a reason")
        self._append(Entry(_now(), run, round, task, to, refused=why))

    def sent(self, run: str) -> Counter[int]:
        """Bytes that left in a run so far, by round; before a crash, too."""
        total: Counter[int] = Counter()
        for entry in read(self.path):
            if entry.run == run:
                total[entry.round] += entry.bytes
        return total

    def _append(self, entry: Entry) -> None:
        with self._lock, _told(self.path, "nothing leaves that is not in the ledger"):
            self._require_untouched()
            line, hash_ = encode(entry, self.last)
            try:
                _write(self._descriptor, line)
                os.fsync(self._descriptor)
            except BaseException:
                with suppress(OSError):  # if not even that works, the size will not be as it should, next time
                    os.ftruncate(self._descriptor, self._size)
                raise
            self._size += len(line)
            self.last = hash_

    def _require_untouched(self) -> None:
        ours = os.fstat(self._descriptor)
        same = self.path.exists() and os.path.samestat(ours, self.path.stat())
        if not same or ours.st_size != self._size:
            raise UserError(
                f"{self.path}: somebody changed, moved or removed the ledger while it was in use, and nothing leaves "
                "that is not in it; put it back as it was, or start the platform again to begin a new one"
            )


# A child that is forked, to train say, must not hold the ledger of a platform that is killed and started again.
_OPEN: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _let_go() -> None:
    for ledger in _OPEN:
        ledger.close()


os.register_at_fork(after_in_child=_let_go)


def _hold(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise UserError(f"{path}: no ordinary file; a ledger is one")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"{path}: another process holds this ledger; a platform runs once at a time: stop the other one first"
        ) from None


def _mend(descriptor: int, path: Path, say: Callable[[str], None]) -> str:
    """The hash to go on from, once the file ends with a whole line."""
    whole, rest = _end(descriptor)
    last = FIRST if whole is None else _require_sound(whole, path)
    if not rest:
        return last
    if decode(rest)[0] is None:
        aside = _put_aside(path, rest)
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - len(rest))
        say(f"{path}: the last line {_TORN}; it is now in {aside.name}")
    else:
        last = _require_sound(rest, path)
        _write(descriptor, b"\n")
        say(f"{path}: the last line had lost its end, and has it again")
    os.fsync(descriptor)
    return last


def _require_sound(line: bytes, path: Path) -> str:
    """Its hash."""
    _, _, hash_, problem = decode(line)
    if problem:
        raise UserError(
            f"{path}: the last line {problem}, so that none can follow it; look at it with `fedrel ledger show`, and "
            "move the file away to begin a new one"
        )
    return hash_


def _end(descriptor: int) -> tuple[bytes | None, bytes]:
    """The last line that is ended (none: there is none), and what stands after it."""
    size = os.fstat(descriptor).st_size
    for length in (1 << power for power in itertools.count(16, 2)):
        start = max(size - length, 0)
        *lines, rest = os.pread(descriptor, size - start, start).split(b"\n")
        if len(lines) > 1 or start == 0:
            return lines[-1] if lines else None, rest
    raise AssertionError("a file has a beginning")


def _put_aside(path: Path, content: bytes) -> Path:
    names = (path.with_name(f"{path.name}.torn-{number}") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    write_whole(aside, content, private=True)
    return aside


def _keep_name(path: Path) -> None:
    """Makes sure that a power cut does not take a new file away."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


@contextmanager
def _told(path: Path, so: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror or error}, and {so}; make room or mend what is wrong, then start again"
        ) from None


def _now() -> str:
    return datetime.now(UTC).strftime(_TIME)


# ------------------------------------------------------------------------------------------ reading


def read(path: Path) -> Iterator[Entry]:
    """What left, in order. A line that is just being written, or broke off, is not there yet."""
    for line in scan(path):
        if line.entry is not None:
            yield line.entry
        elif line.problem != _TORN:
            raise UserError(f"{path}:{line.number}: {line.problem}")


def verify(path: Path) -> list[Line]:
    """The lines with a problem: none, if the ledger is as it was written."""
    return [line for line in scan(path) if line.problem]


def scan(path: Path) -> Iterator[Line]:
    """Every line, with what is wrong with it."""
    before: str | None = FIRST
    for number, raw in _raw_lines(path):
        content = raw.removesuffix(b"\n")
        entry, named, hash_, problem = decode(content)
        if not problem and before is not None and named != before:
            problem = (
                "does not follow the line before it: lines were changed, cut out, added or moved here"
                if number > 1
                else "is not the first that was written: lines before it were cut out"
            )
        if content == raw:
            problem = _TORN if entry is None else problem or "has lost its line end"
        yield Line(number, entry, hash_, problem)
        before = hash_ or None  # of a line that says none, nobody knows


def simulated(path: Path) -> bool:
    """Whether this is the ledger of a simulated run: the fields of all platforms' replies, a line each, unchained."""
    _, first = next(_raw_lines(path), (0, b""))
    with suppress(ValueError, RecursionError):
        line = json.loads(first)
        return isinstance(line, dict) and "platform" in line and "field" in line
    return False


def read_simulated(path: Path) -> Iterator[Entry]:
    """The replies of a simulated run; its name is the folder's."""
    run = path.absolute().parent.name
    reply: Entry | None = None
    for number, raw in _raw_lines(path):
        try:
            round_, platform, task, field = decode_simulated(json.loads(raw))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}:{number}: unreadable ({error})") from None
        if reply is None or field.name == HEADER:
            if reply is not None:
                yield reply
            reply = Entry("", run, round_, task, COORDINATOR, platform=platform)
        reply = replace(reply, bytes=reply.bytes + field.bytes, fields=(*reply.fields, field))
    if reply is not None:
        yield reply


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            yield from enumerate(file, 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
