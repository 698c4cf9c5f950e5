"""The compiled step: the usual training step, a convolution under cross-entropy on single sentences, without autograd.

It is the gradient that autograd finds, but for rounding. No graph is built and little is allocated; the few calls that
are left do much each and let other threads run, so that two platforms side by side are nearly twice as fast as one.
Everything else (a loss of its own, whole bags, classes that did not opt in, a GPU, no numba) is left to autograd.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrel.encoding.packed import PackedShard
from fedrel.encoding.shard import Shard
from fedrel.extractors.convolution import Convolution
from fedrel.extractors.word_table import SMALL
from fedrel.kernels import jit, step
from fedrel.kernels.clipped import clipped_gradient
from fedrel.kernels.dropout import Draws, settings
from fedrel.kernels.opt_in import opted_in
from fedrel.kernels.step import Buffers, Descent, Dropout, Text, Weights
from fedrel.kernels.table_convolution import arrays_of
from fedrel.learning.losses import Loss, cross_entropy
from fedrel.learning.model import Model, plain_convolution_of

_STEPS = 64  # of one call; SIGINT is handled between two calls


def compiled_step_of(model: Model, shard: Shard, loss: Loss | None, *, at_once: int) -> CompiledStep | None:
    """For steps on up to `at_once` single sentences; None where only autograd computes what is asked for."""
    encoder = plain_convolution_of(model)
    usual_loss = loss is cross_entropy or (loss is None and opted_in(model.denoiser, "plain_logits"))
    if (
        encoder is not None
        and usual_loss
        and not list(model.denoiser.parameters())
        and jit.usable(model.device)
        and type(shard) is PackedShard
        and len(shard)
    ):
        return CompiledStep(model, encoder, shard, at_once)
    return None


class CompiledStep:
    """Steps of one training. Called with sentences (S,), it leaves the gradients where autograd would, and returns the
    mean loss.
    """

    def __init__(self, model: Model, encoder: Convolution, shard: PackedShard, at_once: int) -> None:
        self.encoder = encoder
        longest = (shard.starts[1:] - shard.starts[:-1]).topk(min(at_once, len(shard))).values
        tokens, sentences = int(longest.sum()), len(longest)  # the most that a step can have
        lengths = encoder.piece_lengths(shard)
        columns = (shard.tokens, shard.head_distance, shard.tail_distance, shard.starts, lengths, shard.labels)
        self.text = Text(*arrays_of(*columns))
        self.found = torch.empty(min(tokens, len(shard.vocabulary)), dtype=torch.int64)
        self.seen = Buffers(
            place_of=np.full(len(shard.vocabulary), -1, np.int32),
            found=self.found.numpy(),
            words=np.empty(tokens, np.int32),
            heads=np.empty(tokens, np.int32),
            tails=np.empty(tokens, np.int32),
            lengths=np.empty((sentences, lengths.shape[1]), np.int64),
            labels=np.empty(sentences, np.int64),
        )
        linear, classifier = encoder.convolution, model.classifier
        bias = classifier.weight.new_empty(0) if classifier.bias is None else classifier.bias
        positions = encoder.head_position, encoder.tail_position
        self.parameters = [classifier.weight, bias, *positions, linear.weight, linear.bias]
        named = {id(weight): name for name, weight in model.named_parameters()}
        self.names = [named.get(id(weight), "") for weight in self.parameters]  # "": there is no bias
        self.weights = Weights(*arrays_of(*self.parameters))
        self.is_tanh = encoder.activation is torch.tanh
        self.kind = self.weights.bias.dtype

    @torch.no_grad()
    def __call__(self, chosen: Tensor) -> Tensor:
        words, sentences = self.encoder.words, chosen.numpy()
        tokens, distinct = step.read(self.text, sentences, self.seen)
        found = self.found[:distinct]
        vectors = words.values(found)
        to_vectors, grads = torch.empty_like(vectors), [torch.empty_like(weight) for weight in self.parameters]
        (key,), dropout = self._draws(1)
        loss = step.gradient(
            self.seen,
            len(sentences),
            tokens,
            vectors.numpy(),
            self.weights,
            self.is_tanh,
            dropout,
            key,
            to_vectors.numpy(),
            Weights(*arrays_of(*grads)),
        )
        words.hand_in(found, to_vectors)
        for weight, grad in zip(self.parameters, grads, strict=True):
            weight.grad = grad
        return torch.tensor(loss, dtype=vectors.dtype)

    def descend(self, order: Tensor, batch: int, *, lr: float, weight_decay: float) -> Tensor:
        """(steps,) the losses of whole steps of SGD on the sentences of `order`, `batch` at a time."""
        words = self.encoder.words
        descent = Descent(1.0 - lr * weight_decay, lr, words.trainable, SMALL)
        losses = np.empty(math.ceil(len(order) / batch), self.kind)
        for some in range(0, len(losses), _STEPS):
            to = losses[some : some + _STEPS]
            keys, dropout = self._draws(len(to))
            part = order[some * batch : (some + len(to)) * batch].numpy()
            table = words.rows.numpy(), words.factor
            factor = step.descend(
                self.text, part, batch, self.seen, *table, self.weights, self.is_tanh, dropout, keys, descent, to
            )
            words.stepped(len(to), factor, lr, weight_decay)
        return torch.from_numpy(losses)

    @torch.no_grad()
    def clipped(self, chosen: Tensor, clip: float, sums: dict[str, Tensor], rows: Tensor) -> float:
        """Adds to `sums`, by name, and to the rows of the word table the gradients of these sentences (S,), each
        clipped to this length; the sum of their losses.
        """
        words, sentences = self.encoder.words, chosen.numpy()
        tokens, distinct = step.read(self.text, sentences, self.seen)
        found = self.found[:distinct]
        vectors = words.values(found)
        to_vectors, grads = torch.empty_like(vectors), [torch.empty_like(weight) for weight in self.parameters]
        (key,), dropout = self._draws(1)
        loss = clipped_gradient(
            self.seen,
            len(sentences),
            tokens,
            vectors.numpy(),
            self.weights,
            self.is_tanh,
            dropout,
            key,
            clip,
            words.trainable,
            to_vectors.numpy(),
            Weights(*arrays_of(*grads)),
            np.empty(len(sentences), self.kind),
        )
        for name, grad in zip(self.names, grads, strict=True):
            if name:
                sums[name] += grad
        if words.trainable:
            rows.index_add_(0, found, to_vectors.to(rows.dtype))
            rows[0] = 0
        return float(loss) * len(sentences)

    def _draws(self, count: int) -> tuple[Any, Dropout]:
        """The keys of dropout for so many steps (count,), and what they are compared with."""
        draws, dropout = self.encoder.draws, self.encoder.dropout
        if draws is None or not dropout:
            draws, dropout = Draws(0), 0.0
        drawn = [settings(draws.next_key(), dropout, self.kind) for _ in range(count)]
        return np.array([key for key, _, _ in drawn], np.uint32), Dropout(*drawn[0][1:])
