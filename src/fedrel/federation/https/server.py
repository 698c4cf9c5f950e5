"""The coordinator's process with the network: six messages over TLS, both ends with a certificate, nothing else.

It holds the TLS key and no other secret, reads no run and no data, starts no program, and once it listens it can open
no connection of its own. It passes signed bytes between the node (its parent) and those who call; it could drop them,
but neither make nor change them. A reply is bounded by what its request allows before any of it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import os
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from fedrel.federation.channel import Blob, Channel, ClosedError, Message, started
from fedrel.federation.https import messages
from fedrel.federation.https.messages import BodyError
from fedrel.federation.https.tls import identity, server_context
from fedrel.sandbox import Limits, confine, python_paths

_HANDSHAKE = 10.0  # seconds
_IDLE = 30.0  # seconds without a byte in the middle of a message, or without a message on an open connection
_SLOWEST = 8_000  # bytes a second, below which a message is given up
_HANDSHAKES = 512  # at the same time
_HANDSHAKES_OF_ONE = 64  # from one address: nobody without a certificate takes all the room
_CONNECTIONS = 16  # of one party
_PIECE = 2**20
_TICK = 0.5
_COMMAND = 30.0  # seconds that the node has to answer an admin
_OFTEN = 10.0  # seconds in which the same refusal is told once
_KINDS = 20  # of refusals of one party that are told in that time


@dataclass(eq=False)
class Pending:
    """A request that waits for its platform to fetch it, and then for the answer."""

    id: int
    head: dict[str, Any]
    payload: Blob
    most: int  # bytes of the answer's payload
    delivered: bool = False


@dataclass(eq=False)
class Caller:
    """A platform as it is seen from here."""

    session: str = ""
    open: int = 0  # messages under way
    seen: float = 0.0
    here: bool = False
    left: bool = False
    pending: Pending | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)


class RefusedError(Exception):
    def __init__(self, status: int, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.status, self.why, self.final = status, why, final


class Handler(RequestHandler):
    """One connection. Who sends what is no HTTP is named; a mistake of ours is in the log with its traceback."""

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        server = self._manager
        if isinstance(server, Connections) and request.transport is not None:
            why = "a message that is no HTTP" if status < 500 else "a message that the server could not answer"
            server.refuse(identity(request.transport).name, _address(request.transport), why)
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        answer = web.json_response({"why": "that is no HTTP"}, status=status)
        answer.force_close()
        return answer


class Connections(web.Server):
    """Counts who is connected, so that nobody takes all the room and whoever is shut out is cut off."""

    def __init__(self, handler: Any, refuse: Callable[[str, str, str], None], **more: Any) -> None:
        super().__init__(handler, handler_cancellation=True, **more)
        self.refuse = refuse
        self.of: dict[str, set[asyncio.Transport]] = {}

    def __call__(self) -> RequestHandler:
        """With all its limits or not at all: the library's own would leave out those that it does not know."""
        return Handler(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        name, address = identity(transport).name, _address(transport)
        mine = self.of.setdefault(name, set())
        mine.difference_update([it for it in mine if it.is_closing()])
        if len(mine) >= _CONNECTIONS:
            self.refuse(name, address, f"more than {_CONNECTIONS} connections at the same time")
            transport.abort()
            return
        mine.add(transport)

    def cut(self, name: str) -> None:
        for transport in self.of.pop(name, set()):
            transport.abort()


class Service:
    def __init__(self, channel: Channel, tls: Path, spool: Path, federation: str) -> None:
        self.channel, self.tls, self.spool, self.federation = channel, tls, spool, federation
        self.members: dict[str, str] = {}  # name: role
        self.revoked: set[str] = set()
        self.callers: dict[str, Caller] = {}
        self.commands: dict[int, asyncio.Future[Message]] = {}
        self.numbers = itertools.count(1)
        self.told: Counter[tuple[str, str, str]] = Counter()
        self.context = server_context(tls)
        self.stamp = _stamp(tls)
        self.handshakes: Counter[str] = Counter()  # under way, by address
        self.ended = asyncio.Event()
        routes: dict[tuple[str, str], Callable[[web.BaseRequest, str], Awaitable[web.StreamResponse]]] = {
            ("POST", messages.POLL): self._poll,
            ("POST", messages.REPLY): self._reply,
            ("POST", messages.LEAVE): self._leave,
            ("POST", messages.SUBMIT): self._command,
            ("POST", messages.STOP): self._command,
            ("GET", messages.STATUS): self._command,
        }
        self.routes = routes
        self.server = Connections(
            self._handle,
            self._refuse,
            keepalive_timeout=_IDLE,
            auto_decompress=False,  # nothing of ours is compressed, so a small body stays small
            max_line_size=2048,
            max_field_size=2048,
            max_headers=32,
            read_bufsize=_PIECE,
            access_log=None,
        )

    # -- the node ---------------------------------------------------------------------------------------------

    def tell(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        try:
            self.channel.send(header, payload)
        except ClosedError:
            self.ended.set()

    def hear(self, message: Message) -> None:
        """From the node."""
        header = message.header
        match header["do"]:
            case "members" if message.payload is not None:
                lists = json.loads(message.payload.read(messages.MOST_STATUS))
                before, self.members = self.members, dict(lists["members"])
                self.revoked = set(lists["revoked"])
                for name in before.keys() - self.members.keys():
                    self._gone(name, "shut out")
                    self.server.cut(name)
            case "ask" if message.payload is not None:
                caller = self._caller(header["to"])
                caller.pending = Pending(header["id"], header["head"], message.payload, header["most"])
                caller.news.set()
            case "drop":
                caller = self._caller(header["to"])
                if caller.pending is not None and caller.pending.id == header["id"]:
                    caller.pending = None
            case "answer":
                waiting = self.commands.pop(header["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            case "end":
                self.ended.set()

    def _caller(self, name: str) -> Caller:
        return self.callers.setdefault(name, Caller())

    # -- who is there -----------------------------------------------------------------------------------------

    def _here(self, name: str, session: str, address: str, version: str) -> None:
        caller = self._caller(name)
        if caller.here and caller.session != session:
            if caller.open or time.monotonic() - caller.seen < messages.SILENT_SECONDS:
                raise RefusedError(409, f"another node runs with the kit of {name}; stop it first")
            self._gone(name, "silent")
        caller.seen = time.monotonic()
        if not caller.here:
            if caller.session != session:
                caller.pending = None  # what the old process had not fetched is asked again by whoever wants it
            caller.here, caller.left, caller.session = True, False, session
            self.tell({"do": "here", "name": name, "session": session, "address": address, "version": version})

    def _gone(self, name: str, why: str) -> None:
        caller = self._caller(name)
        if caller.here:
            caller.here = False
            self.tell({"do": "gone", "name": name, "why": why})

    def _refuse(self, name: str, address: str, why: str) -> None:
        """Tells the node of it; the same a thousand times is told once in a while, with its number."""
        key = (name, address, why)
        if key not in self.told and sum(it[:2] == key[:2] for it in self.told) >= _KINDS:
            key = (name, address, "refusals of many other kinds")  # nobody floods the audit trail with ever new ones
        self.told[key] += 1
        if self.told[key] == 1:
            self.tell({"do": "refused", "name": name, "address": address, "why": key[2]})

    async def watch(self) -> None:
        """Notices silence, new certificates, and refusals that go on."""
        told = time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            for name, caller in self.callers.items():
                if caller.here and not caller.open and now - caller.seen > messages.SILENT_SECONDS:
                    self._gone(name, "silent")
            if (stamp := _stamp(self.tls)) != self.stamp:
                self.stamp = stamp
                try:
                    self.context = server_context(self.tls)
                    self.tell({"do": "certificate"})
                except (OSError, ssl.SSLError) as error:
                    self.tell({"do": "refused", "name": "", "address": "", "why": f"a new certificate: {error}"})
            if now - told > _OFTEN:
                for (name, address, why), count in self.told.items():
                    if count > 1:
                        again = f"{why} ({count - 1} times more)"
                        self.tell({"do": "refused", "name": name, "address": address, "why": again})
                told = now
                self.told.clear()

    # -- connections ------------------------------------------------------------------------------------------

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED):
                    raise
                await asyncio.sleep(_TICK)
                continue
            source = str(address[0]).removeprefix("::ffff:")
            if self.handshakes[source] >= _HANDSHAKES_OF_ONE or self.handshakes.total() >= _HANDSHAKES:
                connection.close()
                self._refuse("", source, "too many connections at the same time that have not shown a certificate")
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.handshakes[source] += 1
            _keep(asyncio.create_task(self._greet(connection, source)))

    async def _greet(self, connection: socket.socket, address: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self.server, connection, ssl=self.context, ssl_handshake_timeout=_HANDSHAKE, ssl_shutdown_timeout=2.0
            )
        except (OSError, ssl.SSLError, TimeoutError, asyncio.CancelledError) as error:
            with contextlib.suppress(OSError):
                connection.close()
            self._refuse("", address, _explained(error))
        finally:
            self.handshakes[address] -= 1
            if not self.handshakes[address]:
                del self.handshakes[address]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        who, address = identity(transport), _address(transport)
        try:
            self._check(who.name, who.role, who.federation, who.until)
            path = messages.REPLY if request.path.startswith(messages.REPLY) else request.path
            allowed = messages.ROLES.get((request.method, path))
            if allowed is None or request.query_string:
                raise RefusedError(404, "there is no such message")
            if who.role not in allowed:
                raise RefusedError(403, f"{path} is not for a {who.role}")
            return await self.routes[request.method, path](request, who.name)
        except RefusedError as error:
            self._refuse(who.name, address, error.why)
            answer = web.json_response({"why": error.why, "final": error.final}, status=error.status)
        except BodyError as error:
            self._refuse(who.name, address, f"a message that is none: {error}")
            answer = web.json_response({"why": str(error)}, status=400)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            self.tell({"do": "full", "why": error.strerror})
            answer = web.json_response({"why": "the coordinator's disk is full; try again"}, status=507)
        answer.force_close()  # the rest of a body that nobody wants is not read
        return answer

    def _check(self, name: str, role: str, federation: str, until: float) -> None:
        if federation != self.federation:
            raise RefusedError(403, "a certificate of another federation", final=True)
        if name in self.revoked:
            raise RefusedError(403, f"{name} was shut out of the federation", final=True)
        if self.members.get(name) != role:
            raise RefusedError(403, f"{name} ({role}) is not among the members that the coordinator knows")
        if time.time() > until:
            raise RefusedError(403, f"the certificate of {name} has expired; ask for a new one")

    # -- platforms --------------------------------------------------------------------------------------------

    async def _poll(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        said = messages.parse(await _small(request, messages.MOST_HEAD))
        match said:
            case {"session": str(session), "have": int(have), "version": str(version)} if len(session) == 32:
                self._here(name, session, _address(request.transport), version[:40])
            case _:
                raise BodyError("a poll without session, version and number")
        caller = self._caller(name)
        caller.open += 1
        try:
            pending = await self._news(caller, have, messages.POLL_SECONDS)
            if pending is None:
                return web.Response(status=204)
            response = await self._deliver(request, caller, pending)
            pending.delivered = True
            self.tell({"do": "delivered", "name": name, "id": pending.id})
            return response
        except (asyncio.CancelledError, ConnectionError):
            if caller.session == session and not caller.left:
                self._gone(name, "the connection broke")
            raise
        finally:
            caller.open -= 1
            caller.seen = time.monotonic()

    async def _news(self, caller: Caller, have: int, seconds: float) -> Pending | None:
        """A request that the platform does not have yet."""
        until = time.monotonic() + seconds
        while True:
            caller.news.clear()
            if caller.pending is not None and caller.pending.id != have:
                return caller.pending
            left = until - time.monotonic()
            if left <= 0:
                return None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(caller.news.wait(), left)

    async def _deliver(self, request: web.BaseRequest, caller: Caller, pending: Pending) -> web.StreamResponse:
        head = messages.head(pending.head)
        size = len(head) + len(pending.payload)
        response = web.StreamResponse(headers={messages.REQUEST_HEADER: str(pending.id)})
        response.content_length = size
        await response.prepare(request)
        until = time.monotonic() + _IDLE + size / _SLOWEST
        await asyncio.wait_for(response.write(head), _IDLE)
        for place in range(0, len(pending.payload), _PIECE):
            await asyncio.wait_for(response.write(pending.payload.piece(place)), _IDLE + _PIECE / _SLOWEST)
            caller.seen = time.monotonic()
            if caller.seen > until:
                raise ConnectionResetError
        await response.write_eof()
        return response

    async def _reply(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        caller = self._caller(name)
        found = re.fullmatch(r"\d{1,18}", request.path.removeprefix(messages.REPLY))
        if found is None or caller.pending is None or caller.pending.id != int(found[0]):
            raise RefusedError(409, "an answer that nobody waits for")
        pending, size = caller.pending, request.content_length
        if size is None or request.headers.get("Content-Encoding"):
            raise RefusedError(411, "an answer of unknown length")
        if size > messages.LENGTH + messages.MOST_HEAD + pending.most:
            why = f"{size:,} bytes where at most {pending.most:,} were expected"
            self._answered(name, caller, pending, {"refused": why})
            raise RefusedError(413, why)
        caller.open += 1
        try:
            body = _Body(request, size, caller)
            length = messages.head_length(await body.exactly(messages.LENGTH))
            head = messages.parse(await body.exactly(length))
            payload = Blob.make(body.left, self.spool)
            while piece := await body.piece():
                payload.write(piece)
        finally:
            caller.open -= 1
            caller.seen = time.monotonic()
        if caller.pending is not pending:
            raise RefusedError(409, "an answer that nobody waits for any more")
        self._answered(name, caller, pending, head, payload)
        return web.Response(status=200)

    def _answered(
        self, name: str, caller: Caller, pending: Pending, head: dict[str, Any], payload: Blob | None = None
    ) -> None:
        caller.pending = None
        about = {"do": "reply", "name": name, "id": pending.id}
        try:
            self.tell({**about, "head": head}, payload)
        except ValueError:  # it is longer than it came, once every letter is spelt out
            self.tell({**about, "head": {"refused": "a head that is too long"}})
            raise BodyError("a head that is too long") from None

    async def _leave(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        said = messages.parse(await _small(request, messages.MOST_HEAD))
        caller = self._caller(name)
        if said.get("session") == caller.session:
            caller.left = True
            self._gone(name, "it left")
        return web.Response(status=200)

    # -- admins -----------------------------------------------------------------------------------------------

    async def _command(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        content = await _small(request, messages.MOST_COMMAND)
        number = next(self.numbers)
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.commands[number] = waiting
        header = {"do": "command", "id": number, "name": name, "path": request.path}
        self.tell({**header, "address": _address(request.transport)}, Blob.of(content))
        try:
            answer = await asyncio.wait_for(waiting, _COMMAND)
        except TimeoutError:
            raise RefusedError(503, "the coordinator's node does not answer") from None
        finally:
            self.commands.pop(number, None)
        body = bytes(answer.payload.read(messages.MOST_STATUS)) if answer.payload else b"{}"
        return web.Response(status=answer.header["status"], body=body, content_type="application/json")


class _Body:
    """Reads what was announced and not more, from somebody who must not be too slow."""

    def __init__(self, request: web.BaseRequest, size: int, caller: Caller | None = None) -> None:
        self._stream, self.left, self._caller = request.content, size, caller
        self._until = time.monotonic() + _IDLE + size / _SLOWEST
        self._kept = b""

    async def piece(self, most: int = _PIECE) -> bytes:
        if not self.left:
            return b""
        if not self._kept:
            try:
                self._kept = await asyncio.wait_for(self._stream.readany(), _IDLE)
            except TimeoutError:
                raise BodyError(f"nothing came for {_IDLE:g} seconds") from None
        found, self._kept = self._kept[:most], self._kept[most:]
        self.left -= len(found)
        if not found or self.left < 0:
            raise BodyError("a body of another length than announced")
        if time.monotonic() > self._until:
            raise BodyError("a body that came too slowly")
        if self._caller is not None:
            self._caller.seen = time.monotonic()
        return found

    async def exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = await self.piece(count - len(found))
            if not piece:
                raise BodyError("a body that ends too early")
            found += piece
        return found


async def _small(request: web.BaseRequest, most: int) -> bytes:
    """A body that fits into memory."""
    size = request.content_length
    if request.method == "GET":
        return b""
    if size is None or size > most:
        raise RefusedError(413 if size else 411, f"a message of {size or 'unknown'} bytes; at most {most:,} are taken")
    return await _Body(request, size).exactly(size)


def _explained(error: BaseException) -> str:
    """Why somebody did not get past the handshake."""
    reasons = {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate",
        "HTTP_REQUEST": "it speaks plain text, not TLS",
        "WRONG_VERSION_NUMBER": "it speaks plain text, not TLS",
        "UNSUPPORTED_PROTOCOL": "it speaks an old version of TLS",
        "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this federation's certificates; its kit is of another one",
    }
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not of this federation, or not valid now: {error.verify_message}"
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return f"it said nothing for {_HANDSHAKE:g} seconds"
    reason = str(getattr(error, "reason", None) or type(error).__name__)
    return reasons.get(reason, f"no TLS connection ({reason})")


def _address(transport: asyncio.BaseTransport | None) -> str:
    found = transport.get_extra_info("peername") if transport is not None else None
    return str(found[0]).removeprefix("::ffff:") if found else ""


def _stamp(folder: Path) -> tuple[tuple[int, int, int], ...]:
    """Changes whenever a file in the folder does."""
    with contextlib.suppress(OSError):
        return tuple((it.st_mtime_ns, it.st_size, it.st_ino) for it in map(os.stat, sorted(folder.iterdir())))
    return ()


_TASKS: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    """A task that nobody holds may be collected while it runs."""
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


async def serve(channel: Channel, listener: socket.socket, told: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    service = Service(channel, Path(told["tls"]), Path(told["spool"]), told["federation"])
    ours = (asyncio.create_task(service.watch()), asyncio.create_task(service.accept(listener)))

    def listen() -> None:
        with contextlib.suppress(ClosedError, RuntimeError):  # RuntimeError: the loop has ended
            while (message := channel.receive()) is not None:
                loop.call_soon_threadsafe(service.hear, message)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(service.ended.set)

    threading.Thread(target=listen, daemon=True).start()
    ending = asyncio.create_task(service.ended.wait())
    await asyncio.wait([ending, *ours], return_when=asyncio.FIRST_COMPLETED)
    for task in ours:
        if task.done():
            task.result()  # a mistake of ours ends the process with its traceback
        task.cancel()


def _listener(port: int) -> socket.socket:
    """On all addresses of the machine, of both kinds where it has both."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    listener = socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=family == socket.AF_INET6)
    listener.setblocking(False)
    return listener


def main() -> None:
    """`python -m fedrel.federation.https.server DESCRIPTOR`, started by the coordinator's node."""
    channel, told = started("`fedrel coordinator start`")
    try:
        listener = _listener(told["port"])
    except OSError as error:
        channel.send({"do": "failed", "why": f"port {told['port']}: {os.strerror(error.errno or 0)}"})
        return
    with listener:
        tls, spool = Path(told["tls"]), Path(told["spool"])
        limits = Limits(read=(*python_paths(), tls, spool), write=(spool,), network="none", programs=False)
        protection = confine(limits)
        channel.send({"do": "listening", "problems": list(protection.problems)})
        asyncio.run(serve(channel, listener, told))


if __name__ == "__main__":
    main()
