"""Who reads what when, in a cohort that trains together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedrel.learning.fit import Work


@dataclass(frozen=True)
class Schedule:
    """P platforms, those with the most steps first; in every step each reads up to S sentences of its own."""

    steps: list[int]  # (P,) of each platform
    epochs: list[list[int]]  # of each platform, the step that each epoch ends before
    chosen: Tensor  # (steps, P, S) int64, places in the platform's shard; -1 where there is none
    bags: list[list[tuple[Tensor, Tensor]]]  # by bag only: of each platform and step, (s,) the bag of every sentence
    # and (U,) the bags' labels

    def active(self, step: int) -> int:
        """How many platforms still train then: the first ones."""
        return sum(steps > step for steps in self.steps)


def longest_first(works: Sequence[Work]) -> list[int]:
    """The order in which their platforms are laid: those that finish early do so from the end."""
    units = [len(work.sentences) if work.plain else work.shard.bags for work in works]
    return sorted(range(len(works)), key=lambda place: -units[place])


def schedule(works: Sequence[Work], room_for: int) -> Schedule:
    """`works` in the order of `longest_first`; `room_for` platforms may be more than there are."""
    plans = [_sentences(work) if work.plain else _bags(work) for work in works]
    steps = [len(rows) for rows, _, _ in plans]
    width = max((rows.shape[1] for rows, _, _ in plans), default=1)
    chosen = np.full((max(steps, default=0), room_for, width), -1, np.int64)
    for place, (rows, _, _) in enumerate(plans):
        chosen[: len(rows), place, : rows.shape[1]] = rows
    return Schedule(steps, [ends for _, ends, _ in plans], torch.from_numpy(chosen), [bags for _, _, bags in plans])


_Plan = tuple[np.ndarray, list[int], list[tuple[Tensor, Tensor]]]


def _sentences(work: Work) -> _Plan:
    """(steps, batch) and where epochs end."""
    count, batch = len(work.sentences), work.training.batch
    each = -(-count // batch)
    rows = np.full((work.training.epochs, each * batch), -1, np.int64)
    for epoch, order in enumerate(work.orders()):
        rows[epoch, :count] = order.numpy()
    return rows.reshape(-1, batch), [each * (epoch + 1) for epoch in range(work.training.epochs)], []


def _bags(work: Work) -> _Plan:
    lists, ends, bags = [], [], []
    for batches in work.epochs():
        for units in batches:
            batch = work.shard.bags_of(units)
            lists.append(batch.sentences.numpy())
            bags.append((batch.bag, batch.labels))
        ends.append(len(lists))
    rows = np.full((len(lists), max(map(len, lists), default=1)), -1, np.int64)
    for step, sentences in enumerate(lists):
        rows[step, : len(sentences)] = sentences
    return rows, ends, bags
