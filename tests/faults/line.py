"""A bad line between a platform and the coordinator: slow, late, or cut without a word, as a cable is."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from pathlib import Path


class Line:
    """Listens where the platform calls, and passes on what comes. While it is cut, nothing passes in either direction,
    nobody is told, and new connections are not answered.
    """

    def __init__(self, port: int, *, delay: float = 0.0, rate: float = 0.0) -> None:
        self.target, self.delay, self.rate = port, delay, rate  # seconds; bytes a second, 0: as fast as it goes
        self.cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ended = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for it in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
            it.close()

    def lead(self, kit: Path) -> None:
        """Makes a kit call here."""
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
        """A piece is on its way for the delay; the rate holds for each direction of each connection."""
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
