"""Records the traffic between a platform and the coordinator, and decrypts it with the session keys that the
platform's process was made to log (in OpenSSL's key log format).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

# TLS 1.3 (RFC 8446) cipher suites by number: hash, cipher and key length in bytes
_SUITES = {
    b"\x13\x01": (hashes.SHA256(), AESGCM, 16),
    b"\x13\x02": (hashes.SHA384(), AESGCM, 32),
    b"\x13\x03": (hashes.SHA256(), ChaCha20Poly1305, 32),
}
_HANDSHAKE, _ENCRYPTED = 22, 23


class Tap:
    """A TCP proxy in front of the coordinator that records everything that passes through it, unchanged."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.talks: list[tuple[bytearray, bytearray]] = []  # for each connection: bytes sent, bytes received
        self._listener = socket.create_server(("", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._down = False

    def cut(self) -> None:
        """Closes all connections and accepts no data until `mend`."""
        self._down = True
        for it in list(self._sockets):
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._down = False

    def __enter__(self) -> Tap:
        self._start(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        for it in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(10)
        for it in (self._listener, *self._sockets):
            it.close()

    def _start(self, target, *arguments) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # the end
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                if self._down:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(self.target, timeout=10)
                except OSError:  # the coordinator is not up yet
                    near.close()
                    continue
                far.settimeout(None)
                self._sockets.append(far)
                there, back = bytearray(), bytearray()
                self.talks.append((there, back))
                self._start(_pass_on, near, far, there)
                self._start(_pass_on, far, near, back)


def _pass_on(source: socket.socket, target: socket.socket, copy: bytearray) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(2**16):
            copy += piece
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def plain(talk: tuple[bytearray, bytearray], key_log: Path) -> tuple[bytes, bytes]:
    """The plain text of a connection, in both directions. Every record is authenticated, so none is overlooked."""
    there, back = (list(_records(bytes(stream))) for stream in talk)
    if not there or not back or back[0][0] != _HANDSHAKE:
        return b"", b""  # no data was ever sent
    random = there[0][1][6:38]
    session = back[0][1][38]  # the length of the session ID, which varies
    suite = back[0][1][39 + session : 41 + session]
    secrets = _secrets(key_log, random)
    return _opened(there, "CLIENT", suite, secrets), _opened(back, "SERVER", suite, secrets)


def _records(stream: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Type, content and header of each TLS record; an incomplete one is left out."""
    at = 0
    while at + 5 <= len(stream):
        end = at + 5 + int.from_bytes(stream[at + 3 : at + 5], "big")
        if end > len(stream):
            return
        yield stream[at], stream[at + 5 : end], stream[at : at + 5]
        at = end


def _secrets(key_log: Path, random: bytes) -> dict[str, bytes]:
    lines = (line.split() for line in key_log.read_text().splitlines() if not line.startswith("#"))
    return {what: bytes.fromhex(secret) for what, whose, secret in lines if whose == random.hex()}


def _opened(records: list[tuple[int, bytes, bytes]], side: str, suite: bytes, secrets: dict[str, bytes]) -> bytes:
    """The decrypted records. Handshake keys come first; where they fail, the application data begins."""
    digest, cipher, size = _SUITES[suite]
    keys = iter([f"{side}_HANDSHAKE_TRAFFIC_SECRET", f"{side}_TRAFFIC_SECRET_0"])

    def next_key():
        secret = secrets[next(keys)]
        return cipher(_expand(secret, b"key", size, digest)), _expand(secret, b"iv", 12, digest), count()

    key, start, numbers = next_key()
    content = bytearray()
    for kind, sealed, header in records:
        if kind != _ENCRYPTED:
            continue
        try:
            inner = key.decrypt(_nonce(start, next(numbers)), sealed, header)
        except InvalidTag:
            key, start, numbers = next_key()
            inner = key.decrypt(_nonce(start, next(numbers)), sealed, header)
        inner = inner.rstrip(b"\0")
        if inner[-1] == _ENCRYPTED:  # application data, not handshake or alert
            content += inner[:-1]
    return bytes(content)


def _nonce(start: bytes, number: int) -> bytes:
    return (int.from_bytes(start, "big") ^ number).to_bytes(12, "big")


def _expand(secret: bytes, label: bytes, length: int, digest: hashes.HashAlgorithm) -> bytes:
    info = length.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
    return HKDFExpand(digest, length, info).derive(secret)
