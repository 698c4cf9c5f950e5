"""The gradients of single sentences, each clipped to a length, added up: all that a round with `dp.unit = "sentence"`
knows of them.

A sentence's gradient is that of its cross-entropy with respect to everything that is trained, the rows of its words
included, at the weights as loaded. Every sentence is read once, so it counts for at most `clip` in the sum. Steps in
between would let a sentence count again, in the weights that later gradients are taken at.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedrel.config import Training
from fedrel.encoding.shard import Shard
from fedrel.errors import DivergedError
from fedrel.learning.compiled_step import compiled_step_of
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named, table_patch

_AT_ONCE = 64  # sentences


def clipped_gradients(
    model: Model, shard: Shard, sentences: Tensor, clip: float, seed: int, training: Training
) -> tuple[float, Tensor, Named]:
    """The mean loss over the sentences (n,), these, and the weights less the sum of the clipped gradients, in double
    precision; of the word table, the shard's rows. Raises DivergedError if some gradient is not a number.
    """
    model.train()
    model.draw_from(seed, training.dropout)
    compiled = compiled_step_of(model, shard, None, at_once=_AT_ONCE) if len(sentences) else None
    sums = {name: torch.zeros_like(weight, dtype=torch.float64) for name, weight in model.trained_parameters()}
    table = model.encoder.words
    rows = torch.zeros_like(table.rows, dtype=torch.float64)
    losses = 0.0
    for some in torch.split(sentences, _AT_ONCE if compiled else 1) if len(sentences) else ():
        if compiled:
            losses += compiled.clipped(some, clip, sums, rows)
        else:
            losses += _one(model, shard, some, clip, sums, rows)
    model.draw_from(None, 0.0)
    if not math.isfinite(losses) or not all(bool(torch.isfinite(it).all()) for it in (*sums.values(), rows)):
        raise DivergedError("gradients are not numbers any more; lower training.lr")
    weights = Named({name: weight.detach().double() - sums[name] for name, weight in model.trained_parameters()})
    if table.trainable:
        learnt = torch.arange(1, len(rows), device=rows.device)
        values = table.values(learnt).double() - rows[learnt]
        places = model.words_in_use[learnt.to(model.words_in_use.device)].to(torch.int32)
        weights = Named(weights | table_patch(WORDS, places, values, 1.0))
    return losses / max(len(sentences), 1), sentences, weights


def _one(model: Model, shard: Shard, sentence: Tensor, clip: float, sums: dict[str, Tensor], rows: Tensor) -> float:
    """Adds the clipped gradient of one sentence, by autograd; its loss."""
    value = model.loss(shard.sentences(sentence).to(model.device))
    value.backward()  # type: ignore[no-untyped-call]
    table = model.encoder.words
    grads = {name: weight.grad for name, weight in model.trained_parameters() if weight.grad is not None}
    to_rows = table.gradient() if table.trainable else None
    squares = [grad.double().square().sum() for grad in (*grads.values(), *([] if to_rows is None else [to_rows]))]
    share = min(1.0, clip / max(float(torch.stack(squares).sum()) ** 0.5, 1e-300))
    for name, grad in grads.items():
        sums[name].add_(grad, alpha=share)
    if to_rows is not None:
        rows.add_(to_rows, alpha=share)
    for _, weight in model.trained_parameters():
        weight.grad = None
    return float(value.detach())
