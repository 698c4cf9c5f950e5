"""All platforms in this process, one after another, behind the same codec as a real federation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedrel.errors import DivergedError
from fedrel.federation.codec import Field, Record, decode, encode, fields
from fedrel.federation.protocol import Ask, Replies, Site, answer
from fedrel.learning.named import Named


@dataclass(frozen=True)
class Upload:
    """What one reply carried out of a platform."""

    round: int
    platform: str
    task: str
    fields: list[Field]


@dataclass
class Simulator:
    """An Exchange. Messages are encoded and decoded as on a wire, so nothing can be shared by accident."""

    algorithm: object
    sites: Mapping[str, Site]
    on_upload: Callable[[Upload], None] = lambda upload: None
    on_answer: Callable[[Ask, str, float], None] = lambda ask, platform, seconds: None
    bytes_up: int = 0
    bytes_down: int = 0
    _round: int = -1
    active: set[str] = field(default_factory=set)
    _encoded: dict[int, tuple[Record, int, Record]] = field(default_factory=dict)

    def __call__(self, ask: Ask) -> Replies:
        self._encoded = {}
        if ask.round != self._round:
            self.end_round()
            self._round = ask.round
        self.active |= ask.to.keys()
        replies: dict[str, Record] = {}
        for name, message in ask.to.items():
            begin = time.perf_counter()
            received = self._deliver(message)
            try:
                reply = answer(self.algorithm, self.sites[name], ask, dict(received))
            except DivergedError as error:
                raise DivergedError(f"round {ask.round + 1}, platform {name}: {error}") from None
            _require_untouched(received, name, ask.task)
            payload = encode(reply)
            self.bytes_up += len(payload)
            self.on_upload(Upload(ask.round, name, ask.task, fields(payload)))
            self.on_answer(ask, name, time.perf_counter() - begin)
            replies[name] = decode(payload)
        return replies

    def end_round(self) -> None:
        """What platforms kept for the rest of a round is gone (engines of separate processes do the same)."""
        for name in self.active:
            self.sites[name].scratch = {}
        self.active = set()

    def _deliver(self, message: Record) -> Record:
        """Encodes a broadcast once: its receivers share one read-only copy, and it is checked that none wrote to it."""
        known = self._encoded.get(id(message))
        if known is None:
            payload = encode(message)
            known = (message, len(payload), decode(payload))  # holding `message` keeps its id its own
            self._encoded[id(message)] = known
        self.bytes_down += known[1]
        return known[2]


def _require_untouched(message: Record, platform: str, task: str) -> None:
    for group, value in message.items():
        if isinstance(value, Named) and any(tensor._version for tensor in value.values()):
            raise RuntimeError(f"{task} on {platform} wrote into the message it was sent ({group})")
