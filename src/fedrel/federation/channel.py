"""How the processes of one node talk: small JSON messages over a pair of sockets that nobody else can open.

A payload does not travel through the socket: its open file does (SCM_RIGHTS), in memory or, if it is large, on disk. So
a model of a hundred megabytes changes hands without being copied. Standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

IN_MEMORY = 16 * 2**20  # bytes of a payload, beyond which it lies on disk
_MOST_HEADER = 128 * 2**10
_PIECE = 2**20


class ClosedError(EOFError):
    """The process at the other end is gone."""


class Blob:
    """A payload in an open file without a name: gone as soon as nobody holds it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def of(cls, content: bytes | bytearray | memoryview, folder: Path | None = None) -> Blob:
        blob = cls.make(len(content), folder)
        blob.write(content)
        return blob

    @classmethod
    def make(cls, size: int, folder: Path | None = None) -> Blob:
        """An empty one, for so many bytes."""
        if size <= IN_MEMORY or folder is None:
            return cls(os.memfd_create("fedrel", os.MFD_CLOEXEC))
        with tempfile.TemporaryFile(dir=folder) as file:
            return cls(os.dup(file.fileno()))

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """At the end."""
        view = memoryview(content)
        while view:
            view = view[os.write(self.descriptor, view[:_PIECE]) :]

    def __len__(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, most: int) -> bytearray:
        """All of it, into memory of the caller's own: whoever made the file cannot change what was read."""
        about = os.fstat(self.descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            raise ValueError(f"a payload of {about.st_size:,} bytes where at most {most:,} were expected")
        content = bytearray(about.st_size)
        view, place = memoryview(content), 0
        while place < len(content):
            got = os.preadv(self.descriptor, [view[place : place + _PIECE]], place)
            if not got:
                raise ValueError("a payload that became shorter while it was read")
            place += got
        return content

    def piece(self, place: int) -> bytes:
        return os.pread(self.descriptor, _PIECE, place)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


class Message(NamedTuple):
    header: dict[str, Any]
    payload: Blob | None = None


def started(by_hand: str) -> tuple[Channel, dict[str, Any]]:
    """In a child, whose last argument is the number of its end: that end, and what its node tells it to begin with.
    `by_hand` is what to say to a person who starts it without a node.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the node says when to end
    channel = Channel.inherited(int(sys.argv[-1]))
    first = channel.receive(30.0)
    if first is None or first.header.get("do") != "start":
        raise SystemExit(f"started by hand; use {by_hand}")
    return channel, first.header


class Channel:
    """One end. Threads may send at the same time; one of them receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Our end, and the one to hand to a child."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), theirs

    @classmethod
    def inherited(cls, descriptor: int) -> Channel:
        os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        content = json.dumps(header).encode()
        if len(content) > _MOST_HEADER:
            raise ValueError("a message too large for its channel; put it into a payload")
        try:
            with self._sending:
                socket.send_fds(self._end, [content], [payload.descriptor] if payload is not None else [])
        except (BrokenPipeError, ConnectionError, OSError) as error:
            raise ClosedError(f"the other process is gone ({error.strerror})") from None

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; none if there was none in time. What is no message of ours counts as the end."""
        if timeout is not None and not select.select([self._end], [], [], max(timeout, 0.0))[0]:
            return None
        try:
            content, descriptors, flags, _ = socket.recv_fds(self._end, _MOST_HEADER, 1)
        except OSError as error:
            raise ClosedError(f"the other process is gone ({error.strerror})") from None
        payload = Blob(descriptors[0]) if descriptors else None
        if not content or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ClosedError("the other process is gone")
        try:
            header = json.loads(content)
        except (ValueError, RecursionError):
            raise ClosedError("the other process sent something that is no message") from None
        if not isinstance(header, dict):
            raise ClosedError("the other process sent something that is no message")
        return Message(header, payload)

    def ask(self, header: dict[str, Any], payload: Blob | None = None, *, timeout: float) -> Message:
        """Sends, and gives the next message that comes back."""
        self.send(header, payload)
        until = time.monotonic() + timeout
        found = self.receive(until - time.monotonic())
        if found is None:
            raise TimeoutError("no answer in time")
        return found

    def close(self) -> None:
        self._end.close()
