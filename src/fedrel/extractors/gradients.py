"""The way back through the convolution of CNN and PCNN on the CPU, compiled. Of a piece and a filter only the maximum
has a gradient, so only the maxima are visited: once by filter, for the weights, and once by place, for the inputs.

Both times a window of inputs and a filter's weights are read or written as a whole. Every token therefore has whole
cache lines to itself (`STRIDE` numbers are a multiple of one), and four maxima are added up at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.compiled import compiled

STRIDE = 16
_PLACES = 32  # whose sums stay in a core's first cache


@compiled
def stride(width: int) -> int:
    """So many numbers apart, things so wide each begin a cache line."""
    return -(-width // STRIDE) * STRIDE


def room(tokens: int, width: int, window: int, filters: int) -> int:
    """How many numbers `gradients` needs to work with."""
    of_a_token: int = stride(width)
    return (tokens + window - 1 + filters * window) * of_a_token


@compiled
def gradients(
    grad: Any,  # (S·pieces, F)
    rows: Any,  # (S·pieces, F) where each maximum stands; -1 in an empty piece
    vectors: Any,  # (U, D) of the distinct words
    head_position: Any,  # (P, d)
    tail_position: Any,
    weight: Any,  # (F, window·(D+2d))
    words: Any,  # (T,) places among the distinct words
    heads: Any,  # (T,)
    tails: Any,
    space: Any,  # as much as `room` says, aligned to cache lines
    to_vectors: Any,  # the gradients, to fill
    to_head: Any,
    to_tail: Any,
    to_weight: Any,
    to_bias: Any,
) -> None:
    width = vectors.shape[1] + 2 * head_position.shape[1]
    window, step = weight.shape[1] // width, stride(width)
    size = (len(words) + window - 1) * step
    inputs = space[:size]
    wide = space[size : size + len(weight) * window * step].reshape((len(weight), window * step))
    to_vectors[:], to_head[:], to_tail[:] = 0, 0, 0
    _widen(weight, wide, width, step)
    _to_inputs(grad, rows, wide, words, heads, tails, step, to_vectors, to_head, to_tail)
    to_head[0], to_tail[0] = 0, 0  # the separator's vector is zero for good
    _lay_out(vectors, head_position, tail_position, words, heads, tails, inputs, step)
    _to_weight(grad, rows, inputs, wide, to_bias, step)  # which are no longer needed
    _narrow(wide, to_weight, width, step)


@compiled
def _lay_out(
    vectors: Any, head_position: Any, tail_position: Any, words: Any, heads: Any, tails: Any, inputs: Any, step: int
) -> None:
    dimension, position = vectors.shape[1], head_position.shape[1]
    half = (len(inputs) // step - len(words)) // 2 * step
    inputs[:half] = 0  # before the first token, and behind the last
    inputs[len(inputs) - half :] = 0
    for t in range(len(words)):
        here = inputs[half + t * step : half + (t + 1) * step]
        word, head, tail = vectors[words[t]], head_position[heads[t]], tail_position[tails[t]]
        for j in range(dimension):
            here[j] = word[j]
        for j in range(position):
            here[dimension + j] = head[j]
            here[dimension + position + j] = tail[j]
        for j in range(dimension + 2 * position, step):
            here[j] = 0


@compiled
def _widen(weight: Any, wide: Any, width: int, step: int) -> None:
    to, source = wide.reshape((-1, step)), weight.reshape((-1, width))  # a row for each place of each filter's window
    for row in range(len(to)):
        for j in range(width):
            to[row, j] = source[row, j]
        for j in range(width, step):
            to[row, j] = 0


@compiled
def _narrow(wide: Any, narrow: Any, width: int, step: int) -> None:
    to, source = narrow.reshape((-1, width)), wide.reshape((-1, step))
    for row in range(len(to)):
        for j in range(width):
            to[row, j] = source[row, j]


@compiled
def _add_four(to: Any, rows: Any, starts: Any, sizes: Any, i: int) -> None:
    """to += the sum of four rows, each times its size: it stays in registers."""
    reach = len(to)
    a, b = rows[starts[i] : starts[i] + reach], rows[starts[i + 1] : starts[i + 1] + reach]
    c, d = rows[starts[i + 2] : starts[i + 2] + reach], rows[starts[i + 3] : starts[i + 3] + reach]
    r, s, t, u = sizes[i], sizes[i + 1], sizes[i + 2], sizes[i + 3]
    for j in range(reach):
        to[j] += (r * a[j] + s * b[j]) + (t * c[j] + u * d[j])


@compiled
def _by_place(grad: Any, rows: Any, tokens: int, reach: int) -> Any:
    """The maxima sorted by where they stand: where each place's end, and of each the start of its weights, its size."""
    pieces, filters = grad.shape
    most = grad.size + 1
    place, start, size = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, grad.dtype)
    count = np.uint64(0)  # unsigned, or every index would be looked at twice
    for piece in range(pieces):
        own, row = grad[piece], rows[piece]
        for f in range(filters):  # without a branch, which dropout would make a toss of a coin
            place[count], start[count], size[count] = row[f], f * reach, own[f]
            count += np.uint64((own[f] != 0) & (row[f] >= 0))
    ends = np.zeros(tokens + 1, np.int32)  # first counts, then where a place's maxima begin
    for i in range(count):
        ends[place[i] + 1] += 1
    for t in range(tokens):
        ends[t + 1] += ends[t]
    starts, sizes = np.empty(count, np.int32), np.empty(count, grad.dtype)
    for i in range(count):
        end = ends[place[i]]
        starts[end], sizes[end] = start[i], size[i]
        ends[place[i]] = end + 1
    return ends, starts, sizes


@compiled
def _to_inputs(
    grad: Any,
    rows: Any,
    wide: Any,
    words: Any,
    heads: Any,
    tails: Any,
    step: int,
    to_vectors: Any,
    to_head: Any,
    to_tail: Any,
) -> None:
    """By place: each place's weights added up, a few places at a time, so that the sums stay at hand."""
    reach, tokens = wide.shape[1], len(words)
    ends, starts, sizes = _by_place(grad, rows, tokens, reach)
    beyond = reach // step - 1  # tokens that belong to the windows of the next places too
    half = beyond // 2
    sums = np.zeros((_PLACES + beyond) * step, grad.dtype)
    flat = wide.reshape(wide.size)
    i = 0
    for first in range(0, tokens + half, _PLACES):
        for t in range(first, min(first + _PLACES, tokens)):
            to_window = sums[(t - first) * step : (t - first) * step + reach]
            while i + 4 <= ends[t]:
                _add_four(to_window, flat, starts, sizes, i)
                i += 4
            while i < ends[t]:
                own, size = flat[starts[i] : starts[i] + reach], sizes[i]
                for j in range(reach):
                    to_window[j] += size * own[j]
                i += 1
        known = max(first - half, 0), min(first + _PLACES - half, tokens)  # whose sums are complete
        _to_tables(
            sums[(known[0] - first + half) * step :], known, words, heads, tails, step, to_vectors, to_head, to_tail
        )
        sums[: beyond * step] = sums[_PLACES * step :]
        sums[beyond * step :] = 0


@compiled
def _to_tables(
    sums: Any, known: Any, words: Any, heads: Any, tails: Any, step: int, to_vectors: Any, to_head: Any, to_tail: Any
) -> None:
    dimension, position = to_vectors.shape[1], to_head.shape[1]
    for t in range(known[0], known[1]):
        here = sums[(t - known[0]) * step : (t - known[0] + 1) * step]
        word, head, tail = to_vectors[words[t]], to_head[heads[t]], to_tail[tails[t]]
        for j in range(dimension):
            word[j] += here[j]
        for j in range(position):
            head[j] += here[dimension + j]
            tail[j] += here[dimension + position + j]


@compiled
def _to_weight(grad: Any, rows: Any, inputs: Any, to_wide: Any, to_bias: Any, step: int) -> None:
    """By filter: the windows in which it found its maxima, added up."""
    pieces, filters = grad.shape
    starts, sizes = np.zeros(pieces + 4, np.int32), np.zeros(pieces + 4, grad.dtype)
    for f in range(filters):
        count = np.uint64(0)
        for piece in range(pieces):
            starts[count], sizes[count] = rows[piece, f] * step, grad[piece, f]
            count += np.uint64((grad[piece, f] != 0) & (rows[piece, f] >= 0))
        starts[count : count + 3], sizes[count : count + 3] = 0, 0
        to_bias[f] = sizes[:count].sum()
        own = to_wide[f]
        own[:] = 0
        for i in range(0, count, 4):
            _add_four(own, inputs, starts, sizes, i)
