"""The HTTPS service of the coordinator's network process: what it answers to each of the six messages.

It passes signed bytes between the node and the callers. The size of a reply is limited by its request, and checked
before any of it is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from fedrel.federation.channel import Blob, Channel, ClosedError, Message
from fedrel.federation.https import messages
from fedrel.federation.https.bodies import IDLE, PIECE, SLOWEST, Body, RefusedError, small
from fedrel.federation.https.connections import Connections, Listener, Refusals, address_of
from fedrel.federation.https.messages import BodyError
from fedrel.federation.https.tls import identity

_TICK = 0.5
_COMMAND = 30.0  # seconds within which the node must answer a command


@dataclass(eq=False)
class Pending:
    """A request that its platform has not fetched, or not answered, yet."""

    id: int
    head: dict[str, Any]
    payload: Blob
    most: int  # bytes of the reply's payload
    delivered: bool = False


@dataclass(eq=False)
class Caller:
    """The state of a platform's connection."""

    session: str = ""  # of the platform's process; drawn by it
    open: int = 0  # messages under way
    seen: float = 0.0
    here: bool = False
    left: bool = False
    pending: Pending | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def touch(self) -> None:
        """Notes that the platform has sent something."""
        self.seen = time.monotonic()


class Service:
    """Handles the messages, and keeps track of which platforms are connected. Runs in one event loop."""

    def __init__(self, channel: Channel, tls: Path, spool: Path, federation: str) -> None:
        self.channel, self.spool, self.federation = channel, spool, federation
        self.members: dict[str, str] = {}  # name: role
        self.revoked: set[str] = set()
        self.callers: dict[str, Caller] = {}
        self.commands: dict[int, asyncio.Future[Message]] = {}
        self.numbers = itertools.count(1)
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
        self.refusals = Refusals(self.tell)
        self.server = Connections(self._handle, self.refusals)
        self.listener = Listener(self.server, self.refusals, tls)

    # -- the node ---------------------------------------------------------------------------------------------

    def tell(self, header: dict[str, Any], payload: Blob | None = None) -> None:
        """Sends a message to the node; if the node has gone, the service ends."""
        try:
            self.channel.send(header, payload)
        except ClosedError:
            self.ended.set()

    def hear(self, message: Message) -> None:
        """Handles a message from the node."""
        header = message.header
        match header["do"]:
            case "members" if message.payload is not None:
                lists = json.loads(message.payload.read(messages.MOST_STATUS))
                before, self.members = self.members, dict(lists["members"])
                self.revoked = set(lists["revoked"])
                for name in before.keys() - self.members.keys():
                    self._gone(name, messages.REVOKED)
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

    # -- which platforms are connected ------------------------------------------------------------------------

    def _here(self, name: str, session: str, address: str, version: str) -> None:
        caller = self._caller(name)
        if caller.here and caller.session != session:
            if caller.open or time.monotonic() - caller.seen < messages.SILENT_SECONDS:
                raise RefusedError(409, f"another node is running with the kit of {name}; stop it first")
            self._gone(name, messages.SILENT)
        caller.seen = time.monotonic()
        if not caller.here:
            if caller.session != session:
                caller.pending = None  # made for the old process; the run's process asks the new one again
            caller.here, caller.left, caller.session = True, False, session
            self.tell({"do": "here", "name": name, "session": session, "address": address, "version": version})

    def _gone(self, name: str, why: str) -> None:
        caller = self._caller(name)
        if caller.here:
            caller.here = False
            self.tell({"do": "gone", "name": name, "why": why})

    async def watch(self) -> None:
        """Notices silent platforms, renewed certificates and recurring refusals. Runs until cancelled."""
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            for name, caller in self.callers.items():
                if caller.here and not caller.open and now - caller.seen > messages.SILENT_SECONDS:
                    self._gone(name, messages.SILENT)
            try:
                if self.listener.reload():
                    self.tell({"do": "certificate"})
            except (OSError, ssl.SSLError) as error:
                why = f"the new certificate cannot be loaded: {error}"
                self.tell({"do": "refused", "name": "", "address": "", "why": why})
            self.refusals.repeat()

    # -- messages ---------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        who, address = identity(transport), address_of(transport)
        try:
            self._check(who.name, who.role, who.federation, who.until)
            path = messages.REPLY if request.path.startswith(messages.REPLY) else request.path
            allowed = messages.ROLES.get((request.method, path))
            if allowed is None or request.query_string:
                raise RefusedError(404, "there is no such message")
            if who.role not in allowed:
                raise RefusedError(403, f"{path} is not for the role {who.role}")
            return await self.routes[request.method, path](request, who.name)
        except RefusedError as error:
            self.refusals.add(who.name, address, error.why)
            answer = web.json_response({"why": error.why, "final": error.final}, status=error.status)
        except BodyError as error:
            self.refusals.add(who.name, address, f"invalid message: {error}")
            answer = web.json_response({"why": str(error)}, status=400)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            self.tell({"do": "full", "why": error.strerror})
            answer = web.json_response({"why": "the coordinator's disk is full; try again"}, status=507)
        answer.force_close()  # the rest of a refused body is not read
        return answer

    def _check(self, name: str, role: str, federation: str, until: float) -> None:
        if federation != self.federation:
            raise RefusedError(403, "a certificate of another federation", final=True)
        if name in self.revoked:
            raise RefusedError(403, f"{name} has been revoked", final=True)
        if self.members.get(name) != role:
            raise RefusedError(403, f"{name} ({role}) is not in the coordinator's list of members")
        if time.time() > until:
            raise RefusedError(403, f"the certificate of {name} has expired; ask for a new one")

    # -- platforms --------------------------------------------------------------------------------------------

    async def _poll(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        said = messages.parse(await small(request, messages.MOST_HEAD))
        match said:
            case {"session": str(session), "have": int(have), "version": str(version)} if len(session) == 32:
                self._here(name, session, address_of(request.transport), version[:40])
            case _:
                raise BodyError("a poll without session, version or request number")
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
        """A pending request other than number `have`; None if there is none within `seconds`."""
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
        until = time.monotonic() + IDLE + size / SLOWEST
        await asyncio.wait_for(response.write(head), IDLE)
        for place in range(0, len(pending.payload), PIECE):
            await asyncio.wait_for(response.write(pending.payload.piece(place)), IDLE + PIECE / SLOWEST)
            caller.seen = time.monotonic()
            if caller.seen > until:
                raise ConnectionResetError
        await response.write_eof()
        return response

    async def _reply(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        caller = self._caller(name)
        found = re.fullmatch(r"\d{1,18}", request.path.removeprefix(messages.REPLY))
        if found is None or caller.pending is None or caller.pending.id != int(found[0]):
            raise RefusedError(409, "a reply to a request that is not pending")
        pending, size = caller.pending, request.content_length
        if size is None or request.headers.get("Content-Encoding"):
            raise RefusedError(411, "a reply without a length, or encoded")
        if size > messages.LENGTH + messages.MOST_HEAD + pending.most:
            why = f"{size:,} bytes where at most {pending.most:,} were expected"
            self._answered(name, caller, pending, {"refused": why})
            raise RefusedError(413, why)
        caller.open += 1
        try:
            body = Body(request, size, caller.touch)
            length = messages.head_length(await body.exactly(messages.LENGTH))
            head = messages.parse(await body.exactly(length))
            payload = Blob.make(body.left, self.spool)
            while piece := await body.piece():
                payload.write(piece)
        finally:
            caller.open -= 1
            caller.seen = time.monotonic()
        if caller.pending is not pending:
            raise RefusedError(409, "a reply to a request that is no longer pending")
        self._answered(name, caller, pending, head, payload)
        return web.Response(status=200)

    def _answered(
        self, name: str, caller: Caller, pending: Pending, head: dict[str, Any], payload: Blob | None = None
    ) -> None:
        caller.pending = None
        about = {"do": "reply", "name": name, "id": pending.id}
        try:
            self.tell({**about, "head": head}, payload)
        except ValueError:  # re-encoded with escapes, it is longer than what was received
            self.tell({**about, "head": {"refused": "the head is too long"}})
            raise BodyError("the head is too long") from None

    async def _leave(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        said = messages.parse(await small(request, messages.MOST_HEAD))
        caller = self._caller(name)
        if said.get("session") == caller.session:
            caller.left = True
            self._gone(name, messages.LEFT)
        return web.Response(status=200)

    # -- admins -----------------------------------------------------------------------------------------------

    async def _command(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        content = await small(request, messages.MOST_COMMAND)
        number = next(self.numbers)
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.commands[number] = waiting
        header = {"do": "command", "id": number, "name": name, "path": request.path}
        self.tell({**header, "address": address_of(request.transport)}, Blob.of(content))
        try:
            answer = await asyncio.wait_for(waiting, _COMMAND)
        except TimeoutError:
            raise RefusedError(503, "the coordinator's node does not answer") from None
        finally:
            self.commands.pop(number, None)
        body = bytes(answer.payload.read(messages.MOST_STATUS)) if answer.payload else b"{}"
        return web.Response(status=answer.header["status"], body=body, content_type="application/json")
