"""A platform's own record of what left it: a line of JSON for every reply, on disk before the reply is sent.

The lines form a hash chain (see entries.py), so that changed, removed, added or moved lines are detected. Whoever can
write the file can still rewrite all of it or cut off its end; to detect that, keep a copy of the last hash elsewhere.

A reply may be in the ledger without having left, if the platform was killed in between; never the other way round.
"""

from __future__ import annotations

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
from fedrel.util.files import write_atomic
from fedrel.util.locks import lock_alone

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
_TORN = "is incomplete: the platform or its disk failed while it was written, and its reply did not leave"


# ------------------------------------------------------------------------------------------ writing


class Ledger:
    """An open ledger: `with Ledger.open(path) as ledger:`. Threads may share it; another process cannot open it at the
    same time. Methods raise UserError if the file cannot be read or written.
    """

    def __init__(self, path: Path, descriptor: int, last: str) -> None:
        self.path = path
        self.last = last  # the hash of the last line
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._lock = threading.Lock()
        _OPEN.add(self)

    @classmethod
    def open(cls, path: Path, *, say: Callable[[str], None] = lambda line: None) -> Ledger:
        """Opens a ledger for writing, and creates it if need be. If a crash has left an incomplete last line, that is
        moved to another file and `say` receives one line.

        Raises UserError if the file cannot be opened, another process has it open, or its last line is damaged.
        """
        path = path.absolute()
        with _explained_errors(path, "nothing leaves without a ledger"):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                _lock(descriptor, path)
                last = _repair(descriptor, path, say)
                _sync_folder(path)
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
        fields: Iterable[Field],
        to: str = COORDINATOR,
    ) -> None:
        """Records a reply that is about to leave, with its fields (`fedrel.protocol.codec.fields`). If this raises, the
        reply must not be sent. Raises ValueError if the fields do not add up to the payload.
        """
        made_of = tuple(fields)
        if sum(field.bytes for field in made_of) != len(payload):
            raise ValueError("the fields are not those of the payload")
        digest = hashlib.sha256(payload).hexdigest()
        self._append(Entry(_now(), run, round, task, to, len(payload), digest, made_of))

    def refuse(self, *, run: str, round: int, task: str, why: str, to: str = COORDINATOR) -> None:
        """Records a request that is refused for this reason. Raises ValueError for an empty reason."""
        if not why:
            raise ValueError("a refusal needs a reason")
        self._append(Entry(_now(), run, round, task, to, refused=why))

    def sent(self, run: str) -> Counter[int]:
        """The bytes that have left in a run so far, by round, including those before a restart."""
        total: Counter[int] = Counter()
        for entry in read(self.path):
            if entry.run == run:
                total[entry.round] += entry.bytes
        return total

    def _append(self, entry: Entry) -> None:
        with self._lock, _explained_errors(self.path, "nothing leaves that is not in the ledger"):
            self._require_untouched()
            line, hash_ = encode(entry, self.last)
            try:
                _write(self._descriptor, line)
                os.fsync(self._descriptor)
            except BaseException:
                with suppress(OSError):  # if that fails too, the next append finds the wrong size and raises
                    os.ftruncate(self._descriptor, self._size)
                raise
            self._size += len(line)
            self.last = hash_

    def _require_untouched(self) -> None:
        ours = os.fstat(self._descriptor)
        same = self.path.exists() and os.path.samestat(ours, self.path.stat())
        if not same or ours.st_size != self._size:
            raise UserError(
                f"{self.path}: the ledger was changed, moved or removed while in use, and nothing leaves that is not "
                "in it; restore it, or restart the platform to begin a new one"
            )


# A forked child, which trains for example, must not keep the lock: its platform may be killed and restarted.
_OPEN: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _close_all() -> None:
    for ledger in _OPEN:
        ledger.close()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_close_all)


def _lock(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise UserError(f"{path}: not a regular file; name another one for the ledger")
    try:
        lock_alone(descriptor)
    except BlockingIOError:
        raise UserError(
            f"{path}: another process has this ledger open; stop it first, a platform runs only once at a time"
        ) from None


def _repair(descriptor: int, path: Path, say: Callable[[str], None]) -> str:
    """Makes the file end with a complete line; returns the hash of that line."""
    whole, rest = _end(descriptor)
    last = FIRST if whole is None else _require_sound(whole, path)
    if not rest:
        return last
    if decode(rest)[0] is None:
        aside = _set_aside(path, rest)
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - len(rest))
        say(f"{path}: the last line {_TORN}; it is now in {aside.name}")
    else:
        last = _require_sound(rest, path)
        _write(descriptor, b"\n")
        say(f"{path}: the last line had no line end; it has one now")
    os.fsync(descriptor)
    return last


def _require_sound(line: bytes, path: Path) -> str:
    """The hash of a line; raises UserError if the line is damaged."""
    _, _, hash_, problem = decode(line)
    if problem:
        raise UserError(
            f"{path}: the last line {problem}, so no line can follow it; inspect it with `fedrel ledger show`, and "
            "move the file away to begin a new one"
        )
    return hash_


def _end(descriptor: int) -> tuple[bytes | None, bytes]:
    """The last complete line (None: there is none), and the bytes after it."""
    size = os.fstat(descriptor).st_size
    for length in (1 << power for power in itertools.count(16, 2)):
        start = max(size - length, 0)
        *lines, rest = os.pread(descriptor, size - start, start).split(b"\n")
        if len(lines) > 1 or start == 0:
            return lines[-1] if lines else None, rest
    raise AssertionError("a file has a beginning")


def _set_aside(path: Path, content: bytes) -> Path:
    names = (path.with_name(f"{path.name}.torn-{number}") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    write_atomic(aside, content, private=True)
    return aside


def _sync_folder(path: Path) -> None:
    """Syncs the folder, so that a new file survives a power cut."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


@contextmanager
def _explained_errors(path: Path, consequence: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror or error}, and {consequence}; free some space or fix the cause, then restart"
        ) from None


def _now() -> str:
    return datetime.now(UTC).strftime(_TIME)


# ------------------------------------------------------------------------------------------ reading


def read(path: Path) -> Iterator[Entry]:
    """The entries in order, without an incomplete last line. Raises UserError for a line that cannot be read."""
    for line in scan(path):
        if line.entry is not None:
            yield line.entry
        elif line.problem != _TORN:
            raise UserError(f"{path}:{line.number}: {line.problem}")


def verify(path: Path) -> list[Line]:
    """The lines with a problem; empty if the ledger is as it was written."""
    return [line for line in scan(path) if line.problem]


def scan(path: Path) -> Iterator[Line]:
    """Every line with its problem, if any. Raises UserError if the file cannot be read."""
    before: str | None = FIRST
    for number, raw in _raw_lines(path):
        content = raw.removesuffix(b"\n")
        entry, named, hash_, problem = decode(content)
        if not problem and before is not None and named != before:
            problem = (
                "does not follow the line before it: lines were changed, removed, added or moved here"
                if number > 1
                else "is not the first that was written: lines before it were removed"
            )
        if content == raw:
            problem = _TORN if entry is None else problem or "has no line end"
        yield Line(number, entry, hash_, problem)
        before = hash_ or None  # unknown after an unreadable line


def simulated(path: Path) -> bool:
    """Whether this is the ledger of a simulated run, which has a line for each field of all platforms' replies and no
    hash chain.
    """
    _, first = next(_raw_lines(path), (0, b""))
    with suppress(ValueError, RecursionError):
        line = json.loads(first)
        return isinstance(line, dict) and "platform" in line and "field" in line
    return False


def read_simulated(path: Path) -> Iterator[Entry]:
    """The replies in the ledger of a simulated run, which is named after its folder. Raises UserError for a line that
    cannot be read.
    """
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
