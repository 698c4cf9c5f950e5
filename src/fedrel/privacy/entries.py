"""The lines of a ledger: what an entry holds, and how it is written and read.

Every line ends with a hash of the rest of it, and the rest holds the hash of the line before.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

COORDINATOR = "coordinator"
HEADER = "(header)"  # the first field of every payload, as the codec counts it
FIRST = "0" * 64  # what stands in the first line, for the hash of the one before

_HASH = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_HASH_LENGTH = len(b',"hash":""}') + 64
_NOT_OURS = "something else than we wrote"


class Field(NamedTuple):
    """One entry of a payload; the same as the codec's, which is made of later layers."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Entry:
    """A reply that left, or a request that was refused."""

    time: str  # UTC; none in a simulated run
    run: str
    round: int  # from 1, as people count; 0: before the first
    task: str
    to: str
    bytes: int = 0
    sha256: str = ""  # of the payload
    fields: tuple[Field, ...] = ()
    refused: str = ""  # why nothing left
    platform: str = ""  # in a simulated run, whose ledger is that of all platforms


class Line(NamedTuple):
    """A line of the file as it is found."""

    number: int
    entry: Entry | None  # none: it cannot be read
    hash: str
    problem: str = ""


def encode(entry: Entry, before: str) -> tuple[bytes, str]:
    """A line, and its hash."""
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
    """Of a line without its end: the entry, the hash of the line before, its own, and what is wrong with it."""
    nothing = None, "", "", "is no entry of a ledger"
    text, end = content[:-_HASH_LENGTH] + b"}", _HASH.fullmatch(content[-_HASH_LENGTH:])
    if end is None:
        return nothing
    hash_ = end[1].decode()
    try:
        entry, before = _entry(json.loads(text))
    except (ValueError, RecursionError):
        return nothing
    changed = hashlib.sha256(text).hexdigest() != hash_
    return entry, before, hash_, "was changed after it was written: its hash does not fit" if changed else ""


def decode_simulated(line: Any) -> tuple[int, str, str, Field]:
    """Of a line of a simulated run's ledger: the round, the platform, the task, and one field of its reply."""
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
