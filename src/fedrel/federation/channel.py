"""Messages between the processes of one node: small JSON headers over a socket pair that no other process can open.

A payload is passed as an open file descriptor (SCM_RIGHTS) of a file in memory or, if it is large, on disk, so a model
of a hundred megabytes is handed over without a copy. Uses only the standard library.
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

IN_MEMORY = 16 * 2**20  # bytes; larger payloads are kept on disk
_MOST_HEADER = 128 * 2**10  # bytes
_PIECE = 2**20


class ClosedError(EOFError):
    """The process at the other end has gone, or sent something that is not a message."""


class Blob:
    """A payload in an open unnamed file, freed when its last descriptor is closed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def of(cls, content: bytes | bytearray | memoryview, folder: Path | None = None) -> Blob:
        """A blob with this content; in `folder`, if given, when it is larger than IN_MEMORY."""
        blob = cls.make(len(content), folder)
        blob.write(content)
        return blob

    @classmethod
    def make(cls, size: int, folder: Path | None = None) -> Blob:
        """An empty blob meant for `size` bytes; in `folder`, if given, when that is more than IN_MEMORY."""
        if size <= IN_MEMORY or folder is None:
            return cls(os.memfd_create("fedrel", os.MFD_CLOEXEC))
        with tempfile.TemporaryFile(dir=folder) as file:
            return cls(os.dup(file.fileno()))

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """Appends."""
        view = memoryview(content)
        while view:
            view = view[os.write(self.descriptor, view[:_PIECE]) :]

    def __len__(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, most: int) -> bytearray:
        """A copy of the whole content, which the process that made the file can no longer change. Raises ValueError if
        it is not a regular file, larger than `most` bytes, or shrinks meanwhile.
        """
        about = os.fstat(self.descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            raise ValueError(f"a payload of {about.st_size:,} bytes where at most {most:,} were expected")
        content = bytearray(about.st_size)
        view, place = memoryview(content), 0
        while place < len(content):
            got = os.preadv(self.descriptor, [view[place : place + _PIECE]], place)
            if not got:
                raise ValueError("the payload shrank while it was being read")
            place += got
        return content

    def piece(self, place: int) -> bytes:
        """Up to 1 MB from a byte offset on."""
        return os.pread(self.descriptor, _PIECE, place)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


class Message(NamedTuple):
    """A JSON header and, for some messages, a payload."""

    header: dict[str, Any]
    payload: Blob | None = None


def started(by_hand: str) -> tuple[Channel, dict[str, Any]]:
    """Called in a child of a node: its end of the channel (the descriptor is its last argument), and the node's first
    message. Exits, naming the command `by_hand`, if a person started the process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the node decides when to end
    channel = Channel.inherited(int(sys.argv[-1]))
    first = channel.receive(30.0)
    if first is None or first.header.get("do") != "start":
        raise SystemExit(f"this program is started by a node; use {by_hand}")
    return channel, first.header


class Channel:
    """One end of a channel. Several threads may send; only one may receive."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Our end, and the socket to hand to a child."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), theirs

    @classmethod
    def inherited(cls, descriptor: int) -> Channel:
        """The end that a child inherited; its own children do not."""
        os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        """Raises ClosedError if the other process has gone, and ValueError if the header is larger than 128 KB."""
        content = json.dumps(header).encode()
        if len(content) > _MOST_HEADER:
            raise ValueError("the header is too large for a channel; use a payload")
        try:
            with self._sending:
                socket.send_fds(self._end, [content], [payload.descriptor] if payload is not None else [])
        except (BrokenPipeError, ConnectionError, OSError) as error:
            raise ClosedError(f"the other process has gone ({error.strerror})") from None

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None if none arrives within `timeout` seconds (None: waits forever). Raises ClosedError if
        the other process has gone, or sent something that is not a message.
        """
        if timeout is not None and not select.select([self._end], [], [], max(timeout, 0.0))[0]:
            return None
        try:
            content, descriptors, flags, _ = socket.recv_fds(self._end, _MOST_HEADER, 1)
        except OSError as error:
            raise ClosedError(f"the other process has gone ({error.strerror})") from None
        payload = Blob(descriptors[0]) if descriptors else None
        if not content or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ClosedError("the other process has gone")
        try:
            header = json.loads(content)
        except (ValueError, RecursionError):
            raise ClosedError("the other process sent something that is not a message") from None
        if not isinstance(header, dict):
            raise ClosedError("the other process sent something that is not a message")
        return Message(header, payload)

    def ask(self, header: dict[str, Any], payload: Blob | None = None, *, timeout: float) -> Message:
        """Sends a message and returns the next one received. Raises TimeoutError after `timeout` seconds."""
        self.send(header, payload)
        until = time.monotonic() + timeout
        found = self.receive(until - time.monotonic())
        if found is None:
            raise TimeoutError("no answer in time")
        return found

    def close(self) -> None:
        self._end.close()
