"""Who reads what when, in a cohort that trains together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedrel.learning.fit import Work

_AROUND = 8  # sentences of a step are rounded up to multiples of it: few shapes


@dataclass(frozen=True)
class Schedule:
    """P platforms, those with the most steps first; in every step each reads up to S sentences of its own."""

    steps: list[int]  # (P,) of each platform
    epochs: list[list[int]]  # of each platform, the step that each epoch ends before
    chosen: Tensor  # (steps, P, S) int64, places in the platform's shard; -1 where there is none
    bag: Tensor  # (steps, P, S) which of the bags of the step a sentence is in; U for none
    labels: Tensor  # (steps, P, U + 1) of these bags; -1 where there is none

    def active(self, step: int) -> int:
        """How many platforms still train then: the first ones."""
        return sum(steps > step for steps in self.steps)


def longest_first(works: Sequence[Work]) -> list[int]:
    """The order in which their platforms are laid: those that finish early do so from the end."""
    units = [len(work.sentences) if work.plain else work.shard.bags for work in works]
    return sorted(range(len(works)), key=lambda place: -units[place])


def schedule(works: Sequence[Work], room_for: int) -> Schedule:
    """`works` in the order of `longest_first`; `room_for` platforms may be more than there are."""
    plans = [_plan(work) for work in works]
    steps = [len(plan.chosen) for plan in plans]
    batch = works[0].training.batch
    most = max((plan.chosen.shape[1] for plan in plans), default=1)
    width = max(batch, -(-most // _AROUND) * _AROUND)
    chosen = np.full((max(steps, default=0), room_for, width), -1, np.int64)
    bag = np.full(chosen.shape, batch, np.int64)
    labels = np.full((*chosen.shape[:2], batch + 1), -1, np.int64)
    for place, plan in enumerate(plans):
        here = np.s_[: len(plan.chosen), place, : plan.chosen.shape[1]]
        chosen[here], bag[here] = plan.chosen, plan.bag
        labels[: len(plan.labels), place, :batch] = plan.labels
    tables = (torch.from_numpy(table) for table in (chosen, bag, labels))
    return Schedule(steps, [plan.ends for plan in plans], *tables)


@dataclass(frozen=True)
class _Plan:
    """Of one platform, as in Schedule."""

    ends: list[int]
    chosen: np.ndarray  # (steps, s)
    bag: np.ndarray  # (steps, s)
    labels: np.ndarray  # (steps, U)


def _plan(work: Work) -> _Plan:
    """A sentence by itself is a bag of one."""
    batch, shard = work.training.batch, work.shard
    orders = [order.numpy() for order in work.orders()]
    each = -(-len(orders[0]) // batch) if orders else 0
    units = np.concatenate(orders) if orders else np.zeros(0, np.int64)
    in_epoch = np.concatenate([np.arange(len(order)) for order in orders]) if orders else units
    epoch = np.repeat(np.arange(len(orders)), [len(order) for order in orders])
    step, place = epoch * each + in_epoch // batch, in_epoch % batch  # of every unit
    if work.plain:
        first, sizes = units, np.ones_like(units)
    else:
        starts = shard.bag_starts.numpy()
        first, sizes = starts[units], starts[units + 1] - starts[units]
    labels = np.full((each * len(orders), batch), -1, np.int64)
    labels[step, place] = shard.labels.numpy()[first]
    ends = np.cumsum(sizes)  # of every unit, where its sentences end in all that is read
    number = np.repeat(np.arange(len(units)), sizes)  # of every sentence, its unit
    read = np.arange(len(number))
    sentence = first[number] + read - (ends - sizes)[number]
    begin = np.searchsorted(step[number], np.arange(len(labels)))  # of every step, its first sentence
    column = read - begin[step[number]]
    width = int(column.max(initial=0)) + 1
    chosen = np.full((len(labels), width), -1, np.int64)
    bag = np.full((len(labels), width), batch, np.int64)
    chosen[step[number], column], bag[step[number], column] = sentence, place[number]
    return _Plan([each * (done + 1) for done in range(len(orders))], chosen, bag, labels)
