"""The only training loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedrel.config import Training
from fedrel.encoding.packed import Batch, Shard
from fedrel.errors import DivergedError
from fedrel.extractors import kernels
from fedrel.extractors.words import WordTable
from fedrel.learning.model import Model
from fedrel.seeds import generator


@dataclass(frozen=True)
class Fitted:
    steps: int
    loss: float  # mean over the steps of the last epoch
    sentences: Tensor  # those that training looked at


def fit(
    model: Model, shard: Shard, training: Training, *, lr: float, seed: int, sentences: Tensor | None = None
) -> Fitted:
    """SGD on the model as loaded. With `sentences`, on exactly those, each an instance of its own;
    otherwise on the whole shard as the model's denoiser sees it: sentence by sentence or bag by bag.
    """
    plain = sentences is not None or not model.denoiser.by_bag
    if sentences is None:
        sentences = torch.arange(len(shard))
    units = sentences if plain else torch.arange(shard.bags)
    steps = 0
    mean_loss = 0.0
    model.train()
    model.dropout = training.dropout
    model.draws = generator(seed, model.device)
    weights = list(model.parameters())
    order = model.draws if model.device.type == "cpu" else generator(seed, torch.device("cpu"))
    for _ in range(training.epochs):
        losses = []
        for chosen in torch.split(units[torch.randperm(len(units), generator=order)], training.batch):
            loss = model.loss(_batch(model, shard, chosen, plain=plain).to(model.device))
            loss.backward()  # type: ignore[no-untyped-call]
            _step(weights, model.encoder.words, lr, training.weight_decay)
            losses.append(loss.detach())
        steps += len(losses)
        mean_loss = float(torch.stack(losses).mean()) if losses else 0.0
        if not math.isfinite(mean_loss):
            raise DivergedError("the loss is not a number any more; lower training.lr")
    model.draws = None  # a generator cannot be copied with the model
    if not model.is_finite():
        raise DivergedError("the weights are not numbers any more; lower training.lr")
    return Fitted(steps=steps, loss=mean_loss, sentences=sentences)


def _batch(model: Model, shard: Shard, units: Tensor, *, plain: bool) -> Batch:
    if plain:
        return shard.sentences(units)
    if model.denoiser.chooses:
        return shard.sentences(model.choose_in(shard, units))
    return shard.bags_of(units)


@torch.no_grad()
def _step(weights: list[nn.Parameter], words: WordTable, lr: float, weight_decay: float) -> None:
    """SGD with weight decay: w ← (1 - lr·decay)·w - lr·gradient."""
    for weight in weights:
        if weight.grad is None:
            continue
        shrink = 1.0 - lr * weight_decay
        if kernels.usable(weight.device):
            kernels.descend(weight, weight.grad, shrink=shrink, lr=lr)
        else:
            weight.mul_(shrink).sub_(weight.grad, alpha=lr)
        weight.grad = None
    words.step(lr, weight_decay)
