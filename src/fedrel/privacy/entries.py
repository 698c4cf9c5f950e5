"""The lines of a ledger: the fields of an entry, and how a line is encoded and decoded.

Every line ends with a hash of the rest of the line, which includes the hash of the previous line.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

COORDINATOR = "coordinator"
HEADER = "(header)"  # the name of the first field of every payload: the bytes before the tensors
FIRST = "0" * 64  # the hash before the first line

_HASH = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_HASH_LENGTH = len(b',"hash":""}') + 64
_NOT_OURS = "not in fedrel's format"


class Field(NamedTuple):
    """One field of an encoded record (see `fedrel.protocol.codec`): a tensor, or the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Entry:
    """A reply that left, or a request that was refused."""

    time: str  # UTC; empty in a simulated run
    run: str
    round: int  # counted from 1; 0: before the first
    task: str
    to: str
    bytes: int = 0
    sha256: str = ""  # of the payload
    fields: tuple[Field, ...] = ()
    refused: str = ""  # the reason, if nothing left
    platform: str = ""  # set in a simulated run, which has one ledger for all platforms


class Line(NamedTuple):
    """A line of a ledger file."""

    number: int
    entry: Entry | None  # None: unreadable
    hash: str
    problem: str = ""  # what is wrong with it, as the rest of a sentence "the line …"


def encode(entry: Entry, before: str) -> tuple[bytes, str]:
    """The line of an entry, with its line end, and its hash; `before` is the hash of the previous line."""
    line: dict[str, Any] = {
        "time": entry.time,
        "run": entry.run,
        "round": entry.round,
        "task": entry.task,
        "to": entry.to,
    }
    if entry.refused:
        line["refused"] = entry.refused
    else:
        line |= {"bytes": entry.bytes, "sha256": entry.sha256, "fields": [it._asdict() for it in entry.fields]}
    text = json.dumps({**line, "before": before}, separators=(",", ":")).encode()
    hash_ = hashlib.sha256(text).hexdigest()
    return text[:-1] + f',"hash":"{hash_}"}}\n'.encode(), hash_


def decode(content: bytes) -> tuple[Entry | None, str, str, str]:
    """The entry of a line without its line end, the hash of the previous line, its own hash, and what is wrong with it
    (empty: nothing).
    """
    nothing = None, "", "", "is not a ledger entry"
    text, end = content[:-_HASH_LENGTH] + b"}", _HASH.fullmatch(content[-_HASH_LENGTH:])
    if end is None:
        return nothing
    hash_ = end[1].decode()
    try:
        entry, before = _entry(json.loads(text))
    except (ValueError, RecursionError):
        return nothing
    changed = hashlib.sha256(text).hexdigest() != hash_
    return entry, before, hash_, "was changed after it was written: its hash does not match" if changed else ""


def decode_simulated(line: Any) -> tuple[int, str, str, Field]:
    """The round, platform, task and one field of a reply, from a parsed line of a simulated run's ledger. Raises
    ValueError for another line.
    """
    match line:
        case {"round": int(round_), "platform": str(platform), "task": str(task), "field": str(name)}:
            return round_, platform, task, _field({**line, "name": name, "dtype": ""})
    raise ValueError(_NOT_OURS)


def _entry(line: Any) -> tuple[Entry, str]:
    match line:
        case {"time": str(time), "run": str(run), "round": int(round_), "task": str(task), "to": str(to)}:
            entry = Entry(time, run, round_, task, to)
        case _:
            raise ValueError(_NOT_OURS)
    match line:
        case {"refused": str(why), "before": str(before)}:
            return replace(entry, refused=why), before
        case {"bytes": int(size), "sha256": str(digest), "fields": [*fields], "before": str(before)}:
            made_of = tuple(_field(field) for field in fields)
            return replace(entry, bytes=size, sha256=digest, fields=made_of), before
    raise ValueError(_NOT_OURS)


def _field(described: Any) -> Field:
    match described:
        case {"name": str(name), "dtype": str(dtype), "shape": [*shape], "bytes": int(size)}:
            if all(isinstance(n, int) for n in shape):
                return Field(name, dtype, tuple(shape), size)
    raise ValueError(_NOT_OURS)
