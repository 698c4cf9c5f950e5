"""The way back through the convolution of CNN and PCNN on the CPU, compiled. Of a piece and a filter only the maximum
has a gradient, so only the maxima are visited: once by filter, for the weights, and once by place, for the inputs.

Both times a window of inputs and a filter's weights are read or written as a whole: they are wide, which means that
what belongs to one token has whole cache lines to itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.compiled import compiled
from fedrel.extractors.products import STRIDE, add_rows_of, lines


@compiled
def gradients(
    grad: Any,  # (S·pieces, F or more)
    rows: Any,  # (S·pieces, F or more) where each maximum stands; -1 in an empty piece
    vectors: Any,  # (U, D) of the distinct words
    head_position: Any,  # (P, d)
    tail_position: Any,
    wide: Any,  # (F, window·step) the weights, wide
    words: Any,  # (T,) places among the distinct words
    heads: Any,  # (T,)
    tails: Any,
    lengths: Any,  # (S, pieces + 1)
    step: int,  # of a token's wide inputs
    to_vectors: Any,  # the gradients, to fill
    to_head: Any,
    to_tail: Any,
    to_wide: Any,
    to_bias: Any,
) -> None:
    half = wide.shape[1] // step // 2
    to_vectors[:], to_head[:], to_tail[:] = 0, 0, 0
    _to_inputs(grad, rows, wide, words, heads, tails, lengths, step, to_vectors, to_head, to_tail)
    to_head[0], to_tail[0] = 0, 0  # the separator's vector is zero for good
    inputs = _laid_out(vectors, head_position, tail_position, words, heads, tails, half, step)
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
    vectors: Any, head_position: Any, tail_position: Any, words: Any, heads: Any, tails: Any, half: int, step: int
) -> Any:
    """The inputs end to end, wide, and zeros before the first token and behind the last."""
    dimension, position = vectors.shape[1], head_position.shape[1]
    inputs = lines(len(words) + 2 * half, step, vectors)
    inputs[:half], inputs[len(inputs) - half :] = 0, 0
    for t in range(len(words)):
        here, word, head, tail = inputs[half + t], vectors[words[t]], head_position[heads[t]], tail_position[tails[t]]
        for j in range(dimension):
            here[j] = word[j]
        for j in range(position):
            here[dimension + j] = head[j]
            here[dimension + position + j] = tail[j]
        for j in range(dimension + 2 * position, step):
            here[j] = 0
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
    step: int,
    to_vectors: Any,
    to_head: Any,
    to_tail: Any,
) -> None:
    """Sentence by sentence, whose sums stay in a core's first cache: of each place, the weights of its maxima."""
    tokens, reach, pieces = len(words), wide.shape[1], lengths.shape[1] - 1
    beyond = reach // step - 1  # tokens that belong to the windows of other places too
    half, flat = beyond // 2, wide.reshape(wide.size)
    longest = 0
    for s in range(len(lengths)):
        longest = max(longest, lengths[s].sum())
    room, ends = lines(longest + beyond, step, grad), np.empty(longest + 1, np.int32)
    sums = room.reshape(room.size)
    maxima = _room_for(pieces * len(wide) + 1, grad), _room_for(pieces * len(wide) + 1, grad)
    first = 0
    for s in range(len(lengths)):
        count = lengths[s].sum()
        own = slice(s * pieces, (s + 1) * pieces)
        starts, sizes = _by_place(grad[own], rows[own], first, len(wide), reach, ends[: count + 1], maxima)
        sums[: (count + beyond) * step] = 0
        begin = 0
        for t in range(count):
            if begin < ends[t]:
                add_rows_of(flat, starts[begin : ends[t]], sizes[begin : ends[t]], sums[t * step : t * step + reach])
            begin = ends[t]
        for t in range(max(first - half, 0), min(first + count + beyond - half, tokens)):
            here = sums[(t - first + half) * step : (t - first + half + 1) * step]
            _add_parts(here, to_vectors[words[t]], to_head[heads[t]], to_tail[tails[t]])
        first += count


@compiled
def _room_for(count: int, like: Any) -> Any:
    """For so many maxima: where they stand, where their weights start, how large they are."""
    return np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, like.dtype)


@compiled
def _by_place(grad: Any, rows: Any, first: int, filters: int, reach: int, ends: Any, maxima: Any) -> Any:
    """A sentence's maxima sorted by where they stand: of each the start of its weights and its size; and `ends` of each
    place's, counted from the sentence's first.
    """
    (place, start, size), (_, starts, sizes) = maxima
    count = np.uint64(0)  # unsigned, or every index would be looked at twice
    for piece in range(len(grad)):
        own, row = grad[piece], rows[piece]
        for f in range(filters):  # without a branch, which dropout would make a toss of a coin
            place[count], start[count], size[count] = row[f] - first, f * reach, own[f]
            count += np.uint64((own[f] != 0) & (row[f] >= 0))
    ends[:] = 0  # first counts, then where a place's maxima begin
    for i in range(count):
        ends[place[i] + 1] += 1
    for t in range(len(ends) - 1):
        ends[t + 1] += ends[t]
    for i in range(count):
        end = ends[place[i]]
        starts[end], sizes[end] = start[i], size[i]
        ends[place[i]] = end + 1
    return starts, sizes


@compiled
def _add_parts(here: Any, word: Any, head: Any, tail: Any) -> None:
    dimension, position = len(word), len(head)
    for j in range(dimension):
        word[j] += here[j]
    for j in range(position):
        head[j] += here[dimension + j]
        tail[j] += here[dimension + position + j]


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
