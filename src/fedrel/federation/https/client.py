"""An HTTPS client for the coordinator, which honours HTTPS_PROXY. It handles untrusted input on a platform, and uses
only the standard library.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

from fedrel.federation.channel import Blob
from fedrel.federation.https import messages
from fedrel.federation.https.tls import client_context

_PIECE = 2**20
_CONNECT = 10.0  # seconds
_MOST_ANSWER = 64 * 2**10  # bytes of an answer other than a request or a status


class UnreachableError(Exception):
    """The coordinator did not answer; the message says why, and what to check."""


class ProxyError(OSError):
    """The proxy in HTTPS_PROXY is invalid, or refuses the connection."""


class Answer(NamedTuple):
    """An answer of the coordinator: HTTP status and body."""

    status: int
    content: bytes

    @property
    def why(self) -> str:
        """The coordinator's reason for a refusal."""
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(self.content)
            if isinstance(found, dict) and isinstance(found.get("why"), str):
                return str(found["why"][:500])
        return f"the coordinator answered with status {self.status}"

    @property
    def final(self) -> bool:
        """Whether the refusal is permanent: trying again is useless."""
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(self.content)
            return isinstance(found, dict) and found.get("final") is True
        return False


class Fetched(NamedTuple):
    """A request, received in answer to a poll."""

    id: int
    head: dict[str, Any]
    payload: Blob


@dataclass
class Link:
    """A connection to the coordinator, for use in one thread. After a failure it reconnects with the current
    certificate. All calls raise UnreachableError if there is no answer.
    """

    host: str
    port: int
    tls: Path
    _connection: HTTPSConnection | None = field(default=None, repr=False)

    def poll(self, session: str, have: int, version: str, spool: Path) -> Fetched | Answer:
        """Asks for a request other than number `have`; Answer 204 if there is none within POLL_SECONDS. A large payload
        is stored in `spool`.
        """
        body = json.dumps({"session": session, "have": have, "version": version}).encode()
        with self._errors():
            response = self._send("POST", messages.POLL, body, timeout=messages.POLL_SECONDS + _CONNECT)
            number = response.getheader(messages.REQUEST_HEADER)
            if response.status != 200 or number is None or not number.isascii() or not number.isdigit():
                return self._answer(response)
            return _fetch(int(number), response, spool)

    def call(self, method: str, path: str, body: bytes = b"", *, most: int = _MOST_ANSWER) -> Answer:
        """Sends a message and returns the answer, of at most `most` bytes."""
        with self._errors():
            return self._answer(self._send(method, path, body, timeout=60.0), most)

    def reply(self, number: int, head: dict[str, Any], payload: Blob | None) -> Answer:
        """Sends the reply to a request."""
        start = messages.head(head)
        with self._errors():
            return self._answer(self._send("POST", f"{messages.REPLY}{number}", start, payload, timeout=60.0))

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise UnreachableError(_explained(error, f"{self.host}:{self.port}")) from None

    def _send(
        self, method: str, path: str, body: bytes, payload: Blob | None = None, *, timeout: float
    ) -> HTTPResponse:
        connection = self._connection or self._connect()
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        size = len(body) + (len(payload) if payload is not None else 0)
        connection.putrequest(method, path, skip_accept_encoding=True)
        connection.putheader("Content-Length", str(size))
        try:
            connection.endheaders(body)
            for place in range(0, size - len(body), _PIECE):
                assert payload is not None
                connection.send(payload.piece(place))
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            # A server that refuses a body closes the connection early, but its reason may have arrived.
            response = connection.getresponse()
            if response.status < 400:
                raise
            return response
        return connection.getresponse()

    def _connect(self) -> HTTPSConnection:
        proxy = _proxy(self.host, self.port)
        context = client_context(self.tls)
        if proxy is None:
            connection = HTTPSConnection(self.host, self.port, timeout=_CONNECT, context=context)
        else:
            connection = HTTPSConnection(proxy.host, proxy.port, timeout=_CONNECT, context=context)
            connection.set_tunnel(self.host, self.port, proxy.headers)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            if proxy is not None and not isinstance(error, ssl.SSLError):
                raise ProxyError(f"the proxy {proxy.host}:{proxy.port} refused the connection: {error}") from None
            raise
        assert connection.sock is not None
        _notice_silence(connection.sock)
        self._connection = connection
        return connection

    def _answer(self, response: HTTPResponse, most: int = _MOST_ANSWER) -> Answer:
        content = response.read(most + 1)
        if len(content) > most:
            raise ValueError("the answer is too long")
        if response.will_close or not response.isclosed():
            self.close()
        return Answer(response.status, content)


def _fetch(number: int, response: HTTPResponse, spool: Path) -> Fetched:
    size = response.length
    if size is None or not messages.LENGTH <= size <= messages.LENGTH + messages.MOST_HEAD + messages.MOST_PAYLOAD:
        raise ValueError("the request is too long or has no length")
    length = messages.head_length(_exactly(response, messages.LENGTH))
    head = messages.parse(_exactly(response, length))
    left = size - messages.LENGTH - length
    payload = Blob.make(left, spool)
    while left > 0:
        piece = response.read(min(left, _PIECE))
        if not piece:
            raise ValueError("the request was cut off")
        payload.write(piece)
        left -= len(piece)
    response.read()
    return Fetched(number, head, payload)


def _exactly(response: HTTPResponse, count: int) -> bytes:
    found = response.read(count)
    if len(found) != count:
        raise ValueError("the request was cut off")
    return found


class _Proxy(NamedTuple):
    host: str
    port: int
    headers: dict[str, str]


def _proxy(host: str, port: int) -> _Proxy | None:
    """The proxy that HTTPS_PROXY and NO_PROXY prescribe, if any. It sees the coordinator's address, and the times and
    sizes of messages.
    """
    address = urllib.request.getproxies_environment().get("https")
    if not address or urllib.request.proxy_bypass(f"{host}:{port}"):
        return None
    try:
        parts = urllib.parse.urlsplit(address if "//" in address else f"http://{address}")
        host_, port_ = parts.hostname, parts.port or 3128
    except ValueError:
        host_, port_ = None, 0
    if not host_ or parts.scheme != "http":
        raise ProxyError("HTTPS_PROXY is not a proxy address like http://proxy.example.org:3128")
    headers = {}
    if parts.username is not None:
        user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    return _Proxy(host_, port_, headers)


def _notice_silence(connection: socket.socket) -> None:
    """Turns on TCP keepalive, so that the system notices a dead connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 20_000)):
        if hasattr(socket, option):
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _explained(error: BaseException, where: str) -> str:
    if isinstance(error, ProxyError):
        return f"{where} cannot be reached: {error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"is not the coordinator of this federation ({error.verify_message}); is the address right, and the kit?"
        return f"{where} {why}"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {where} yet; is the coordinator running, and is the port open from here?"
    if isinstance(error, socket.gaierror):
        return f"the host name {where.rpartition(':')[0]} cannot be resolved; is it right?"
    if isinstance(error, ssl.SSLError) and "ALERT" in str(error.reason):
        return f"the coordinator at {where} refuses this kit's certificate ({error.reason})"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno is not None:
        return f"{where} cannot be reached ({os.strerror(error.errno)}); is the port open from here?"
    return f"the connection to {where} broke ({type(error).__name__}: {error})"
