"""A bad network between a platform and the coordinator: slow, with latency, or silently interrupted."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from pathlib import Path


class BadNetwork:
    """A TCP proxy in front of the coordinator. While `cut` is set, no data passes in either direction, no connection is
    closed, and new ones are not answered.
    """

    def __init__(self, port: int, *, delay: float = 0.0, rate: float = 0.0) -> None:
        self.target, self.delay, self.rate = port, delay, rate  # seconds one way; bytes a second, 0: no limit
        self.cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ended = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> BadNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for it in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
            it.close()

    def lead(self, kit: Path) -> None:
        """Changes a kit so that it connects here."""
        about = json.loads((kit / "kit.json").read_text())
        (kit / "kit.json").write_text(json.dumps({**about, "port": self.port}))

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while not self._ended.is_set():
                near, _ = self._listener.accept()
                self._sockets.append(near)
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._wait_while_cut()
        try:
            far = socket.create_connection(("127.0.0.1", self.target), timeout=10)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        self._sockets.append(far)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        """Forwards data with the delay; the rate applies to each direction of each connection."""
        waiting: list[tuple[float, bytes]] = []
        with contextlib.suppress(OSError, ValueError):
            while not self._ended.is_set():
                self._wait_while_cut()
                now = time.monotonic()
                if waiting and waiting[0][0] <= now:
                    sink.sendall(waiting.pop(0)[1])
                    continue
                pause = min(0.2, waiting[0][0] - now) if waiting else 0.2
                if select.select([source], [], [], pause)[0]:
                    piece = source.recv(2**14)
                    if not piece:
                        break
                    if self.rate:
                        time.sleep(len(piece) / self.rate)
                    waiting.append((time.monotonic() + self.delay, piece))
        with contextlib.suppress(OSError):
            for _, piece in waiting:
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)

    def _wait_while_cut(self) -> None:
        while self.cut.is_set() and not self._ended.is_set():
            time.sleep(0.05)
