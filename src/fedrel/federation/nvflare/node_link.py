"""The relay's connection to its node over a Unix socket: finds the socket, connects, and reconnects when the node has
restarted.

Runs in FLARE's processes. Uses only the standard library.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedrel.federation.channel import Blob, Channel, ClosedError, Message

VARIABLE = "FEDREL_RELAY"  # an environment variable: the path of the socket
SETTINGS = "fedrel.json"  # in the site's folder `local`: {"relay": "/path/relay.sock"}
_AGAIN = 1.0  # seconds before the next try
_STUCK = 30.0  # seconds within which the node must accept a message


class NoSocketError(Exception):
    """The path of the socket is not configured."""


def socket_path(workspace: Path) -> Path:
    """Where this site's node listens, as configured by the site; a job cannot change it. Raises NoSocketError if it is
    not configured.
    """
    if told := os.environ.get(VARIABLE):
        return Path(told)
    settings = workspace / "local" / SETTINGS
    try:
        found = json.loads(settings.read_text(encoding="utf-8"))["relay"]
        return Path(found)
    except (OSError, ValueError, KeyError, TypeError):
        raise NoSocketError(
            f'{settings}: missing, or without {{"relay": "/path/relay.sock"}}; {VARIABLE} is not set either'
        ) from None


class NodeLink:
    """Calls `heard` with each message, and `changed` when the connection is made or lost, in its own thread."""

    def __init__(self, path: Path, heard: Callable[[Message], None], changed: Callable[[bool], None]) -> None:
        self.path, self._heard, self._changed = path, heard, changed
        self._channel: Channel | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fedrel relay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, header: dict[str, Any], payload: Blob | None = None) -> bool:
        """Sends a message. Returns whether the node accepted it."""
        channel = self._channel
        if channel is None:
            return False
        try:
            channel.send(header, payload)
        except ClosedError:
            return False
        return True

    def close(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                end.connect(str(self.path))
            except OSError:
                end.close()
                self._ended.wait(_AGAIN)
                continue
            end.settimeout(_STUCK)
            self._channel = Channel(end)
            self._changed(True)
            try:
                self._listen(self._channel)
            except ClosedError:
                pass
            finally:
                channel, self._channel = self._channel, None
                self._changed(False)
                channel.close()
                self._ended.wait(_AGAIN)

    def _listen(self, channel: Channel) -> None:
        while not self._ended.is_set():
            message = channel.receive(0.5)
            if message is not None:
                self._heard(message)
