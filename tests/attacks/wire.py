"""An attacker's tools: raw TLS connections with any certificate, and bytes that no honest client would send.

Every connection comes from its own loopback address, so that its line in the audit trail is easy to find and is not
counted together with others.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import ssl
import time
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

_ADDRESSES = itertools.count(10)


class Answer(NamedTuple):
    """An HTTP answer. Status 0: the connection was closed without one."""

    status: int
    content: bytes = b""

    @property
    def why(self) -> str:
        with contextlib.suppress(ValueError):
            return str(json.loads(self.content).get("why", ""))
        return ""


def address() -> str:
    number = next(_ADDRESSES)
    return f"127.7.{number // 250}.{number % 250 + 1}"


def context(tls: Path, certificate: str = "node.crt", key: str = "node.key") -> ssl.SSLContext:
    """The context of a client that accepts any server and presents this certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.load_cert_chain(tls / certificate, tls / key)
    return made


def anybody() -> ssl.SSLContext:
    """The context of a client without a certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def plug(port: int, source: str, timeout: float = 10.0) -> socket.socket:
    """A TCP connection."""
    return socket.create_connection(("127.0.0.1", port), timeout=timeout, source_address=(source, 0))


class Wire:
    """One connection over TLS."""

    def __init__(self, port: int, secured: ssl.SSLContext, source: str = "", timeout: float = 10.0) -> None:
        self.source = source or address()
        plain = plug(port, self.source, timeout)
        try:
            self.socket = secured.wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.close()

    def send(self, content: bytes) -> None:
        """Sends bytes; the server may close the connection meanwhile."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.socket.sendall(content)

    def answer(self, method: str = "POST") -> Answer:
        response = HTTPResponse(self.socket, method=method)
        try:
            response.begin()
            return Answer(response.status, response.read(2**20))
        except TimeoutError:
            raise
        except (OSError, HTTPException, ValueError):
            return Answer(0)
        finally:
            response.close()

    def ask(self, method: str, path: str, body: bytes = b"", *headers: str, length: str | None = "") -> Answer:
        """Sends a request and returns the answer. `length`: a false Content-Length; None: no such header."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        if length is not None:
            lines.append(f"Content-Length: {length or len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return self.answer(method)


def poll(session: str = "a" * 32, have: int = 0, version: str = "0") -> bytes:
    return json.dumps({"session": session, "have": have, "version": version}).encode()


def framed(head: Any, payload: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(text).to_bytes(4, "little") + text + payload


def memory(pid: int) -> int:
    """The resident memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def until(found: Any, seconds: float = 15.0) -> Any:
    """Calls a function until it returns something true."""
    end = time.monotonic() + seconds
    while not (it := found()):
        if time.monotonic() > end:
            return it
        time.sleep(0.05)
    return it
