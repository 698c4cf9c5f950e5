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

from fedrel.compiled import AVAILABLE, compiled
from fedrel.extractors.gradients import gradients, room, stride
from fedrel.extractors.products import multiply

_CACHE = 2_500_000  # bytes that stay close to a core while they are worked on


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
def _parts(weight: Any, width: int) -> Any:
    """(F, window·width) → (width, window·G): each part begins a cache line, and zeros follow the F filters."""
    filters, window = len(weight), weight.shape[1] // width
    apart = stride(filters)
    parts = np.zeros((width, window, apart), weight.dtype)
    for k in range(window):
        for j in range(width):
            part, column = parts[j, k], weight[:, k * width + j]
            for f in range(filters):
                part[f] = column[f]
    return parts.reshape((width, window * apart))


@compiled
def _product(positions: Any, parts: Any, window: int) -> Any:
    """(P, d) times the first d of these parts (…, window·G) → (P, window, G)."""
    product = np.empty((len(positions), parts.shape[1]), parts.dtype)
    multiply(positions, parts, product)
    return product.reshape((len(positions), window, -1))


@compiled
def _maxima(
    word_part: Any,  # (U, window, G) of each distinct word
    parts: Any,  # (width, window·G)
    head_position: Any,  # (P, d)
    tail_position: Any,
    bias: Any,  # (F,)
    words: Any,  # (T,) places among the distinct words
    heads: Any,  # (T,)
    tails: Any,
    lengths: Any,  # (S, pieces + 1)
    first: int,  # of the columns to fill: F of them
    maxima: Any,  # (S·pieces, all filters) to fill
    rows: Any,  # (S·pieces, all filters) to fill: where each maximum stands, -1 in an empty piece; None: nobody asks
) -> None:
    tokens, window, filters, apart = len(words), word_part.shape[1], len(bias), word_part.shape[2]
    half = window // 2
    position = head_position.shape[1]
    head_part = _product(head_position, parts[len(parts) - 2 * position :], window)  # (P, window, G) of each distance
    tail_part = _product(tail_position, parts[len(parts) - position :], window)
    offsets = np.zeros(apart, bias.dtype)
    offsets[:filters] = bias
    # Along a sentence distances grow by one, so the share of a whole window can be looked up in one row.
    head_sum, tail_sum = np.empty_like(head_part[:, 0]), np.empty_like(tail_part[:, 0])
    if window == 3:
        for p in range(1, len(head_part) - 1):
            for f in range(apart):
                head_sum[p, f] = head_part[p - 1, 0, f] + head_part[p, 1, f] + head_part[p + 1, 2, f] + offsets[f]
                tail_sum[p, f] = tail_part[p - 1, 0, f] + tail_part[p, 1, f] + tail_part[p + 1, 2, f]
    best, row, features = np.empty(apart, maxima.dtype), np.empty(apart, np.int32), np.empty(apart, maxima.dtype)
    piece = 0
    t = 0
    for s in range(lengths.shape[0]):
        for p in range(lengths.shape[1] - 1):
            best[:] = -np.inf if lengths[s, p] else 0
            if rows is not None:  # known when this is compiled, so that it costs nothing where nobody asks
                row[:] = t if lengths[s, p] else -1
            for _ in range(lengths[s, p]):
                if (
                    window == 3
                    and 0 < t < tokens - 1
                    and heads[t - 1] + 1 == heads[t] == heads[t + 1] - 1
                    and tails[t - 1] + 1 == tails[t] == tails[t + 1] - 1
                ):  # the usual case in one pass, the features in registers
                    a, b, c = word_part[words[t - 1], 0], word_part[words[t], 1], word_part[words[t + 1], 2]
                    d, e = head_sum[heads[t]], tail_sum[tails[t]]
                    for f in range(apart):
                        value = (a[f] + b[f]) + (c[f] + (d[f] + e[f]))
                        less = value <= best[f]  # what is no number is not
                        best[f] = best[f] if less else value
                        if rows is not None:
                            row[f] = row[f] if less else t
                else:
                    features[:] = offsets
                    for k in range(window):
                        near = t + k - half
                        if 0 <= near < tokens:
                            a, d, e = word_part[words[near], k], head_part[heads[near], k], tail_part[tails[near], k]
                            for f in range(apart):
                                features[f] += a[f] + (d[f] + e[f])
                    for f in range(apart):
                        less = features[f] <= best[f]
                        best[f] = best[f] if less else features[f]
                        if rows is not None:
                            row[f] = row[f] if less else t
                t += 1
            maxima[piece, first : first + filters] = best[:filters]
            if rows is not None:
                rows[piece, first : first + filters] = row[:filters]
            piece += 1
        t += lengths[s, -1]


@compiled
def _descend(weights: Any, grads: Any, shrink: float, lr: float) -> None:
    for n in range(len(weights)):
        weight, grad = weights[n], grads[n]
        for i in range(len(weight)):
            weight[i] = shrink * weight[i] - lr * grad[i]


@compiled
def _add_rows(table: Any, rows: Any, change: Any, scale: float) -> None:
    for i in range(len(rows)):
        row = table[rows[i]]
        for j in range(table.shape[1]):
            row[j] += scale * change[i, j]
    table[0] = 0


def descend(weights: list[Tensor], grads: list[Tensor], *, shrink: float, lr: float) -> None:
    """weight ← shrink·weight - lr·grad of each, in one pass; all have one dimension."""
    arrays = tuple(weight.numpy() for weight in weights)
    if arrays:
        kind = arrays[0].dtype.type
        _descend(arrays, tuple(grad.numpy() for grad in grads), kind(shrink), kind(lr))


def add_rows(table: Tensor, rows: Tensor, change: Tensor, scale: float) -> None:
    """table[rows] += scale·change; a row may be named several times, and the first, padding, stays zero."""
    array = table.numpy()
    _add_rows(array, rows.numpy(), change.numpy(), array.dtype.type(scale))


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
        given = (*tables[1:], weight, bias, words, heads, tails, lengths, maxima, rows)
        fill_maxima(vectors, *(tensor.numpy() for tensor in given))
        ctx.save_for_backward(*tables, weight, words, heads, tails, rows)
        return maxima

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *tables, weight, words, heads, tails, rows = ctx.saved_tensors
        found = [torch.empty_like(of) for of in (*tables, weight, weight[:, 0])]
        width = sum(table.shape[1] for table in tables)
        space = weight.new_empty(room(len(words), width, weight.shape[1] // width, len(weight)))
        given = (grad.contiguous(), rows, *tables, weight, words, heads, tails, space, *found)
        gradients(*(tensor.numpy() for tensor in given))
        return (*found, None, None, None, None)


def fill_maxima(
    vectors: Tensor,  # (U, D) of the distinct words
    head_position: Any,  # (P, d)
    tail_position: Any,
    weight: Any,  # (F, window·(D+2d))
    bias: Any,
    words: Any,  # (T,) places among the distinct words
    heads: Any,
    tails: Any,
    lengths: Any,  # (S, pieces + 1)
    maxima: Any,  # (S·pieces, F) to fill
    rows: Any = None,  # (S·pieces, F) to fill: where each maximum stands; -1 in an empty piece
) -> None:
    width = vectors.shape[1] + 2 * head_position.shape[1]
    window = weight.shape[1] // width
    fitting = _CACHE // (len(vectors) * window * weight.itemsize) // 16 * 16
    at_once = max(16, fitting)  # filters, as many as leave their products in the cache
    for first in range(0, len(weight), at_once):
        chosen = slice(first, first + at_once)
        parts = _parts(weight[chosen], width)
        product = torch.mm(vectors, torch.from_numpy(parts[: vectors.shape[1]])).view(len(vectors), window, -1).numpy()
        _maxima(
            product,
            parts,
            head_position,
            tail_position,
            bias[chosen],
            words,
            heads,
            tails,
            lengths,
            first,
            maxima,
            rows,
        )


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
    given = (head_position, tail_position, weight, bias, words, heads, tails, lengths)
    if torch.is_grad_enabled():
        return _table_convolution(vectors, *given)
    maxima = weight.new_empty(lengths.shape[0] * (lengths.shape[1] - 1), len(weight))
    fill_maxima(vectors, *(tensor.numpy() for tensor in (*given, maxima)))
    return maxima
