"""Platforms that are elsewhere: messages are encoded, somebody carries them, and replies are checked before use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torch import Tensor

from fedrel.engines.engine import Upload
from fedrel.engines.held import Held
from fedrel.errors import DivergedError, UserError
from fedrel.protocol.codec import Payload, Record, decode, encode, fields
from fedrel.protocol.form import Form
from fedrel.protocol.records import number_in
from fedrel.protocol.replies import BadReplyError, check, claims, forms, most_bytes
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.summed import Layout, Summed

if TYPE_CHECKING:
    from fedrel.engines.opening import Opening

Understood = TypeVar("Understood")
Messages = Mapping[str, Record]

DIVERGED = "training diverges on the platform"  # why a reply is not there, as its platform says it


@dataclass(frozen=True)
class Failure:
    """Why a platform's reply is not there."""

    why: str


class TooFewError(Exception):
    """Fewer platforms answered than the experiment wants for a round."""


class Stored(Protocol):
    """A reply that lies elsewhere until its turn comes; raises BadReplyError if it is not what was signed."""

    def read(self) -> Payload: ...


class Carrier(Protocol):
    """Brings a payload to each platform, and comes back with what arrived: replies of at most so many bytes."""

    def __call__(
        self, task: str, round_: int, messages: Mapping[str, Payload], most: int
    ) -> Mapping[str, Payload | Stored | Failure]: ...


@dataclass
class Remote:
    """An Exchange. `carry` brings a payload to each platform and comes back with what arrived until the deadline."""

    algorithm: object
    carry: Carrier
    sizes: Mapping[str, int]  # that reply forms speak of
    announced: Mapping[str, int] = field(default_factory=dict)  # sentences that each platform said it holds
    minimum: int = 1
    half: bool = False  # numbers travel in 16 bits
    opening: Opening | None = None  # of sums, where a run has nothing else
    on_upload: Callable[[Upload], None] = lambda upload: None
    on_answer: Callable[[Ask, str], None] = lambda ask, platform: None
    on_failure: Callable[[Ask, str, str], None] = lambda ask, platform, why: None
    bytes_up: int = 0
    bytes_down: int = 0
    active: set[str] = field(default_factory=set)
    _round: int = -1

    def listen(self, on_upload: Callable[[Upload], None], on_answer: Callable[[Ask, str], None]) -> None:
        self.on_upload, self.on_answer = on_upload, on_answer

    def __call__(self, ask: Ask) -> Replies:
        if ask.round != self._round:
            self.active, self._round = set(), ask.round
        self.active |= ask.to.keys()
        if ask.layout is not None:
            return self._summed(ask, ask.layout)
        encoded = self._encoded(ask)
        form = forms(self.algorithm)[ask.task]
        most = most_bytes(form, weights=ask.model, sizes=self.sizes)
        arrived = self.carry(ask.task, ask.round, encoded, most)
        replies = Held()
        diverged: list[str] = []
        for platform in ask.to:  # each reply is looked at once, since it may arrive only now
            answer = arrived.get(platform, Failure("no answer"))
            if isinstance(answer, Failure) and DIVERGED in answer.why:
                diverged.append(platform)
            accepted = self._accepted(ask, platform, answer, most)
            if accepted is not None:
                replies.add(platform, *accepted)
        self._require(ask, len(replies), diverged)
        return replies

    def _summed(self, ask: Ask, layout: Layout) -> Summed:
        """The replies of which the sum alone is known."""
        from fedrel.engines.opening import NotOpenedError, most_bytes, open_sum  # ciphers, which others do without

        assert self.opening is not None, "an engine that cannot open sums was asked for one"
        diverged: list[str] = []

        def step(task: str, messages: Messages, read: Callable[[Record], Any]) -> Iterator[tuple[str, Any]]:
            this = replace(ask, task=task, to=messages)
            most = most_bytes(task, len(ask.to), layout.size)
            arrived = self.carry(task, ask.round, self._encoded(this), most)
            for platform in messages:
                answer = arrived.get(platform, Failure("no answer"))
                if isinstance(answer, Failure) and DIVERGED in answer.why:
                    diverged.append(platform)
                accepted = self._understood(this, platform, answer, most, read)
                if accepted is not None:
                    yield platform, accepted[0]

        try:
            replies = open_sum(ask, layout, self.opening, step, self._digest)
        except NotOpenedError as error:
            self._require(ask, -1, diverged, f": {error}")
            raise AssertionError("nothing is never enough") from None
        self._require(ask, len(replies), diverged)
        return replies

    def _digest(self, message: Record) -> bytes:
        return hashlib.sha256(encode(message, half=self.half)).digest()

    def _require(self, ask: Ask, replies: int, diverged: list[str], why: str = "") -> None:
        """Raises unless enough platforms have replied."""
        if replies >= min(self.minimum, len(ask.to)):
            return
        if diverged:  # which it would again, if the round were repeated
            where = f"in round {ask.round + 1} the loss is not a number on {', '.join(diverged)}"
            raise DivergedError(f"training diverges: {where}; lower training.lr")
        counted = f"{ask.task} was not added up" if why else f"{replies} of {len(ask.to)} platforms answered {ask.task}"
        raise TooFewError(f"{counted}{why}")

    def memories(self) -> Mapping[str, Record]:
        return {}

    def remember(self, memories: Mapping[str, Record]) -> None:
        if memories:
            raise UserError("this run was begun in one process, with the platforms' memories; go on with it there")

    def selections(self) -> Mapping[str, Tensor]:
        return {}

    def close(self) -> None:
        """The platforms are somebody else's."""

    def _encoded(self, ask: Ask) -> dict[str, Payload]:
        """Each message once, however many it goes to."""
        known: dict[int, Payload] = {}
        for message in ask.to.values():
            if id(message) not in known:
                known[id(message)] = encode(message, half=self.half)
        encoded = {platform: known[id(message)] for platform, message in ask.to.items()}
        self.bytes_down += sum(len(payload) for payload in encoded.values())
        return encoded

    def _accepted(
        self, ask: Ask, platform: str, arrived: Payload | Stored | Failure, most: int
    ) -> tuple[Record, Payload] | None:
        form = forms(self.algorithm)[ask.task]

        def checked(reply: Record) -> Record:
            check(reply, form, weights=ask.model, sizes=self.sizes)
            self._check_claims(platform, form, reply)
            return reply

        return self._understood(ask, platform, arrived, most, checked)

    def _understood(
        self,
        ask: Ask,
        platform: str,
        arrived: Payload | Stored | Failure,
        most: int,
        read: Callable[[Record], Understood],
    ) -> tuple[Understood, Payload] | None:
        """What `read` makes of a reply, which may raise ValueError; None: there is none, and somebody was told why."""
        if isinstance(arrived, Failure):
            self.on_failure(ask, platform, arrived.why)
            return None
        try:
            payload = arrived if isinstance(arrived, bytes | bytearray) else arrived.read()
            self.bytes_up += len(payload)
            if len(payload) > most:
                raise BadReplyError(f"{len(payload):,} bytes where at most {most:,} were expected")
            reply = read(decode(payload))
        except ValueError as error:
            self.on_failure(ask, platform, f"refused: {error}")
            return None
        self.on_upload(Upload(ask.round, platform, ask.task, fields(payload)))
        self.on_answer(ask, platform)
        return reply, payload

    def _check_claims(self, platform: str, form: Form, reply: Record) -> None:
        """A platform that claims more sentences than it has would decide the mean alone."""
        held = self.announced.get(platform)
        if held is None:
            return
        for field_, claimed in claims(form, reply).items():
            if claimed > held:
                raise BadReplyError(f"{field_} is {claimed:g}, and the platform holds {held}")
        most = held * self.sizes.get("epochs", 1)  # a batch has at least one sentence
        for field_ in form.of_kind("steps"):
            if (steps := number_in(reply, field_) if field_ in reply else 0.0) > most:
                raise BadReplyError(f"{field_} is {steps:g}, and the platform can take {most}")
