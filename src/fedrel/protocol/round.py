"""A round is a generator: it yields requests, receives replies and returns the new server state.

No sockets, no threads, no files: every engine drives the same generator, so an algorithm never knows
whether its platforms are in this process or in another country.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fedrel.learning.named import Named
from fedrel.protocol.codec import Record
from fedrel.protocol.summed import Layout
from fedrel.util.profiling import phase


@dataclass(frozen=True)
class Ask:
    """A request: run `task` on these platforms, each with its own message. `drive` fills in the rest."""

    task: str
    to: Mapping[str, Record]
    round: int = 0
    model: Named = field(default_factory=Named)  # of the server when the round began; engines compare replies with it
    layout: Layout | None = None  # of which replies only the sum may be known; engines then return a `Summed`


# Absent = dropped out; ordered like the request, so sums repeat bit for bit. Many at once may lie on disk: a reply's
# tensors are then read whenever they are asked for, its numbers are at hand.
Replies = Mapping[str, Mapping[str, Named | float]]
Round = Generator[Ask, Replies, Record]
Exchange = Callable[[Ask], Replies]


def broadcast(task: str, cohort: Iterable[str], **message: Named | float) -> Ask:
    """The same message to everyone (engines encode it once)."""
    return Ask(task, dict.fromkeys(cohort, message))


def drive(
    round_: Round,
    exchange: Exchange,
    number: int,
    model: Named | None = None,
    layout: Callable[[Ask], Layout | None] = lambda ask: None,
) -> Record:
    """Carries a round's requests through an engine until the round returns its state.

    `model`: the server's when the round began; engines that check replies need it. `layout`: of replies that are to be
    added up unseen.
    """
    replies: Any = None
    while True:
        try:
            with phase("aggregate"):
                ask = round_.send(replies)
        except StopIteration as done:
            state: Record = done.value
            return state
        ask = replace(ask, round=number, model=model or Named())
        replies = exchange(replace(ask, layout=layout(ask)))
