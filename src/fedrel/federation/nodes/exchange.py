"""A run's exchange of messages with its platforms: signs requests, verifies replies, and waits for those who are away.

The run's process has no network. Requests go to the node (its parent), which passes them on to the network process.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrel.engines.remote import Failure
from fedrel.federation.channel import Blob, Channel, Message
from fedrel.federation.https.messages import LEFT, REVOKED, SERVER_ENDED
from fedrel.federation.kits.kit import Kit
from fedrel.federation.nodes.status import Status
from fedrel.federation.signing import (
    BEGIN,
    UNREADY,
    Envelope,
    ForgedError,
    Reply,
    Request,
    Signer,
    Verifier,
    sha256,
    sha256_of_file,
)
from fedrel.protocol.codec import Payload
from fedrel.protocol.replies import BadReplyError
from fedrel.watch.states import NO_ANSWER, REFUSES

GRACE = 12.0  # seconds that a platform may be away while its reply is awaited
SLACK = 15.0  # seconds beyond a platform's own deadline, in which its own reason can arrive
SLOWEST = 10_000  # bytes a second, for which a deadline makes allowance
MOST_BEGIN = 64 * 2**10  # bytes of a reply to `begin`
TICK = 0.2
_MOST_WHY = 500  # characters of a reason that is not signed


class StoppedError(Exception):
    """An admin has stopped the run."""


@dataclass(frozen=True)
class Sealed:
    """A reply whose signature is verified; its payload is still in the blob that the network process wrote."""

    blob: Blob
    size: int
    sha256: str

    def read(self) -> bytearray:
        """The payload. Raises BadReplyError if it is not the one that was signed."""
        try:
            content = self.blob.read(self.size)
        except ValueError as error:
            raise BadReplyError(str(error)) from None
        if len(content) != self.size or sha256(content) != self.sha256:
            raise BadReplyError("its payload is not the one that was signed")
        return content


@dataclass
class Waiting:
    """A request to one platform whose reply has not arrived yet."""

    task: str
    payload: Blob
    digest: str
    most: int  # bytes of the reply
    until: float
    id: int = 0
    envelope: Envelope | None = None
    after_begin: tuple[str, Blob, str, int] | None = None  # the request to repeat once the platform has begun the run
    lost: float | None = None  # since when the platform has been away
    session: str = ""  # of the platform's process that was asked; empty: the request was lost on its way


class Exchange:
    """Sends requests to platforms and collects the replies; one exchange at a time.

    here: the session of each connected platform.
    status: the run's, in which bytes and times of replies are counted.
    joined: whether a platform has answered `begin`.
    began: handles the reply to a repeated `begin`, and returns whether it is acceptable.
    """

    def __init__(
        self,
        channel: Channel,
        kit: Kit,
        status: Status,
        spool: Path,
        here: dict[str, str],
        *,
        joined: Callable[[str], bool],
        began: Callable[[str, Sealed], bool],
    ) -> None:
        self.channel, self.status, self.spool, self.here = channel, status, spool, here
        self._joined, self._began = joined, began
        self._federation = kit.federation
        self._signer, self._verifier = Signer.of(kit), Verifier.of(kit)
        self._numbers = itertools.count(1)
        self._waiting: dict[str, Waiting] = {}
        self._arrived: dict[str, Payload | Sealed | Failure] = {}
        self._agreement: tuple[Blob, str] | None = None
        self._deadline = 0.0
        self._stopped = False

    def begin(self, agreement: Payload, deadline: float) -> None:
        """Sets the payload of `begin`, and the time limit of all requests in seconds."""
        self._agreement, self._deadline = (Blob.of(agreement, self.spool), sha256(agreement)), deadline

    def introduce(self, names: list[str], round_: int) -> dict[str, Payload | Sealed | Failure]:
        """Sends `begin` to these platforms; their replies by name."""
        assert self._agreement is not None
        return self._exchange(BEGIN, round_, dict.fromkeys(names, self._agreement[0]), MOST_BEGIN)

    def carry(
        self, task: str, round_: int, messages: Mapping[str, Payload], most: int
    ) -> Mapping[str, Payload | Sealed | Failure]:
        """Sends each platform its payload; the replies, of at most `most` bytes, that arrived by the deadline, and the
        reason for each that did not.
        """
        known: dict[int, Blob] = {}
        for payload in messages.values():
            if id(payload) not in known:
                known[id(payload)] = Blob.of(payload, self.spool)
        return self._exchange(task, round_, {name: known[id(payload)] for name, payload in messages.items()}, most)

    def why(self, name: str) -> str:
        """Why a platform has not joined; empty if there is no known reason."""
        return str(self.status.platforms[name]["why"]) if name in self.here else "not connected"

    def hear(self, timeout: float, round_: int = 0) -> None:
        """Handles all messages from the node; waits up to `timeout` seconds if there is none. Raises StoppedError if
        an admin has stopped the run.
        """
        message = self.channel.receive(timeout)
        while message is not None:
            self._heard(message, round_)
            message = self.channel.receive(0.0)
        if self._stopped:
            raise StoppedError

    def pause(self, seconds: float) -> None:
        """Handles messages for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.hear(TICK)

    def _exchange(
        self, task: str, round_: int, messages: Mapping[str, Blob], most: int
    ) -> dict[str, Payload | Sealed | Failure]:
        self._waiting, self._arrived = {}, {}
        digests: dict[int, str] = {}
        for name, blob in messages.items():
            if name not in self.here or (task != BEGIN and not self._joined(name)):
                self._arrived[name] = Failure(self.why(name) or "it has not joined yet")
                continue
            if id(blob) not in digests:
                digests[id(blob)] = sha256_of_file(blob.descriptor)
            self._waiting[name] = Waiting(task, blob, digests[id(blob)], most, self._until(blob, most))
            self._ask(name, round_)
        while self._waiting:
            self.hear(TICK, round_)
            self._give_up()
        return {name: self._arrived[name] for name in messages}

    def _until(self, payload: Blob, most: int) -> float:
        """When to give up: after the platform's own time limit, plus what a slow connection takes for the bytes."""
        return time.monotonic() + self._deadline + SLACK + (len(payload) + min(most, 2**28)) / SLOWEST

    def _ask(self, name: str, round_: int) -> None:
        """Signs a new request, with a number that was never used, each time a platform is asked."""
        it = self._waiting[name]
        it.id, it.lost, it.session = next(self._numbers), None, self.here.get(name, "")
        if name in self.status.platforms and not self.status.platforms[name].get("asked"):
            self.status.platforms[name]["asked"] = time.time()
        request = Request(
            federation=self._federation,
            run=self.status.run,
            run_id=self.status.run_id,
            to=name,
            task=it.task,
            round=round_,
            attempt=self.status.epoch,
            number=it.id,
            seconds=float(self._deadline),
            bytes=len(it.payload),
            sha256=it.digest,
        )
        it.envelope = self._signer.sign(request)
        head = it.envelope.as_json()
        self.channel.send({"do": "ask", "id": it.id, "to": name, "head": head, "most": it.most}, it.payload)

    def _heard(self, message: Message, round_: int) -> None:
        header = message.header
        name = str(header.get("name", ""))
        match header["do"]:
            case "stop":
                self._stopped = True
            case "here":
                if name not in self.here and name in self.status.platforms:
                    self.status.note("connected", name)
                self.here[name] = header["session"]
                if name in self._waiting:
                    self._waiting[name].lost = None
                    if self._waiting[name].session != header["session"]:
                        self._ask(name, round_)
            case "gone":
                if self.here.pop(name, None) is not None and name in self.status.platforms:
                    self.status.note("disconnected", name, str(header["why"]))
                if name in self._waiting:
                    self._waiting[name].lost = time.monotonic()
                    if header["why"] == SERVER_ENDED:
                        self._waiting[name].session = ""
                    if header["why"] in (LEFT, REVOKED):
                        self._finish(name, Failure(header["why"]))
            case "reply":
                it = self._waiting.get(name)
                if it is not None and it.id == header["id"]:
                    self._replied(name, it, header["head"], message.payload, round_)

    def _replied(self, name: str, it: Waiting, head: Any, payload: Blob | None, round_: int) -> None:
        mine = self.status.platforms.get(name, {})
        failed_before = mine.get("failed", 0.0) > mine.get("seen", 0.0)
        mine["seen"] = time.time()
        try:
            reply = self._opened(name, it, head)
        except ForgedError as error:
            self._finish(name, Failure(f"refused: {error}"))
            return
        if isinstance(reply, Failure):
            self._finish(name, reply)
        elif reply.state == UNREADY and it.task != BEGIN and it.after_begin is None and self._agreement is not None:
            self._waiting[name] = Waiting(
                BEGIN,
                *self._agreement,
                MOST_BEGIN,
                self._until(self._agreement[0], it.most),
                after_begin=(it.task, it.payload, it.digest, it.most),
            )
            self._ask(name, round_)
        elif reply.state == "refused":
            self._finish(name, Failure(f"{REFUSES}: {reply.why}"))
        elif reply.state != "done" or payload is None:
            self._finish(name, Failure(reply.why or "no answer"))
        elif it.after_begin is not None:
            self._begun(name, it.after_begin, Sealed(payload, reply.bytes, reply.sha256), round_)
        elif reply.bytes > it.most or len(payload) != reply.bytes:
            self._finish(name, Failure(f"refused: {len(payload):,} bytes where at most {it.most:,} were expected"))
        else:
            if name in self.status.platforms:
                mine["bytes"] += reply.bytes
                mine["took"] = mine["seen"] - (mine.get("asked") or mine["seen"])
                if failed_before:
                    self.status.note("answers again", name)
            self._finish(name, Sealed(payload, reply.bytes, reply.sha256))

    def _begun(self, name: str, asked: tuple[str, Blob, str, int], answer: Sealed, round_: int) -> None:
        """A platform that had lost the run has begun it again: repeats the request that it could not answer."""
        if self._began(name, answer):
            task, payload, digest, most = asked
            self._waiting[name] = Waiting(task, payload, digest, most, self._until(payload, most))
            self._ask(name, round_)
        else:
            self._finish(name, Failure(self.why(name)))

    def _opened(self, name: str, it: Waiting, head: Any) -> Reply | Failure:
        """The platform's signed reply, verified, or a failure, which need not be signed: it is never used as a reply.
        Raises ForgedError if it is neither.
        """
        if isinstance(head, dict):
            for word, prefix in (("failed", ""), ("refused", "refused: ")):
                if isinstance(head.get(word), str):
                    return Failure(prefix + head[word][:_MOST_WHY])
        envelope = Envelope.from_json(head.get("envelope") if isinstance(head, dict) else None)
        reply = self._verifier.open(envelope, Reply, role="platform", name=name)
        assert it.envelope is not None
        if reply.platform != name or reply.answers != it.envelope.digest:
            raise ForgedError("it answers another request")
        return reply

    def _finish(self, name: str, answer: Sealed | Failure) -> None:
        """Stops waiting for a platform. After a failure, the network process drops its request."""
        it = self._waiting.pop(name)
        self._arrived[name] = answer
        if name in self.status.platforms:
            self.status.platforms[name]["asked"] = 0.0
        if isinstance(answer, Failure):
            self.channel.send({"do": "drop", "to": name, "id": it.id})

    def _give_up(self) -> None:
        now = time.monotonic()
        for name, it in list(self._waiting.items()):
            if it.lost is not None and now - it.lost > GRACE:
                self._finish(name, Failure(f"its connection broke and was not restored within {GRACE:g} seconds"))
            elif now > it.until:
                self._finish(name, Failure(NO_ANSWER))
