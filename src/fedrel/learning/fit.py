"""The only training loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.config import Training
from fedrel.encoding.shard import Batch, Shard
from fedrel.errors import DivergedError
from fedrel.learning.by_hand import by_hand
from fedrel.learning.losses import Loss
from fedrel.learning.model import Model
from fedrel.learning.optimizers import OPTIMIZERS, Optimizer
from fedrel.learning.pull import Pull
from fedrel.seeds import generator


@dataclass(frozen=True)
class Fitted:
    steps: int
    loss: float  # mean over the steps of the last epoch
    sentences: Tensor  # those that training looked at


def fit(
    model: Model,
    shard: Shard,
    training: Training,
    *,
    lr: float,
    seed: int,
    sentences: Tensor | None = None,
    loss: Loss | None = None,
    pull: Pull | None = None,
) -> Fitted:
    """Trains the model as loaded. With `sentences`, on exactly those, each an instance of its own; otherwise on the
    whole shard as the model's denoiser sees it: sentence by sentence or bag by bag. `loss` takes the place of the
    denoiser's own, on single sentences; `pull` adds to the gradient what the weights alone decide.
    """
    plain = sentences is not None or loss is not None or not model.denoiser.by_bag
    if sentences is None:
        sentences = torch.arange(len(shard))
    units = sentences if plain else torch.arange(shard.bags)
    steps = 0
    mean_loss = 0.0
    model.train()
    model.draw_from(seed, training.dropout)
    order = generator(seed, torch.device("cpu"))  # of the sentences, wherever the model is
    optimizer: Optimizer = OPTIMIZERS[training.optimizer](model, training, lr, pull)
    backward = _backward_of(model, shard, training, loss, plain=plain)
    for _ in range(training.epochs):
        losses = []
        for chosen in torch.split(units[torch.randperm(len(units), generator=order)], training.batch):
            losses.append(backward(chosen))
            optimizer.step()
        steps += len(losses)
        mean_loss = float(torch.stack(losses).mean()) if losses else 0.0
        if not math.isfinite(mean_loss):
            raise DivergedError("the loss is not a number any more; lower training.lr")
    model.draw_from(None, 0.0)
    if not model.is_finite():
        raise DivergedError("the weights are not numbers any more; lower training.lr")
    return Fitted(steps=steps, loss=mean_loss, sentences=sentences)


def _backward_of(
    model: Model, shard: Shard, training: Training, loss: Loss | None, *, plain: bool
) -> Callable[[Tensor], Tensor]:
    """How units become a gradient of the model's weights; returns their mean loss."""
    whole = training.micro_batch == 0 or training.micro_batch >= training.batch
    hand = by_hand(model, shard, loss, at_once=training.batch) if whole and (plain or model.denoiser.chooses) else None
    if hand is None:
        return lambda units: _backward(model, shard, units, training.micro_batch, loss, plain=plain)
    return hand if plain else lambda bags: hand(model.choose_in(shard, bags))


def _backward(model: Model, shard: Shard, units: Tensor, at_once: int, loss: Loss | None, *, plain: bool) -> Tensor:
    """Gradients of the mean loss over these units, added up over as many at a time as memory has room for."""
    parts = []
    for some in torch.split(units, at_once or len(units)):
        value = model.loss(_batch(model, shard, some, plain=plain).to(model.device), loss)
        if len(some) < len(units):
            value = value * (len(some) / len(units))
        value.backward()  # type: ignore[no-untyped-call]
        parts.append(value.detach())
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum()


def _batch(model: Model, shard: Shard, units: Tensor, *, plain: bool) -> Batch:
    if plain:
        return shard.sentences(units)
    if model.denoiser.chooses:
        return shard.sentences(model.choose_in(shard, units))
    return shard.bags_of(units)
