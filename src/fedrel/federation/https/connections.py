"""Connections at the coordinator's network process: TLS handshakes, limits, and the refusals reported to the node."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from fedrel.federation.channel import Blob
from fedrel.federation.https.bodies import IDLE, PIECE
from fedrel.federation.https.tls import identity, server_context

HANDSHAKE = 10.0  # seconds
HANDSHAKES = 512  # at the same time
HANDSHAKES_OF_ONE = 64  # from one address, so that clients without a certificate cannot use up all handshakes
CONNECTIONS = 16  # of one party
_PAUSE = 0.5  # seconds before accepting again when the system is out of descriptors
_OFTEN = 10.0  # seconds in which the same refusal is reported once
_KINDS = 20  # different refusals of one party that are reported in that time

Tell = Callable[[dict[str, Any], Blob | None], None]  # sends a message to the node


class Refusals:
    """Reports refusals to the node. A repeated one is reported again only every 10 seconds, with its count."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._since = time.monotonic()

    def add(self, name: str, address: str, why: str) -> None:
        """`name`: the party in the certificate; empty if there is none."""
        key = (name, address, why)
        if key not in self._counts and sum(it[:2] == key[:2] for it in self._counts) >= _KINDS:
            key = (name, address, "many other refusals")  # ever new reasons must not flood the audit trail
        self._counts[key] += 1
        if self._counts[key] == 1:
            self._report(name, address, key[2])

    def repeat(self) -> None:
        """Reports refusals that have recurred, if it is time; to be called regularly."""
        if time.monotonic() - self._since > _OFTEN:
            for (name, address, why), count in self._counts.items():
                if count > 1:
                    self._report(name, address, f"{why} ({count - 1} more times)")
            self._since = time.monotonic()
            self._counts.clear()

    def _report(self, name: str, address: str, why: str) -> None:
        self._tell({"do": "refused", "name": name, "address": address, "why": why}, None)


class Handler(RequestHandler):
    """One connection. A party that sends something other than HTTP is reported; our own errors are logged."""

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        server = self._manager
        if isinstance(server, Connections) and request.transport is not None:
            why = "a message that is not HTTP" if status < 500 else "a message that the server could not answer"
            server.refusals.add(identity(request.transport).name, address_of(request.transport), why)
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        answer = web.json_response({"why": "not HTTP"}, status=status)
        answer.force_close()
        return answer


class Connections(web.Server):
    """Open connections by party: limits their number, and closes those of a revoked party."""

    def __init__(self, handler: Any, refusals: Refusals) -> None:
        super().__init__(
            handler,
            handler_cancellation=True,
            keepalive_timeout=IDLE,
            auto_decompress=False,  # we send nothing compressed, and a small body must not become a large one
            max_line_size=2048,
            max_field_size=2048,
            max_headers=32,
            read_bufsize=PIECE,
            access_log=None,
        )
        self.refusals = refusals
        self.of: dict[str, set[asyncio.Transport]] = {}

    def __call__(self) -> RequestHandler:
        """A handler with all the limits above: aiohttp's own method silently drops arguments that it does not know."""
        return Handler(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        name, address = identity(transport).name, address_of(transport)
        mine = self.of.setdefault(name, set())
        mine.difference_update([it for it in mine if it.is_closing()])
        if len(mine) >= CONNECTIONS:
            self.refusals.add(name, address, f"more than {CONNECTIONS} connections at the same time")
            transport.abort()
            return
        mine.add(transport)

    def cut(self, name: str) -> None:
        """Closes all connections of a party at once."""
        for transport in self.of.pop(name, set()):
            transport.abort()


class Listener:
    """Accepts connections and performs TLS handshakes, with a limited number at the same time."""

    def __init__(self, server: Connections, refusals: Refusals, tls: Path) -> None:
        self._server, self._refusals, self._tls = server, refusals, tls
        self._context, self._stamp = server_context(tls), _stamp(tls)
        self._handshakes: Counter[str] = Counter()  # under way, by address
        self._tasks: set[asyncio.Task[None]] = set()  # references, or a running task could be garbage-collected

    def reload(self) -> bool:
        """Reloads the certificate if its files have changed. Returns whether a new one is in use. Raises OSError or
        ssl.SSLError if it cannot be loaded; the old one stays in use then.
        """
        if (stamp := _stamp(self._tls)) == self._stamp:
            return False
        self._stamp = stamp
        self._context = server_context(self._tls)
        return True

    async def accept(self, listener: socket.socket) -> None:
        """Runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED):
                    raise
                await asyncio.sleep(_PAUSE)
                continue
            source = str(address[0]).removeprefix("::ffff:")
            if self._handshakes[source] >= HANDSHAKES_OF_ONE or self._handshakes.total() >= HANDSHAKES:
                connection.close()
                self._refusals.add("", source, "too many connections at the same time without a certificate")
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._handshakes[source] += 1
            task = asyncio.create_task(self._handshake(connection, source))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handshake(self, connection: socket.socket, address: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._server, connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE, ssl_shutdown_timeout=2.0
            )
        except (OSError, ssl.SSLError, TimeoutError, asyncio.CancelledError) as error:
            with contextlib.suppress(OSError):
                connection.close()
            self._refusals.add("", address, _explained(error))
        finally:
            self._handshakes[address] -= 1
            if not self._handshakes[address]:
                del self._handshakes[address]


def address_of(transport: asyncio.BaseTransport | None) -> str:
    """The IP address at the other end; empty if it is no longer known."""
    found = transport.get_extra_info("peername") if transport is not None else None
    return str(found[0]).removeprefix("::ffff:") if found else ""


def _explained(error: BaseException) -> str:
    """Why a handshake failed."""
    reasons = {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate",
        "HTTP_REQUEST": "it speaks plain text, not TLS",
        "WRONG_VERSION_NUMBER": "it speaks plain text, not TLS",
        "UNSUPPORTED_PROTOCOL": "it speaks an old version of TLS",
        "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this federation's certificates; its kit is from another one",
    }
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not from this federation, or not currently valid: {error.verify_message}"
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return f"no TLS handshake within {HANDSHAKE:g} seconds"
    reason = str(getattr(error, "reason", None) or type(error).__name__)
    return reasons.get(reason, f"no TLS connection ({reason})")


def _stamp(folder: Path) -> tuple[tuple[int, int, int], ...]:
    """Changes whenever a file in the folder does."""
    with contextlib.suppress(OSError):
        return tuple((it.st_mtime_ns, it.st_size, it.st_ino) for it in map(os.stat, sorted(folder.iterdir())))
    return ()
