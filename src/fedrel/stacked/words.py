"""The word tables of several platforms as one, which trains by touching only the rows that a step reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedrel.extractors.word_table import SMALL, WordTable
from fedrel.learning.fit import Work
from fedrel.learning.model import WORDS
from fedrel.learning.optimizers import Pulls
from fedrel.stacked.buffers import BufferPool


class StackedWords:
    """P word tables one below the other, after one row of zeros: N = 1 + Σ v rows. W = factor · rows + anchor · start +
    shift · push, as in WordTable; the three numbers are the same on all platforms, and known beforehand for every step.
    """

    def __init__(self, works: Sequence[Work], pulls: Sequence[Pulls | None], pool: BufferPool, capacity: int) -> None:
        first, pulled = works[0], pulls[0]
        tables = [work.model.encoder.words.rows for work in works]
        self.training, self.lr = first.training, first.lr
        self.trainable = first.model.encoder.words.trainable
        self.strength = pulled.strength if pulled else 0.0
        zero = tables[0].new_zeros(1, tables[0].shape[1])
        self.rows = pool.joined("table", [zero, *tables])  # (at least N, D)
        self.begins = np.cumsum([1, *map(len, tables)])  # (P + 1,) where each platform's rows begin, and the last end
        self.start: Tensor | None = None  # like rows, where training began, if it is pulled there
        self.push: Tensor | None = None  # like rows
        if self.trainable and self.strength:
            self.start = pool.take("table start", *self.rows.shape, dtype=self.rows.dtype)
            self.start[: len(self.rows)].copy_(self.rows)
        if self.trainable and pulled and pulled.push:
            self.push = pool.take("table push", *self.rows.shape, dtype=self.rows.dtype)
            torch.cat([zero, *(it.push[WORDS] for it in pulls if it)], out=self.push[: self.begins[-1]])
        paddings = torch.zeros(capacity + 1, dtype=torch.int64)  # the row of zeros, and every platform's first
        paddings[1 : len(works) + 1] = torch.from_numpy(self.begins[:-1])
        self.paddings = pool.take("paddings", capacity + 1, dtype=torch.int64)[: capacity + 1]
        self.paddings.copy_(paddings)

    def plan(self, steps: int, pool: BufferPool) -> None:
        """What WordTable.step does to the three numbers, for so many steps. A factor that has grown too small is folded
        into the rows before the step that `folds` names.
        """
        sgd = self.training.optimizer == "sgd" and self.trainable
        shrink = 1.0 - self.lr * (self.training.weight_decay + self.strength) if sgd else 1.0
        pull, push = (self.lr * self.strength, self.lr) if sgd else (0.0, 0.0)
        factor, anchor, shift = 1.0, 0.0, 0.0
        self.after: list[tuple[float, float, float]] = []  # of every step
        self.folds: set[int] = set()
        lines = []
        for step in range(steps):
            if factor < SMALL:
                self.folds.add(step)
                factor, anchor, shift = 1.0, 0.0, 0.0
            before = (factor, anchor, shift)
            factor, anchor, shift = factor * shrink, anchor * shrink + pull, shift * shrink - push
            self.after.append((factor, anchor, shift))
            lines.append((*before, factor))
        # (steps, 4): factor, anchor and shift before a step, factor after it
        self.numbers = pool.take("numbers", steps, 4, dtype=self.rows.dtype)
        self.numbers[:steps].copy_(torch.tensor(lines, dtype=self.rows.dtype).view(-1, 4))

    def fold(self, step: int, active: int) -> None:
        """Before this step, if it is time: brings the numbers back to 1, 0, 0 for the platforms that still train."""
        if step not in self.folds:
            return
        rows = slice(1, int(self.begins[active]))
        factor, anchor, shift = self.after[step - 1]
        part = self.rows[rows]
        part.mul_(factor)
        if self.start is not None:
            part.add_(self.start[rows], alpha=anchor)
        if self.push is not None:
            part.add_(self.push[rows], alpha=shift)

    def values(self, chosen: Tensor, numbers: Tensor) -> Tensor:
        """(T, D) the current vectors of these rows (T,), given the step's line of `numbers`."""
        vectors = self.rows.index_select(0, chosen) * numbers[0]
        if self.start is not None:
            vectors.addcmul_(self.start.index_select(0, chosen), numbers[1])
        if self.push is not None:
            vectors.addcmul_(self.push.index_select(0, chosen), numbers[2])
        return vectors

    def add(self, table: Tensor, rows: Tensor, change: Tensor) -> None:
        """table[rows] += change, a row as often as it is named; rows of padding stay zero. `table` is like `rows`."""
        table.index_add_(0, rows, change)
        table.index_fill_(0, self.paddings, 0)

    def own(self, place: int) -> Tensor:
        """(v, D) the rows of one platform."""
        return self.rows[self.begins[place] : self.begins[place + 1]]

    def hand_back(self, place: int, words: WordTable, steps: int) -> None:
        """Leaves a platform's own table as `steps` steps by itself would have left it."""
        words.rows = self.own(place).clone()
        if words.trainable and steps:
            words.factor, words.anchor, words.shift = self.after[steps - 1]
            words.elsewhere = self._elsewhere(steps)

    def _elsewhere(self, steps: int) -> tuple[float, float]:
        decay, start, push = self.lr * self.training.weight_decay, 1.0, 0.0
        if self.training.optimizer != "sgd":
            return (1.0 - decay) ** steps, 0.0
        shrink = 1.0 - decay - self.lr * self.strength
        for _ in range(steps):
            start, push = start * shrink + self.lr * self.strength, push * shrink - self.lr
        return start, push
