"""Steps of SGD and AdamW on stacked weights: what learning/optimizers.py does to one platform, for n at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fedrel.config import Training
from fedrel.learning.model import WORDS
from fedrel.learning.named import Named
from fedrel.learning.optimizers import Pulls
from fedrel.stacked.buffers import BufferPool
from fedrel.stacked.words import StackedWords

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # of AdamW, as torch has them


@dataclass(frozen=True)
class Change:
    """What one step changes on n platforms."""

    weights: Named  # (n, …) to change in place; a weight without a gradient rests
    grads: Named  # (n, …)
    reached: Mapping[str, list[int]] | None  # the platforms on which a weight changes, the others rest; None: all
    words: Tensor  # (n·T,) the rows of the word table that were read
    to_words: Tensor  # (n, T, D) the gradient of their vectors
    rate: Tensor  # (n,) the learning rate, 0 on platforms that have finished
    numbers: Tensor  # (4,) see StackedWords.plan
    counter: Tensor  # (1,) how many steps were made before this one

    def parts(self, pulls: StackedPulls) -> Iterator[tuple[str, Tensor, Tensor, Tensor, list[int] | None]]:
        """Of every weight that changes: its name, its value and gradient with what pulls add (k, …), the rate (k,), and
        the k platforms; None: all n. A value of fewer platforms is a copy.
        """
        for name, grad in self.grads.items():
            weight, grad = self.weights[name], pulls.add_to(name, self.weights[name], grad)
            if self.reached is None:
                yield name, weight, grad, self.rate, None
            else:
                places = self.reached[name]
                yield name, weight[places], grad[places], self.rate[places], places


class Update(Protocol):
    def __call__(self, change: Change) -> None: ...


class StackedPulls:
    """What pulls add to the gradients of all weights but the word table, see learning/proximal.py."""

    def __init__(
        self, weights: Named, pulls: Sequence[Pulls | None], pool: BufferPool, capacity: int, dtype: torch.dtype
    ) -> None:
        first = pulls[0]
        self.strength = first.strength if first else 0.0
        self.start, self.push = Named(), Named()
        for name, value in weights.items():
            shape = value.shape[1:]
            if first and name in first.push:
                buffer = pool.take(f"push/{name}", capacity, *shape, dtype=dtype)
                torch.stack([it.push[name] for it in pulls if it], out=buffer[: len(pulls)])
                self.push[name] = buffer
            if self.strength:
                buffer = pool.take(f"start/{name}", capacity, *shape, dtype=dtype)
                self.start[name] = buffer[:capacity].copy_(value)

    def add_to(self, name: str, weight: Tensor, grad: Tensor) -> Tensor:
        """grad + strength · (weight - start) + push, all (n, …)."""
        if self.strength:
            grad = grad + self.strength * (weight - self.start[name][: len(weight)])
        return grad + self.push[name][: len(weight)] if name in self.push else grad


class StackedSGD:
    """w ← w - lr·(gradient + weight_decay·w), and what a pull adds to the gradient."""

    def __init__(self, training: Training, words: StackedWords, pulls: StackedPulls) -> None:
        self.weight_decay, self.words, self.pulls = training.weight_decay, words, pulls

    def __call__(self, change: Change) -> None:
        for name, weight, grad, rate, places in change.parts(self.pulls):
            step = torch.add(grad, weight, alpha=self.weight_decay)
            weight.sub_(step.mul_(_by_platform(rate, weight)))
            if places is not None:
                change.weights[name][places] = weight
        if self.words.trainable:
            scale = -change.rate / change.numbers[3]
            scaled = (change.to_words * scale[:, None, None]).flatten(0, 1)
            self.words.add(self.words.rows, change.words, scaled)


class StackedAdamW:
    """Loshchilov & Hutter, ICLR 2019, as torch does it."""

    def __init__(
        self, training: Training, words: StackedWords, pulls: StackedPulls, weights: Named, pool: BufferPool
    ) -> None:
        self.weight_decay, self.words, self.pulls = training.weight_decay, words, pulls
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}
        for name, value in (*weights.items(), *([(WORDS, words.rows)] if words.trainable else [])):
            first, second = (pool.take(f"{which}/{name}", *value.shape, dtype=value.dtype) for which in ("m", "v"))
            self.moments[name] = first.zero_(), second.zero_()
        self.capacity = len(next(iter(weights.values())))
        self.steps = {name: np.zeros(self.capacity) for name in weights}  # made by each platform, where some rest
        platform = np.repeat(np.arange(len(words.begins) - 1), np.diff(words.begins))
        self.platform_of_row = pool.take("platform of row", len(words.rows), dtype=torch.int64)
        self.platform_of_row[1 : words.begins[-1]].copy_(torch.from_numpy(platform))

    def __call__(self, change: Change) -> None:
        done = (change.counter + 1).to(torch.float64)
        for name, weight, grad, rate, places in change.parts(self.pulls):
            first, second = (moment[: len(change.rate)] for moment in self.moments[name])
            if places is None:
                self._step(weight, grad, first, second, _by_platform(rate, weight), done)
                continue
            own, count = (first[places], second[places]), self.steps[name]
            count[places] += 1
            made = torch.from_numpy(count[places]).to(weight.device)
            self._step(weight, grad, *own, _by_platform(rate, weight), _by_platform(made, weight))
            change.weights[name][places], first[places], second[places] = weight, *own
        if self.words.trainable:
            rows = self.words.rows
            whole = torch.zeros_like(rows)
            self.words.add(whole, change.words, change.to_words.flatten(0, 1))
            if self.words.start is not None:
                whole.add_(rows - self.words.start[: len(rows)], alpha=self.words.strength)
            if self.words.push is not None:
                whole.add_(self.words.push[: len(rows)])
            whole.index_fill_(0, self.words.paddings, 0)
            by_place = change.rate.new_zeros(self.capacity)
            by_place[: len(change.rate)] = change.rate
            by_row = by_place[self.platform_of_row[: len(rows)]][:, None]
            first, second = (moment[: len(rows)] for moment in self.moments[WORDS])
            self._step(rows, whole, first, second, by_row, done)

    def _step(self, weight: Tensor, grad: Tensor, first: Tensor, second: Tensor, rate: Tensor, done: Tensor) -> None:
        """In place, on all (k, …); `rate` and `done`, the number of this step from 1 on, broadcast to them."""
        small, large = 1 - _BETA1**done, (1 - _BETA2**done).sqrt()
        first.lerp_(grad, 1 - _BETA1)
        second.mul_(_BETA2).addcmul_(grad, grad, value=1 - _BETA2)
        weight.mul_(1 - rate * self.weight_decay)
        denominator = second.sqrt().div_(large.to(weight.dtype)).add_(_EPSILON)
        weight.sub_(rate / small.to(weight.dtype) * first / denominator)


def _by_platform(numbers: Tensor, weight: Tensor) -> Tensor:
    """(n,) in a shape that multiplies weights (n, …)."""
    return numbers.view(-1, *(1,) * (weight.dim() - 1))
