"""Which sentences each platform reads in each step of stacked training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedrel.learning.fit import Work

_AROUND = 8  # sentences of a step are rounded up to multiples of it, or of an eighth of what they are: few shapes


@dataclass(frozen=True)
class BagsRead:
    """The bags that one platform reads, up to U in a step."""

    bag: np.ndarray  # (steps, s) of every sentence that is read, its bag in the step; -1 for padding
    labels: np.ndarray  # (steps, U) of the bags; -1 for padding


@dataclass(frozen=True)
class Schedule:
    """The steps of P platforms, those with the most steps first; in each step a platform reads up to S sentences."""

    steps: list[int]  # (P,) of each platform
    epochs: list[list[int]]  # of each platform, the step that each epoch ends before
    chosen: Tensor  # (steps, P, S) int64, places in the platform's shard; -1 for padding
    bags: list[BagsRead]  # of each platform, if they train bag by bag

    def active(self, step: int) -> int:
        """How many platforms train in this step; they are the first ones."""
        return sum(steps > step for steps in self.steps)

    def widest(self) -> list[int]:
        """(steps,) the most sentences that any platform reads in each step."""
        return (self.chosen >= 0).sum(2).amax(1).tolist()


def longest_first(works: Sequence[Work]) -> list[int]:
    """The order in which works are stacked, as places among them: those that finish early are at the end."""
    return sorted(range(len(works)), key=lambda place: -units_of(works[place]))


def units_of(work: Work) -> int:
    """How many sentences, or bags, an epoch of this work reads."""
    return len(work.sentences) if work.plain else work.shard.bags


def schedule(works: Sequence[Work], capacity: int, at_least: int = 0) -> Schedule:
    """`works` in the order of `longest_first`; P is `capacity`, S at least `at_least`, though fewer may be needed."""
    batch = min(works[0].training.batch, max(units_of(work) for work in works))
    bags = [] if works[0].plain else [_bags(work, batch) for work in works]
    rows = [_sentences(work, batch) for work in works] if works[0].plain else [read for read, _ in bags]
    steps = [len(read) for read in rows]
    most = max((read.shape[1] for read in rows), default=1)
    around = max(_AROUND, 1 << max(0, most.bit_length() - 4))
    chosen = np.full((max(steps), capacity, max(at_least, -(-most // around) * around)), -1, np.int64)
    for place, read in enumerate(rows):
        chosen[: len(read), place, : read.shape[1]] = read
    epochs = works[0].training.epochs
    ends = [[each // epochs * (epoch + 1) for epoch in range(epochs)] for each in steps]
    return Schedule(steps, ends, torch.from_numpy(chosen), [of for _, of in bags])


def bag_tables(works: Sequence[Work], plan: Schedule) -> tuple[Tensor, Tensor]:
    """(steps, P, S) the bag of every sentence that is read, U for padding; (steps, P, U + 1) the bags' labels, -1 for
    padding and in the last place. Where sentences train by themselves, each is a bag of one.
    """
    steps, capacity, width = plan.chosen.shape
    most = max((of.labels.shape[1] for of in plan.bags), default=width)
    bag = torch.full((steps, capacity, width), most)
    labels = torch.full((steps, capacity, most + 1), -1)
    for place, work in enumerate(works):
        chosen = plan.chosen[:, place]
        if work.plain:
            bag[:, place] = torch.where(chosen >= 0, torch.arange(width), most)
            labels[:, place, :most] = torch.where(chosen >= 0, work.shard.labels[chosen.clamp(min=0)], -1)
        else:
            of = plan.bags[place]
            own = torch.from_numpy(of.bag)
            bag[: len(own), place, : own.shape[1]] = torch.where(own >= 0, own, most)
            labels[: len(own), place, : of.labels.shape[1]] = torch.from_numpy(of.labels)
    return bag, labels


def _sentences(work: Work, batch: int) -> np.ndarray:
    """(steps, batch) the sentences that a work reads one by one; -1 for padding."""
    count = len(work.sentences)
    steps = -(-count // batch)
    rows = np.full((work.training.epochs, steps * batch), -1, np.int64)
    for epoch, order in enumerate(work.orders()):
        rows[epoch, :count] = order.numpy()
    return rows.reshape(-1, batch)


def _bags(work: Work, batch: int) -> tuple[np.ndarray, BagsRead]:
    """(steps, s) the sentences of the bags that a work reads, -1 for padding; and which bags these are."""
    count, starts = work.shard.bags, work.shard.bag_starts.numpy()
    steps = -(-count // batch)  # of an epoch
    bags = np.concatenate([order.numpy() for order in work.orders()])  # in the order in which they are read
    epoch, place = np.divmod(np.arange(len(bags)), count)
    step, place = epoch * steps + place // batch, place % batch
    first, sizes = starts[bags], starts[bags + 1] - starts[bags]
    labels = np.full((steps * work.training.epochs, batch), -1, np.int64)
    labels[step, place] = work.shard.labels.numpy()[first]
    which = np.repeat(np.arange(len(bags)), sizes)  # of every sentence, its bag
    read = np.arange(len(which))
    sentence = first[which] + read - (np.cumsum(sizes) - sizes)[which]
    at = step[which]
    column = read - np.searchsorted(at, np.arange(len(labels)))[at]
    rows = np.full((len(labels), int(column.max()) + 1), -1, np.int64)
    bag = np.full_like(rows, -1)
    rows[at, column], bag[at, column] = sentence, place[which]
    return rows, BagsRead(bag, labels)
