"""The convolution of CNN and PCNN on the CPU, compiled: the same function as the matrix products, in fewer steps.

A convolution over word vectors is a sum of table look-ups. Its weights times each *distinct* word of the batch is
one small matrix product (a word of ordinary text stands in a batch more than twice); a token's features are then
sums of rows of that product. Of their gradient only the maxima are not zero, one per piece and filter, so the way
back visits those alone. Where numba is missing, `usable` is false and convolution.py does it with matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrel.kernels.gradients import gradients, narrow, widen
from fedrel.kernels.jit import AVAILABLE, compiled
from fedrel.kernels.matmul import lines, stride
from fedrel.kernels.maxima import fill_maxima


def usable(device: torch.device) -> bool:
    return AVAILABLE and device.type == "cpu"


@compiled
def _distinct(tokens: Any, known: int) -> Any:
    """The distinct numbers in order of appearance, and the place of every token among them."""
    place_of = np.full(known, -1, np.int32)
    places = np.empty(len(tokens), np.int32)
    found = np.empty(min(len(tokens), known), np.int64)
    count = 0
    for t in range(len(tokens)):
        token = tokens[t]
        if place_of[token] < 0:
            place_of[token] = count
            found[count] = token
            count += 1
        places[t] = place_of[token]
    return found[:count], places


@compiled
def move(weights: Any, grads: Any, shrink: Any, lr: Any) -> None:
    """weight ← shrink·weight - lr·grad of each; all have one dimension."""
    for n in range(len(weights)):
        weight, grad = weights[n], grads[n]
        for i in range(len(weight)):
            weight[i] = shrink * weight[i] - lr * grad[i]


@compiled
def add_to(table: Any, rows: Any, change: Any, scale: Any) -> None:
    """table[rows] += scale·change, which may be wider; padding stays zero."""
    for i in range(len(rows)):
        row = table[rows[i]]
        for j in range(table.shape[1]):
            row[j] += scale * change[i, j]
    table[0] = 0


def descend(weights: list[Tensor], grads: list[Tensor], *, shrink: float, lr: float) -> None:
    """The same of tensors."""
    arrays = tuple(weight.numpy() for weight in weights)
    if arrays:
        kind = arrays[0].dtype.type
        move(arrays, tuple(grad.numpy() for grad in grads), kind(shrink), kind(lr))


def add_rows(table: Tensor, rows: Tensor, change: Tensor, scale: float) -> None:
    """The same of tensors; a row may be named several times."""
    array = table.numpy()
    add_to(array, rows.numpy(), change.numpy(), array.dtype.type(scale))


def distinct(tokens: Tensor, known: int) -> tuple[Tensor, Tensor]:
    """(U,) the distinct numbers below `known`, and (T,) the place of every token among them."""
    found, places = _distinct(tokens.numpy(), known)
    return torch.from_numpy(found), torch.from_numpy(places)


class _TableConvolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        head_position: Tensor,
        tail_position: Tensor,
        weight: Tensor,
        bias: Tensor,
        words: Tensor,
        heads: Tensor,
        tails: Tensor,
        lengths: Tensor,
    ) -> Tensor:
        tables = (vectors, head_position, tail_position)
        shape = lengths.shape[0] * (lengths.shape[1] - 1), len(weight)
        maxima, rows = weight.new_empty(shape), torch.empty(shape, dtype=torch.int32)
        of_model, text = (*tables, _windows(tables, weight), bias), (words, heads, tails, lengths, maxima, rows)
        fill_maxima(*arrays_of(*of_model), vectors.shape[1], *arrays_of(*text))
        ctx.save_for_backward(*tables, weight, words, heads, tails, lengths, rows)
        return maxima

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *tables, weight, words, heads, tails, lengths, rows = ctx.saved_tensors
        found = [torch.empty_like(of) for of in (*tables, weight, weight[:, 0])]
        given = (grad.contiguous(), rows, *tables, weight, words, heads, tails, lengths, *found)
        _gradients(*(tensor.numpy() for tensor in given))
        return (*found, None, None, None, None)


@compiled
def _gradients(
    grad: Any,
    rows: Any,
    vectors: Any,
    head_position: Any,
    tail_position: Any,
    weight: Any,  # (F, window·(D+2d))
    words: Any,
    heads: Any,
    tails: Any,
    lengths: Any,
    to_vectors: Any,
    to_head: Any,
    to_tail: Any,
    to_weight: Any,
    to_bias: Any,
) -> None:
    width = vectors.shape[1] + 2 * head_position.shape[1]
    step, window, dimension = stride(width), weight.shape[1] // width, vectors.shape[1]
    wide, to_wide = lines(len(weight), window * step, weight), lines(len(weight), window * step, weight)
    words_wide, to_words_wide = lines(len(vectors), step, vectors), lines(len(vectors), step, vectors)
    widen(weight, wide, step)
    widen(vectors, words_wide, step)
    tables, text = (words_wide, head_position, tail_position), (words, heads, tails, lengths)
    gradients(grad, rows, *tables, wide, *text, dimension, to_words_wide, to_head, to_tail, to_wide, to_bias)
    narrow(to_wide, to_weight, step)
    narrow(to_words_wide, to_vectors, step)


_table_convolution: Callable[..., Tensor] = _TableConvolution.apply


def table_convolution(
    vectors: Tensor,
    head_position: Tensor,
    tail_position: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    heads: Tensor,
    tails: Tensor,
    lengths: Tensor,
) -> Tensor:
    """(S·pieces, F) maxima by piece; `lengths` counts the tokens of each piece of each sentence, its last column those
    that belong to none.
    """
    tables, text = (vectors, head_position, tail_position), (words, heads, tails, lengths)
    if torch.is_grad_enabled():
        return _table_convolution(*tables, weight, bias, *text)
    maxima = weight.new_empty(lengths.shape[0] * (lengths.shape[1] - 1), len(weight))
    of_model = (*tables, _windows(tables, weight), bias)
    fill_maxima(*arrays_of(*of_model), vectors.shape[1], *arrays_of(*text, maxima), None)
    return maxima


def _windows(tables: tuple[Tensor, ...], weight: Tensor) -> Tensor:
    """(F, window, D+2d) of the weights."""
    return weight.view(len(weight), -1, sum(table.shape[1] for table in tables))


def arrays_of(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().numpy() for tensor in tensors]
