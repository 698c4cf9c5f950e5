"""What an attack is, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fedrel.audit.statistics import Measure
from fedrel.audit.target import Target
from fedrel.learning.named import Named
from fedrel.protocol.round import Ask, Replies

NOTHING, DID_NOT_HAPPEN = "no better than chance", "did not happen"
LITTLE, PARTLY, LARGELY = "a little better than chance", "succeeds in part", "succeeds"
_PARTLY, _LARGELY = 0.25, 0.75  # of the way from chance to certainty


@dataclass(frozen=True)
class Finding:
    """What an attack reached. `measures` is empty where it does not apply, and `why` then says why not."""

    attack: str
    wants: str
    measures: tuple[Measure, ...] = ()
    why: str = ""
    says: str = ""  # a verdict in words of its own
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """In words, by the measure that lies farthest above its chance; one whose interval reaches down to chance does
        not count.
        """
        if not self.measures:
            return f"does not apply: {self.why}"
        if self.says:
            return self.says
        gains = [(it.value - it.chance) / (1 - it.chance) for it in self.measures if it.low > it.chance]
        best = max(gains, default=0.0)
        if best <= 0:
            return NOTHING
        return LITTLE if best < _PARTLY else PARTLY if best < _LARGELY else LARGELY


class Attack:
    """One thing that a curious coordinator wants to know. It sees what the coordinator sees, round by round, and the
    target's truth is used to score it, never to attack.
    """

    name: ClassVar[str]
    wants: ClassVar[str]  # what the coordinator wants to know
    how: ClassVar[str]  # and how it goes about it, for people

    def __init__(self, target: Target, rounds: int) -> None:
        self.target = target
        self.rounds = rounds

    def objection(self) -> str:
        """Why the attack does not apply to these settings; empty: it does."""
        return ""

    def see(self, ask: Ask, replies: Replies) -> None:
        """A request and its replies, as they passed through the coordinator."""

    def finding(self, weights: Named) -> Finding:
        """The result, given the finished model."""
        raise NotImplementedError

    def found(self, *measures: Measure, details: Mapping[str, Any] = {}, says: str = "") -> Finding:
        """A finding of this attack; `says` takes the place of its verdict."""
        return Finding(self.name, self.wants, measures, says=says, details=details)

    def nothing(self, why: str) -> Finding:
        """A finding that says why the attack does not apply."""
        return Finding(self.name, self.wants, why=why)


def looks(rounds: int, count: int) -> set[int]:
    """Rounds, counted from 0, in which an attack that takes long looks closely: the last, and others evenly before."""
    return {round((number + 1) * rounds / min(count, rounds)) - 1 for number in range(min(count, rounds))}
