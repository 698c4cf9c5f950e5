"""The gradient of the usual training step without autograd: a convolution, plain cross-entropy on single sentences.

It is the gradient that autograd finds, but for rounding. No graph is built and little is allocated; of the few calls
that are left each does much and lets other threads run, so that two platforms side by side are nearly twice as fast
as one. What is not usual (a loss of its own, whole bags, a GPU, no numba) is left to autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrel.denoisers import Denoiser
from fedrel.encoding.packed import PackedShard
from fedrel.encoding.shard import Shard
from fedrel.extractors import kernels
from fedrel.extractors.convolution import Convolution
from fedrel.extractors.draws import settings
from fedrel.extractors.gradients import room
from fedrel.learning import passes
from fedrel.learning.losses import Loss, cross_entropy
from fedrel.learning.model import Model

# In place; numpy's tanh takes a seventh of torch's time
_ACTIVATIONS: dict[Any, Callable[[Any], Any]] = {
    torch.tanh: lambda values: np.tanh(values, out=values),
    torch.relu: lambda values: np.maximum(values, 0, out=values),
}


def by_hand(model: Model, shard: Shard, loss: Loss | None, *, at_once: int) -> ByHand | None:
    """For steps on that many single sentences; None where only autograd can do it."""
    usual_loss = loss is cross_entropy or (loss is None and type(model.denoiser).loss is Denoiser.loss)
    everything_learns = all(value.requires_grad for value in model.parameters())
    if (
        usual_loss
        and everything_learns
        and not list(model.denoiser.parameters())
        and kernels.usable(model.device)
        and isinstance(model.encoder, Convolution)
        and isinstance(shard, PackedShard)
        and len(shard)
    ):
        return ByHand(model, model.encoder, shard, at_once)
    return None


class ByHand:
    """Made for one training. Called with sentences, it puts the gradient where autograd would and returns the loss."""

    def __init__(self, model: Model, encoder: Convolution, shard: PackedShard, at_once: int) -> None:
        self.encoder = encoder
        linear, classifier = encoder.convolution, model.classifier
        longest = (shard.starts[1:] - shard.starts[:-1]).topk(min(at_once, len(shard))).values
        tokens, sentences = int(longest.sum()), len(longest)  # the most that can meet in a step
        lengths = encoder.piece_lengths(shard)
        columns = (shard.tokens, shard.head_distance, shard.tail_distance, shard.starts, lengths)
        self.text = [column.numpy() for column in columns]
        self.labels = shard.labels.numpy()
        self.place_of = np.full(len(shard.vocabulary), -1, np.int32)
        self.found = torch.empty(min(tokens, len(shard.vocabulary)), dtype=torch.int64)
        self.places = np.empty(tokens, np.int32), np.empty(tokens, np.int64), np.empty(tokens, np.int64)
        self.lengths = np.empty((sentences, lengths.shape[1]), np.int64)
        (self.pooled,) = _arrays(linear.weight.new_empty(sentences, encoder.hidden))
        self.rows = np.empty((sentences * encoder.pieces, encoder.filters), np.int32)
        self.positions = _arrays(encoder.head_position, encoder.tail_position)
        self.convolution = _arrays(linear.weight, linear.bias)
        bias: Tensor | None = classifier.bias
        nothing = classifier.weight.new_empty(0)
        self.classifier = _arrays(classifier.weight, nothing if bias is None else bias)
        order = (classifier.weight, bias, encoder.head_position, encoder.tail_position, linear.weight, linear.bias)
        self.grads = [(value, torch.empty_like(value)) for value in order if value is not None]
        filled = [grad.numpy() for _, grad in self.grads]
        self.to_classifier, self.to_encoder = (filled[0], nothing.numpy() if bias is None else filled[1]), filled[-4:]
        width = linear.in_features // encoder.window
        (self.space,) = _arrays(linear.weight.new_empty(room(tokens, width, encoder.window, encoder.filters)))

    @torch.no_grad()
    def __call__(self, chosen: Tensor) -> Tensor:
        encoder, sentences, count = self.encoder, chosen.numpy(), len(chosen)
        outlets = (self.place_of, self.found.numpy(), *self.places, self.lengths)
        tokens, distinct = passes.read(*self.text, sentences, *outlets)
        found, places = self.found[:distinct], [place[:tokens] for place in self.places]
        words = encoder.words.values(found)
        pooled, rows = self.pooled[:count], self.rows[: count * encoder.pieces]  # (S, hidden), (S·pieces, F)
        maxima = pooled.reshape(rows.shape)
        given: list[Any] = [*self.positions, *self.convolution, *places, self.lengths[:count], maxima, rows]
        kernels.fill_maxima(words, *given)
        _ACTIVATIONS[encoder.activation](pooled)
        to_words = torch.empty_like(words)
        loss = passes.learn(
            pooled,
            encoder.activation is torch.tanh,
            self.labels,
            sentences,
            self._draw(maxima.dtype),
            *self.classifier,
            rows,
            words.numpy(),
            *self.positions,
            self.convolution[0],
            *places,
            self.space,
            *self.to_classifier,
            to_words.numpy(),
            *self.to_encoder,
        )
        encoder.words.hand_in(found, to_words)
        for weight, grad in self.grads:
            weight.grad = grad
        return torch.tensor(loss, dtype=words.dtype)

    def _draw(self, kind: Any) -> tuple[Any, Any, Any]:
        encoder = self.encoder
        if encoder.dropout and encoder.draws is not None:
            return settings(encoder.draws.next_key(), encoder.dropout, kind)
        return settings(0, 0.0, kind)


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().numpy() for tensor in tensors]
