"""SGD and AdamW on a model with a word table. Both begin anew whenever a platform begins to train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from fedrel.config import Training
from fedrel.kernels import jit
from fedrel.kernels.descent import descend
from fedrel.learning.model import WORDS, Model
from fedrel.learning.proximal import Pull


class Optimizer(Protocol):
    def step(self) -> None:
        """Moves the weights by the gradients that they hold, and clears these. A weight without a gradient rests,
        unless it is pulled.
        """


class SGD:
    """w ← w - lr·(gradient + weight_decay·w), and what a pull adds to the gradient."""

    def __init__(self, model: Model, training: Training, lr: float, pull: Pull | None) -> None:
        self.lr, self.weight_decay = lr, training.weight_decay
        self.named, self.words = model.trained_parameters(), model.encoder.words
        self.flat = [weight.detach().view(-1) for _, weight in self.named]
        self.pulls = Pulls(model, pull) if pull else None

    @torch.no_grad()
    def step(self) -> None:
        strength = self.pulls.strength if self.pulls else 0.0
        shrink = 1.0 - self.lr * self.weight_decay
        if self.pulls:
            for name, weight in self.named:
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
                self.pulls.add_to(name, weight, weight.grad)
        learnt = [
            (own, weight.grad)
            for (_, weight), own in zip(self.named, self.flat, strict=True)
            if weight.grad is not None
        ]
        weights, grads = [own for own, _ in learnt], [grad.view(-1) for _, grad in learnt]
        if jit.usable(self.words.rows.device):
            descend(weights, grads, shrink=shrink, lr=self.lr)
        else:
            torch._foreach_mul_(weights, shrink)
            torch._foreach_sub_(weights, grads, alpha=self.lr)
        for _, weight in self.named:
            weight.grad = None
        if self.words.trainable:
            self.words.step(self.lr, self.weight_decay, strength)


class AdamW:
    """Loshchilov & Hutter, ICLR 2019. Rows of the word table that the shard lacks only decay."""

    def __init__(self, model: Model, training: Training, lr: float, pull: Pull | None) -> None:
        self.decay = 1.0 - lr * training.weight_decay
        self.pulls = Pulls(model, pull) if pull else None
        self.words = model.encoder.words if model.encoder.words.trainable else None
        self.named = model.trained_parameters()
        parameters: list[Tensor] = [weight for _, weight in self.named]
        if self.words:
            parameters.append(self.words.rows)
        self.inner = torch.optim.AdamW(parameters, lr=lr, weight_decay=training.weight_decay, fused=True)

    def step(self) -> None:
        if self.words:
            self.words.rows.grad = self.words.gradient()
        if self.pulls:
            with torch.no_grad():
                for name, weight in self.named:
                    weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
                    self.pulls.add_to(name, weight, weight.grad)
                if self.words and self.words.rows.grad is not None:
                    self.pulls.add_to(WORDS, self.words.rows, self.words.rows.grad)
        self.inner.step()
        self.inner.zero_grad()
        if self.words:
            self.words.elsewhere = self.words.elsewhere[0] * self.decay, 0.0


class Pulls:
    """A pull on the weights that the model is loaded with."""

    def __init__(self, model: Model, pull: Pull) -> None:
        self.strength = pull.strength
        self.start = {name: value.detach().clone() for name, value in model.trained_parameters()}
        self.push = {name: value.to(model.device) for name, value in (pull.push or {}).items() if name != WORDS}
        words = model.encoder.words
        if words.trainable:
            push = None if pull.push is None else _rows(pull.push[WORDS], model.words_in_use).to(model.device)
            words.pulled(push)
            self.start[WORDS] = words.rows.clone()
            if push is not None:
                self.push[WORDS] = push

    def add_to(self, name: str, weight: Tensor, grad: Tensor) -> None:
        """grad += strength · (weight - its start) + its push, in place."""
        if self.strength:
            grad.add_(weight - self.start[name], alpha=self.strength)
        if name in self.push:
            grad.add_(self.push[name])


def _rows(table: Tensor, chosen: Tensor) -> Tensor:
    return table.index_select(0, chosen.to(table.device))


OPTIMIZERS: dict[str, Callable[[Model, Training, float, Pull | None], Optimizer]] = {"sgd": SGD, "adamw": AdamW}
