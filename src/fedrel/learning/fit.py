"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.config import Training
from fedrel.encoding.pieces import PieceShard
from fedrel.encoding.shard import Batch, Shard
from fedrel.errors import DivergedError
from fedrel.learning.clipped import clipped_gradients
from fedrel.learning.compiled_step import compiled_step_of
from fedrel.learning.losses import Loss
from fedrel.learning.model import Model
from fedrel.learning.named import Named
from fedrel.learning.optimizers import OPTIMIZERS, SGD
from fedrel.learning.proximal import Pull
from fedrel.util.profiling import timed
from fedrel.util.seeds import derive, generator


@dataclass(frozen=True)
class Fitted:
    """What training did."""

    steps: int
    loss: float  # mean over the steps of the last epoch
    sentences: Tensor  # (n,) that it was trained on
    descent: Named | None = None  # of clipped gradients: the weights less the sum of them, the model's stay as loaded


@dataclass(frozen=True)
class Work:
    """A model to train, and everything that training depends on."""

    model: Model  # as loaded
    shard: Shard
    training: Training
    lr: float
    seed: int
    sentences: Tensor  # (n,) to train on
    plain: bool  # sentence by sentence; otherwise bag by bag
    loss: Loss | None
    pull: Pull | None
    clip: float | None = None  # length of a sentence's gradient at most, in a single step on all of them

    def orders(self) -> Iterator[Tensor]:
        """Of every epoch, the order in which training reads: places of sentences, or of bags."""
        units = self.sentences if self.plain else torch.arange(self.shard.bags)
        order = generator(self.seed, torch.device("cpu"))  # the same wherever the model is
        for _ in range(self.training.epochs):
            yield units[torch.randperm(len(units), generator=order)]


Rendezvous = Callable[[Work], Fitted]
rendezvous: ContextVar[Rendezvous | None] = ContextVar("rendezvous", default=None)
"""Where the works of several platforms meet to be stacked (see stacked/training.py); None: each is trained at once."""


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
    clip: float | None = None,
) -> Fitted:
    """Trains the model as loaded. With `sentences`, on exactly those, each an instance of its own; otherwise on the
    whole shard as the model's denoiser sees it: sentence by sentence or bag by bag. `loss` takes the place of the
    denoiser's own, on single sentences; `pull` adds to the gradient what the weights alone decide. With `clip` it finds
    one gradient instead, in which no sentence counts for more than that, and leaves the model as it is.
    """
    plain = sentences is not None or loss is not None or not model.denoiser.by_bag
    if sentences is None:
        sentences = torch.arange(len(shard))
    if model.hide_names:
        shard = shard.hiding_names(model.hide_names, derive(seed, "names"))
    if isinstance(shard, PieceShard):
        shard = shard.at(model.device)
    work = Work(model, shard, training, lr, seed, sentences, plain, loss, pull, clip)
    return (rendezvous.get() or fit_alone)(work)


@timed("train")
def fit_alone(work: Work) -> Fitted:
    """Trains one platform by itself. Raises DivergedError when the loss or the weights are not finite."""
    if work.clip is not None:
        return Fitted(
            1, *clipped_gradients(work.model, work.shard, work.sentences, work.clip, work.seed, work.training)
        )
    model, training = work.model, work.training
    steps = 0
    mean_loss = 0.0
    model.train()
    model.draw_from(work.seed, training.dropout)
    epoch = _epoch_of(work)
    for order in work.orders():
        losses = epoch(order)
        steps += len(losses)
        mean_loss = float(losses.mean()) if len(losses) else 0.0
        if not math.isfinite(mean_loss):
            raise DivergedError("the loss is not a number any more; lower training.lr")
    model.draw_from(None, 0.0)
    if not model.is_finite():
        raise DivergedError("the weights are not numbers any more; lower training.lr")
    return Fitted(steps=steps, loss=mean_loss, sentences=work.sentences)


def _epoch_of(work: Work) -> Callable[[Tensor], Tensor]:
    """How an epoch is trained, given the order of its units; returns the loss of every step."""
    model, training = work.model, work.training
    whole = training.micro_batch == 0 or training.micro_batch >= training.batch
    able = whole and (work.plain or model.denoiser.chooses)
    compiled = compiled_step_of(model, work.shard, work.loss, at_once=training.batch) if able else None
    kind = OPTIMIZERS[training.optimizer]
    if compiled and work.plain and kind is SGD and work.pull is None:
        return lambda order: compiled.descend(order, training.batch, lr=work.lr, weight_decay=training.weight_decay)
    optimizer = kind(model, training, work.lr, work.pull)

    def step(units: Tensor) -> Tensor:
        if compiled is None:
            loss = _backward(work, units)
        else:
            loss = compiled(units if work.plain else model.choose_in(work.shard, units))
        optimizer.step()
        return loss

    def epoch(order: Tensor) -> Tensor:
        losses = [step(units) for units in torch.split(order, training.batch)] if len(order) else []
        return torch.stack(losses) if losses else torch.empty(0)

    return epoch


def _backward(work: Work, units: Tensor) -> Tensor:
    """Leaves the gradients of the mean loss over these units, found in micro-batches if the settings ask for them;
    returns the loss.
    """
    parts = []
    for some in torch.split(units, work.training.micro_batch or len(units)):
        value = work.model.loss(_batch(work, some).to(work.model.device), work.loss)
        if len(some) < len(units):
            value = value * (len(some) / len(units))
        value.backward()  # type: ignore[no-untyped-call]
        parts.append(value.detach())
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum()


def _batch(work: Work, units: Tensor) -> Batch:
    """What a step reads of these sentences or bags."""
    if work.plain:
        return work.shard.sentences(units)
    if work.model.denoiser.chooses:
        return work.shard.sentences(work.model.choose_in(work.shard, units))
    return work.shard.bags_of(units)
