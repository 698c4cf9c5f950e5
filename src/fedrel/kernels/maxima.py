"""The way forward through the convolution of CNN and PCNN on the CPU, compiled (see convolution.py): of every piece of
a sentence and every filter the maximum, and where it stands.

A token's features are a sum of rows of one table: the product of the weights with each word of its window, and what
the distances of its window add. Filters come some at a time, as many as leave the table in a core's second cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fedrel.kernels.jit import compiled
from fedrel.kernels.matmul import lines, maxima_of_sums, multiply, stride

_CACHE = 3_000_000  # bytes that stay close to a core while they are worked on
_AT_ONCE = 80  # filters, or a multiple


@compiled
def fill_maxima(
    vectors: Any,  # (U, D or more) of the distinct words
    head_position: Any,  # (P, d)
    tail_position: Any,
    weight: Any,  # (F, window, D+2d or more)
    bias: Any,  # (F,)
    dimension: int,  # D
    words: Any,  # (T,) places among the distinct words
    heads: Any,  # (T,)
    tails: Any,
    lengths: Any,  # (S, pieces + 1)
    maxima: Any,  # (S·pieces, F or more) to fill
    places: Any,  # to fill as well: where each maximum stands, -1 in an empty piece; None: nobody asks
) -> None:
    filters, window = weight.shape[:2]
    distances, position = head_position.shape
    of_words = (len(vectors) + 1) * window
    rows, odd = _rows(words, heads, tails, of_words, distances, window)
    fitting = _CACHE // ((of_words + 2 * distances + len(odd)) * vectors.itemsize)
    at_once = max(fitting // _AT_ONCE, 1) * _AT_ONCE
    for first in range(0, filters, at_once):
        last = min(first + at_once, filters)
        apart = stride(last - first)
        word_parts, position_parts = _parts(weight[first:last], dimension, position)
        table = lines(of_words + 2 * distances + 1 + len(odd), apart, vectors)
        product = table[:of_words].reshape((-1, window * apart))
        multiply(vectors[:, :dimension], word_parts, product[: len(vectors)])
        product[len(vectors)] = 0  # what stands beyond both ends
        _position_shares(
            head_position, tail_position, position_parts, bias[first:last], heads, tails, odd, window, table[of_words:]
        )
        _maxima(table, rows * np.int32(apart), lengths, first, last, maxima, places)


@compiled
def _parts(weight: Any, dimension: int, position: int) -> Any:
    """(F, window, D+2d) → (D, window·G) for words and (2·window·d, G) for distances to the head, then to the tail:
    zeros follow the F filters.
    """
    filters, window = weight.shape[:2]
    apart = stride(filters)
    of_words, of_positions = lines(dimension, window * apart, weight), lines(2 * window * position, apart, weight)
    of_words[:], of_positions[:] = 0, 0
    for k in range(window):
        for f in range(filters):
            own = weight[f, k]
            for j in range(dimension):
                of_words[j, k * apart + f] = own[j]
            for j in range(position):
                of_positions[k * position + j, f] = own[dimension + j]
                of_positions[(window + k) * position + j, f] = own[dimension + position + j]
    return of_words, of_positions


@compiled
def _rows(words: Any, heads: Any, tails: Any, of_words: int, distances: int, window: int) -> Any:
    """(T, window + 2) of every token the rows of the table that make up its features, and the odd tokens. Along a
    sentence distances grow by one, so that one row has a whole window's; odd are those where they do not.
    """
    tokens, half = len(words), window // 2
    rows, odd = np.empty((tokens, window + 2), np.int32), np.empty(tokens, np.int32)
    count = 0
    for t in range(tokens):
        usual = (half <= heads[t] < distances - half) & (half <= tails[t] < distances - half)
        for k in range(window):
            near = t + k - half
            inside = 0 <= near < tokens
            rows[t, k] = words[near] * window + k if inside else of_words - window + k
            usual &= inside and heads[near] == heads[t] + k - half and tails[near] == tails[t] + k - half
        rows[t, window] = of_words + (heads[t] if usual else 2 * distances + 1 + count)
        rows[t, window + 1] = of_words + (distances + tails[t] if usual else 2 * distances)
        odd[count] = t
        count += not usual
    return rows, odd[:count]


@compiled
def _position_shares(
    head_position: Any,
    tail_position: Any,
    parts: Any,
    bias: Any,
    heads: Any,
    tails: Any,
    odd: Any,
    window: int,
    shares: Any,  # (P + P + 1 + odd, G) to fill
) -> None:
    """What distances add to the features: a window around each distance to the head (and the bias), to the tail;
    nothing; of each odd token both.
    """
    distances, position = head_position.shape
    half, whole, reach = window // 2, distances - window + 1, window * position
    if whole > 0:
        shape, strides = (whole, reach), head_position.strides
        to_heads, to_tails = shares[half : half + whole], shares[distances + half : distances + half + whole]
        multiply(as_strided(head_position, shape, strides), parts[:reach], to_heads)
        multiply(as_strided(tail_position, shape, strides), parts[reach:], to_tails)
    shares[2 * distances] = 0
    multiply(
        _odd_positions(head_position, tail_position, heads, tails, odd, window), parts, shares[2 * distances + 1 :]
    )
    for row in range(len(shares)):
        if row < distances or row > 2 * distances:
            for f in range(len(bias)):
                shares[row, f] += bias[f]


@compiled
def _odd_positions(head_position: Any, tail_position: Any, heads: Any, tails: Any, odd: Any, window: int) -> Any:
    """(odd, 2·window·d) of these tokens the vectors of all distances in their windows."""
    position = head_position.shape[1]
    found = np.zeros((len(odd), 2, window, position), head_position.dtype)
    for i in range(len(odd)):
        for k in range(window):
            near = odd[i] + k - window // 2
            if 0 <= near < len(heads):
                for j in range(position):
                    found[i, 0, k, j] = head_position[heads[near], j]
                    found[i, 1, k, j] = tail_position[tails[near], j]
    return found.reshape((len(odd), 2 * window * position))


@compiled
def _maxima(table: Any, rows: Any, lengths: Any, first: int, last: int, maxima: Any, places: Any) -> None:
    """Those of the filters from the first to before the last."""
    best, place = np.empty(table.shape[1], table.dtype), np.empty(table.shape[1], np.int32)
    piece, t = 0, 0
    for s in range(lengths.shape[0]):
        for p in range(lengths.shape[1] - 1):
            if lengths[s, p]:
                maxima_of_sums(table, rows, t, lengths[s, p], best, place)
            else:
                best[:], place[:] = 0, -1
            maxima[piece, first:last] = best[: last - first]
            if places is not None:
                places[piece, first:last] = place[: last - first]
            t += lengths[s, p]
            piece += 1
        t += lengths[s, -1]
