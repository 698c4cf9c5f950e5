"""How far relations stand out from sentences without one, for the bar on what `evidence` selects."""

from collections.abc import Generator, Iterable

import torch
from torch import Tensor

from fedrel.learning.background import Background
from fedrel.learning.named import Named
from fedrel.protocol import Ask, Record, Replies, Site, broadcast, rounded_down

# What `sum_up` replies: `Background`, as it travels
SUMS = {
    "sentences": "i64 counts",
    **{"total": "f64 relations sums", "squares": "f64 relations sums"},
    **{"labelled": "i64 relations counts", "own": "f64 relations sums", "own_squares": "f64 relations sums"},
}


def nobody_stood_out() -> Named:
    """How far relations stood out, before anybody has looked."""
    return Named(rounds=torch.tensor(0), total=torch.zeros(0))


def compare_relations(
    hub: Site, stood: Named, shown: Replies, early: int
) -> Generator[Ask, Replies, tuple[Named, Record]]:
    """Asks those who have shown their evidence how far relations stand out. With what was known of it in the `early`
    rounds, returns what is known now, and what platforms are told: the bars, once there are some.
    """
    if not early or not hub.round:  # a model that has learnt nothing tells nothing apart
        return stood, {}
    sums = yield broadcast("sum_up", shown)
    if not sums:
        return stood, {}
    seen = Background.of_named(hub.total(sums, "background"))
    if int(stood["rounds"]) < early:
        now = seen.standing_out()
        stood = Named(rounds=stood["rounds"] + 1, total=stood["total"] + now if int(stood["rounds"]) else now)
    bars = bars_of(stood, seen, early)
    return stood, {} if bars is None else {"bars": Named(z=bars)}


def bars_of(stood: Named, seen: Background, early: int) -> Tensor | None:
    """(R,) for every relation, once it is known how far each stands out; until then there is none."""
    known = early and int(stood["rounds"]) >= early and seen.is_enough
    return seen.bars(stood["total"] / early) if known else None


def pooled(backgrounds: Iterable[Background]) -> Background:
    """The sum of several, of which there is at least one."""
    first, *others = backgrounds
    return sum(others, first)


def rounded(z: Tensor, step: float) -> Tensor:
    """To the middle between multiples of the step; 0: as they are."""
    return rounded_down(z, step) + step / 2
