"""The way back through the convolution of CNN and PCNN on the CPU, compiled. Of a piece and a filter only the maximum
has a gradient, so only the maxima are visited: once by filter, for the weights, and once by place, for the inputs.

Both times a window of inputs and a filter's weights are read or written as a whole: they are wide, which means that
what belongs to one token has whole cache lines to itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.kernels.jit import compiled
from fedrel.kernels.matmul import STRIDE, add_rows_of, add_rows_to, lines


@compiled
def gradients(
    grad: Any,  # (S·pieces, F or more)
    rows: Any,  # (S·pieces, F or more) where each maximum stands; -1 in an empty piece
    vectors: Any,  # (U, step) of the distinct words, wide
    head_position: Any,  # (P, d)
    tail_position: Any,
    wide: Any,  # (F, window·step) the weights, wide
    words: Any,  # (T,) places among the distinct words
    heads: Any,  # (T,)
    tails: Any,
    lengths: Any,  # (S, pieces + 1)
    dimension: int,  # of words
    to_vectors: Any,  # the gradients, to fill: wide (what follows the word's own says nothing)
    to_head: Any,
    to_tail: Any,
    to_wide: Any,
    to_bias: Any,
) -> None:
    step = vectors.shape[1]
    half = wide.shape[1] // step // 2
    to_vectors[:], to_head[:], to_tail[:] = 0, 0, 0
    _to_inputs(grad, rows, wide, words, heads, tails, lengths, dimension, to_vectors, to_head, to_tail)
    to_head[0], to_tail[0] = 0, 0  # the separator's vector is zero for good
    inputs = _laid_out(vectors, head_position, tail_position, words, heads, tails, half, dimension)
    _to_weight(grad, rows, inputs, to_wide, to_bias, step)


@compiled
def widen(weight: Any, wide: Any, step: int) -> None:
    """(F, window·width) → (F, window·step): zeros follow what belongs to each token."""
    window = wide.shape[1] // step
    width = weight.shape[1] // window
    for f in range(len(weight)):
        for k in range(window):
            to, source = wide[f, k * step : (k + 1) * step], weight[f, k * width : (k + 1) * width]
            to[:width] = source
            to[width:] = 0


@compiled
def narrow(wide: Any, weight: Any, step: int) -> None:
    """And back."""
    window = wide.shape[1] // step
    width = weight.shape[1] // window
    for f in range(len(weight)):
        for k in range(window):
            weight[f, k * width : (k + 1) * width] = wide[f, k * step : k * step + width]


@compiled
def _laid_out(
    vectors: Any, head_position: Any, tail_position: Any, words: Any, heads: Any, tails: Any, half: int, dimension: int
) -> Any:
    """The inputs end to end, wide, and zeros before the first token and behind the last."""
    step, position = vectors.shape[1], head_position.shape[1]
    inputs = lines(len(words) + 2 * half, step, vectors)
    inputs[:half], inputs[len(inputs) - half :] = 0, 0
    for t in range(len(words)):
        here, word = inputs[half + t], vectors[words[t]]
        for j in range(step):
            here[j] = word[j]
        for j in range(position):
            here[dimension + j] = head_position[heads[t], j]
            here[dimension + position + j] = tail_position[tails[t], j]
    return inputs.reshape(inputs.size)


@compiled
def _to_inputs(
    grad: Any,
    rows: Any,
    wide: Any,
    words: Any,
    heads: Any,
    tails: Any,
    lengths: Any,
    dimension: int,
    to_vectors: Any,
    to_head: Any,
    to_tail: Any,
) -> None:
    """Sentence by sentence, whose sums stay in a core's first cache: to the place of each maximum, its weights."""
    tokens, reach, step, pieces = len(words), wide.shape[1], to_vectors.shape[1], lengths.shape[1] - 1
    beyond = reach // step - 1  # tokens that belong to the windows of other places too
    half, flat = beyond // 2, wide.reshape(wide.size)
    longest = 0
    for s in range(len(lengths)):
        longest = max(longest, lengths[s].sum())
    room = lines(longest + beyond, step, grad)
    sums, most = room.reshape(room.size), pieces * len(wide) + 1
    places, starts, sizes = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, grad.dtype)
    first = 0
    for s in range(len(lengths)):
        length = lengths[s].sum()
        sums[: (length + beyond) * step] = 0
        count = np.uint64(0)  # unsigned, or every index would be looked at twice
        for piece in range(s * pieces, (s + 1) * pieces):
            own, row = grad[piece], rows[piece]
            for f in range(len(wide)):  # without a branch, which dropout would make a toss of a coin
                places[count], starts[count], sizes[count] = (row[f] - first) * step, f * reach, own[f]
                count += np.uint64((own[f] != 0) & (row[f] >= 0))
        add_rows_to(sums, places[:count], flat, starts[:count], sizes[:count], reach)
        known = max(first - half, 0), min(first + length + beyond - half, tokens)
        _to_tables(
            sums[(known[0] - first + half) * step :],
            words[known[0] : known[1]],
            heads[known[0] : known[1]],
            tails[known[0] : known[1]],
            dimension,
            to_vectors,
            to_head,
            to_tail,
        )
        first += length


@compiled
def _to_tables(
    sums: Any, words: Any, heads: Any, tails: Any, dimension: int, to_vectors: Any, to_head: Any, to_tail: Any
) -> None:
    step, position = to_vectors.shape[1], to_head.shape[1]
    ones = np.ones(len(words), sums.dtype)
    starts, places = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    for t in range(len(words)):
        starts[t], places[t] = t * step, words[t] * step
    add_rows_to(to_vectors.reshape(to_vectors.size), places, sums, starts, ones, step)
    for t in range(len(words)):
        here = t * step + dimension
        for j in range(position):
            to_head[heads[t], j] += sums[here + j]
            to_tail[tails[t], j] += sums[here + position + j]


@compiled
def _to_weight(grad: Any, rows: Any, inputs: Any, to_wide: Any, to_bias: Any, step: int) -> None:
    """By filter: the windows in which it found its maxima, added up. Maxima lie side by side by filter, so those of a
    whole cache line are brought together at a time.
    """
    starts, sizes = np.empty((STRIDE, len(grad) + 1), np.int32), np.empty((STRIDE, len(grad) + 1), grad.dtype)
    counts = np.empty(STRIDE, np.uint32)
    for first in range(0, len(to_wide), STRIDE):
        last = min(first + STRIDE, len(to_wide))
        counts[:] = 0
        for piece in range(len(grad)):
            own, row = grad[piece, first:last], rows[piece, first:last]
            for f in range(len(own)):
                count = counts[f]
                starts[f, count], sizes[f, count] = row[f] * step, own[f]
                counts[f] = count + np.uint32((own[f] != 0) & (row[f] >= 0))
        for f in range(last - first):
            to, size = to_wide[first + f], sizes[f, : counts[f]]
            to[:] = 0
            add_rows_of(inputs, starts[f, : counts[f]], size, to)
            total = grad.dtype.type(0)
            for i in range(len(size)):
                total += size[i]
            to_bias[first + f] = total
