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

_CACHE = 600_000  # bytes that stay close to a core while they are worked on; most have a megabyte or more


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
    """(F, window·width) → (width, window·F)."""
    filters, window = len(weight), weight.shape[1] // width
    parts = np.empty((width, window * filters), weight.dtype)
    for k in range(window):
        for j in range(width):
            for f in range(filters):
                parts[j, k * filters + f] = weight[f, k * width + j]
    return parts


@compiled
def _maxima(
    word_part: Any,  # (U, window, F) of each distinct word
    head_part: Any,  # (P, window, F) of each distance to the head
    tail_part: Any,
    bias: Any,  # (F,)
    words: Any,  # (T,) places among the distinct words
    heads: Any,  # (T,)
    tails: Any,
    lengths: Any,  # (S, pieces + 1)
    first: int,  # of the columns to fill: F of them
    maxima: Any,  # (S·pieces, all filters) to fill
    rows: Any,  # (S·pieces, all filters) to fill: where each maximum stands; -1 in an empty piece
) -> None:
    tokens, window, filters = len(words), word_part.shape[1], len(bias)
    half = window // 2
    features = np.empty(filters, maxima.dtype)
    # Along a sentence distances grow by one, so the share of a whole window can be looked up in one row.
    head_sum, tail_sum = np.empty_like(head_part[:, 0]), np.empty_like(tail_part[:, 0])
    if window == 3:
        for p in range(1, len(head_part) - 1):
            for f in range(filters):
                head_sum[p, f] = head_part[p - 1, 0, f] + head_part[p, 1, f] + head_part[p + 1, 2, f] + bias[f]
                tail_sum[p, f] = tail_part[p - 1, 0, f] + tail_part[p, 1, f] + tail_part[p + 1, 2, f]
    piece = 0
    t = 0
    for s in range(lengths.shape[0]):
        for p in range(lengths.shape[1] - 1):
            best, row = maxima[piece, first : first + filters], rows[piece, first : first + filters]
            piece += 1
            best[:] = 0
            row[:] = -1
            for i in range(lengths[s, p]):
                if (
                    window == 3
                    and 0 < t < tokens - 1
                    and heads[t - 1] + 1 == heads[t] == heads[t + 1] - 1
                    and tails[t - 1] + 1 == tails[t] == tails[t + 1] - 1
                ):  # the usual case in one pass, the features in registers
                    a, b, c = word_part[words[t - 1], 0], word_part[words[t], 1], word_part[words[t + 1], 2]
                    d, e = head_sum[heads[t]], tail_sum[tails[t]]
                    for f in range(filters):
                        value = (a[f] + b[f]) + (c[f] + (d[f] + e[f]))
                        greater = i == 0 or value > best[f]
                        best[f] = value if greater else best[f]
                        row[f] = t if greater else row[f]
                    t += 1
                    continue
                features[:] = bias
                for k in range(window):
                    near = t + k - half
                    if 0 <= near < tokens:
                        word, head, tail = (
                            word_part[words[near], k],
                            head_part[heads[near], k],
                            tail_part[tails[near], k],
                        )
                        for f in range(filters):
                            features[f] += word[f] + (head[f] + tail[f])
                if i == 0:
                    best[:] = features
                    row[:] = t
                else:
                    for f in range(filters):
                        greater = features[f] > best[f]
                        best[f] = features[f] if greater else best[f]
                        row[f] = t if greater else row[f]
                t += 1
        t += lengths[s, -1]


@compiled
def _gradients(
    grad: Any,  # (S·pieces, F)
    rows: Any,  # (S·pieces, F)
    vectors: Any,  # (U, D) of the distinct words
    head_position: Any,  # (P, d)
    tail_position: Any,
    weight: Any,  # (F, window·(D+2d))
    words: Any,
    heads: Any,
    tails: Any,
) -> Any:
    """Of the distinct words, both position tables, the weight and the bias."""
    tokens, dimension, position = len(words), vectors.shape[1], head_position.shape[1]
    width = dimension + 2 * position
    reach = weight.shape[1]  # of one window, in numbers that lie side by side
    half = reach // width // 2
    pieces, filters = grad.shape
    inputs = np.zeros((tokens + reach // width - 1) * width, vectors.dtype)  # zero beyond both ends
    for t in range(tokens):
        here = inputs[(t + half) * width : (t + half + 1) * width]
        word, head, tail = vectors[words[t]], head_position[heads[t]], tail_position[tails[t]]
        for j in range(dimension):
            here[j] = word[j]
        for j in range(position):
            here[dimension + j] = head[j]
            here[dimension + position + j] = tail[j]
    to_inputs = np.zeros_like(inputs)
    to_weight, to_bias = np.zeros_like(weight), np.zeros(filters, weight.dtype)
    starts, sizes = np.empty(pieces, np.int64), np.empty(pieces, grad.dtype)
    for f in range(filters):
        count = 0
        for piece in range(pieces):
            if rows[piece, f] >= 0 and grad[piece, f] != 0:
                starts[count], sizes[count] = rows[piece, f] * width, grad[piece, f]
                to_bias[f] += grad[piece, f]
                count += 1
        own, to_own = weight[f], to_weight[f]
        fours = count - count % 4
        for i in range(0, fours, 4):  # the sum of four stays in registers
            a, b = inputs[starts[i] : starts[i] + reach], inputs[starts[i + 1] : starts[i + 1] + reach]
            c, d = inputs[starts[i + 2] : starts[i + 2] + reach], inputs[starts[i + 3] : starts[i + 3] + reach]
            for j in range(reach):
                to_own[j] += (sizes[i] * a[j] + sizes[i + 1] * b[j]) + (sizes[i + 2] * c[j] + sizes[i + 3] * d[j])
        for i in range(fours, count):
            a = inputs[starts[i] : starts[i] + reach]
            for j in range(reach):
                to_own[j] += sizes[i] * a[j]
        for i in range(count):
            to_window = to_inputs[starts[i] : starts[i] + reach]
            for j in range(reach):
                to_window[j] += sizes[i] * own[j]
    to_vectors, to_head, to_tail = np.zeros_like(vectors), np.zeros_like(head_position), np.zeros_like(tail_position)
    for t in range(tokens):
        here = to_inputs[(t + half) * width : (t + half + 1) * width]
        word, head, tail = to_vectors[words[t]], to_head[heads[t]], to_tail[tails[t]]
        for j in range(dimension):
            word[j] += here[j]
        for j in range(position):
            head[j] += here[dimension + j]
            tail[j] += here[dimension + position + j]
    to_head[0], to_tail[0] = 0, 0  # the separator's vector is zero for good
    return to_vectors, to_head, to_tail, to_weight, to_bias


@compiled
def _descend(weight: Any, grad: Any, shrink: float, lr: float) -> None:
    for i in range(len(weight)):
        weight[i] = shrink * weight[i] - lr * grad[i]


@compiled
def _add_rows(table: Any, rows: Any, change: Any, scale: float) -> None:
    for i in range(len(rows)):
        row = table[rows[i]]
        for j in range(table.shape[1]):
            row[j] += scale * change[i, j]


def descend(weight: Tensor, grad: Tensor, *, shrink: float, lr: float) -> None:
    """weight ← shrink·weight - lr·grad, in one pass."""
    kind = weight.numpy().dtype.type
    _descend(weight.view(-1).numpy(), grad.reshape(-1).numpy(), kind(shrink), kind(lr))


def add_rows(table: Tensor, rows: Tensor, change: Tensor, scale: float) -> None:
    """table[rows] += scale·change; a row may be named several times."""
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
        width = sum(table.shape[1] for table in tables)
        pieces = lengths.shape[0] * (lengths.shape[1] - 1)
        maxima, rows = weight.new_empty(pieces, len(weight)), torch.empty(pieces, len(weight), dtype=torch.int32)
        places = [index.numpy() for index in (words, heads, tails, lengths)]
        results = maxima.numpy(), rows.numpy()
        at_once = max(16, _CACHE // (len(vectors) * weight.shape[1] // width * weight.element_size()))
        for first in range(0, len(weight), at_once):  # filters, as many as leave their products in the cache
            chosen, offsets = weight[first : first + at_once].numpy(), bias[first : first + at_once].numpy()
            parts = torch.from_numpy(_parts(chosen, width))
            products, begin = [], 0
            for table in tables:
                product = torch.mm(table, parts[begin : begin + table.shape[1]])
                products.append(product.view(len(table), -1, len(chosen)).numpy())  # (rows, window, F)
                begin += table.shape[1]
            _maxima(*products, offsets, *places, first, *results)
        ctx.save_for_backward(*tables, weight, words, heads, tails, rows)
        return maxima

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *tables, weight, words, heads, tails, rows = (saved.numpy() for saved in ctx.saved_tensors)
        grads = _gradients(grad.contiguous().numpy(), rows, *tables, weight, words, heads, tails)
        return (*(torch.from_numpy(g) for g in grads), None, None, None, None)


table_convolution: Callable[..., Tensor] = _TableConvolution.apply
"""(vectors, head_position, tail_position, weight, bias, words, heads, tails, lengths) → (S·pieces, F) maxima by piece;
`lengths` counts the tokens of each piece of each sentence, its last column those that belong to none."""
