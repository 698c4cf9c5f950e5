"""Bodies of HTTP messages at the coordinator: read up to their announced length, from senders that must keep a pace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiohttp import web

from fedrel.federation.https.messages import BodyError

IDLE = 30.0  # seconds without a byte within a message, or without a message on an open connection
SLOWEST = 8_000  # bytes a second, below which a transfer is aborted
PIECE = 2**20  # bytes read or written at a time


class RefusedError(Exception):
    """A message is refused with this HTTP status and reason. `final`: the sender need not try again."""

    def __init__(self, status: int, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.status, self.why, self.final = status, why, final


class Body:
    """Reads a body of `size` bytes. Raises BodyError if it is longer or shorter, or arrives too slowly.

    `progress` is called after each piece.
    """

    def __init__(self, request: web.BaseRequest, size: int, progress: Callable[[], None] = lambda: None) -> None:
        self._stream, self.left, self._progress = request.content, size, progress
        self._until = time.monotonic() + IDLE + size / SLOWEST
        self._kept = b""

    async def piece(self, most: int = PIECE) -> bytes:
        """The next bytes, at most `most`; empty at the end."""
        if not self.left:
            return b""
        if not self._kept:
            try:
                self._kept = await asyncio.wait_for(self._stream.readany(), IDLE)
            except TimeoutError:
                raise BodyError(f"no data for {IDLE:g} seconds") from None
        found, self._kept = self._kept[:most], self._kept[most:]
        self.left -= len(found)
        if not found or self.left < 0:
            raise BodyError("the body does not have the announced length")
        if time.monotonic() > self._until:
            raise BodyError("the body came too slowly")
        self._progress()
        return found

    async def exactly(self, count: int) -> bytes:
        """The next `count` bytes. Raises BodyError if there are fewer."""
        found = b""
        while len(found) < count:
            piece = await self.piece(count - len(found))
            if not piece:
                raise BodyError("the body is too short")
            found += piece
        return found


async def small(request: web.BaseRequest, most: int) -> bytes:
    """A whole body of at most `most` bytes, in memory; empty for GET. Raises RefusedError if it is announced longer, or
    without a length.
    """
    size = request.content_length
    if request.method == "GET":
        return b""
    if size is None or size > most:
        length = f"{size:,} bytes" if size else "unknown length"
        raise RefusedError(413 if size else 411, f"a message of {length}; at most {most:,} bytes are accepted")
    return await Body(request, size).exactly(size)
