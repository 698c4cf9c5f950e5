"""What a run expects of whoever carries its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from fedrel.privacy.entries import Field
from fedrel.protocol.codec import Record
from fedrel.protocol.round import Ask, Replies


@dataclass(frozen=True)
class Upload:
    """What one reply carried out of a platform."""

    round: int
    platform: str
    task: str
    fields: list[Field]


class Engine(Protocol):
    """An Exchange that counts what it carries, and says whom it asked in this round."""

    bytes_up: int
    bytes_down: int
    active: set[str]

    def __call__(self, ask: Ask) -> Replies: ...

    def listen(self, on_upload: Callable[[Upload], None], on_answer: Callable[[Ask, str], None]) -> None:
        """Who is told of every reply: what it is made of, and that it is there."""

    def memories(self) -> Mapping[str, Record]:
        """What platforms remember, for a checkpoint; nothing of those who look after it themselves."""

    def remember(self, memories: Mapping[str, Record]) -> None:
        """Gives it back to them, after a crash."""

    def selections(self) -> Mapping[str, Tensor]:
        """The sentences, by their places in its shard, that a platform says it chose in this round: of a simulation,
        where they do not leave the machine by that.
        """

    def close(self) -> None:
        """Nobody will be asked any more."""
