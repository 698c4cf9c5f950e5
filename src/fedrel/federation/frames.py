"""A header and a payload, one after the other through a pipe: how a platform's node talks to the process that trains.

Standard library alone: the node itself needs no torch.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from typing import Any, NamedTuple

_LENGTHS = 4 + 8  # bytes that announce the header's and the payload's length
_MAX_HEADER = 2**20
_PIECE = 2**20


class Frame(NamedTuple):
    header: dict[str, Any]
    payload: bytes | bytearray = b""


class ClosedError(EOFError):
    """The other side is gone."""


class OverdueError(TimeoutError):
    """The other side did not answer in time, or is not wanted any more."""


def send(pipe: int, frame: Frame) -> None:
    header = json.dumps(frame.header).encode()
    lengths = len(header).to_bytes(4, "little") + len(frame.payload).to_bytes(8, "little")
    for part in (lengths + header, frame.payload):
        view = memoryview(part)
        while view:
            try:
                view = view[os.write(pipe, view[:_PIECE]) :]
            except BrokenPipeError:
                raise ClosedError("the other side is gone") from None


def receive(pipe: int, *, deadline: float | None = None, wanted: Callable[[], bool] = lambda: True) -> Frame:
    """`deadline` is a time of `time.monotonic`; `wanted` is asked a few times a second."""
    lengths = _exactly(pipe, _LENGTHS, deadline, wanted)
    size, payload = int.from_bytes(lengths[:4], "little"), int.from_bytes(lengths[4:], "little")
    if size > _MAX_HEADER:
        raise ClosedError("no frame of ours")
    header = json.loads(bytes(_exactly(pipe, size, deadline, wanted)))
    return Frame(header, _exactly(pipe, payload, deadline, wanted))


def _exactly(pipe: int, count: int, deadline: float | None, wanted: Callable[[], bool]) -> bytearray:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        if not select.select([pipe], [], [], 0.2)[0]:
            if (deadline is not None and time.monotonic() > deadline) or not wanted():
                raise OverdueError("no answer in time")
            continue
        got = os.readv(pipe, [view[:_PIECE]])
        if not got:
            raise ClosedError("the other side is gone")
        view = view[got:]
    return buffer
