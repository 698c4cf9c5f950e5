"""The convolution of CNN and PCNN with its max-pooling on the CPU, forward and backward, compiled.

A convolution over word vectors is a sum of table look-ups. Its weights times each *distinct* word of the batch is one
small matrix product (a word of ordinary text stands in a batch more than twice); a token's features are then sums of
rows of one table: the products of the words in its window, and what the distances in its window add. The features are
never written down, only their maxima.

S sentences, T tokens, U distinct words, F filters; D, d and P: dimensions of words and positions, distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fedrel.kernels.jit import compiled
from fedrel.kernels.layout import STRIDE, aligned, stride
from fedrel.kernels.matmul import multiply
from fedrel.kernels.row_maxima import maxima_of_sums
from fedrel.kernels.row_sums import gather_rows, scatter_rows

_CACHE = 3_000_000  # bytes that stay close to a core while they are worked on
_AT_ONCE = 80  # filters, or a multiple


@compiled
def convolve(
    vectors: Any,  # (U, D or more) of the distinct words
    head_position: Any,  # (P, d)
    tail_position: Any,  # (P, d)
    weight: Any,  # (F, window, D+2d or more)
    bias: Any,  # (F,)
    dimension: int,  # D
    words: Any,  # (T,) places among the distinct words
    heads: Any,  # (T,) rows of head_position
    tails: Any,  # (T,) rows of tail_position
    lengths: Any,  # (S, pieces + 1) tokens of each piece of each sentence, and those that belong to none
    maxima: Any,  # (S·pieces, F or more) to fill; 0 in an empty piece
    places: Any,  # like maxima, int32, to fill: the token of each maximum, -1 in an empty piece; None: not wanted
) -> None:
    """Forward: of every piece of a sentence and every filter the maximum, before the activation.

    Filters come some at a time, as many as leave the table of products in a core's second cache.
    """
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
        table = aligned(of_words + 2 * distances + 1 + len(odd), apart, vectors)
        product = table[:of_words].reshape((-1, window * apart))
        multiply(vectors[:, :dimension], word_parts, product[: len(vectors)])
        product[len(vectors)] = 0  # beyond both ends
        _position_shares(
            head_position, tail_position, position_parts, bias[first:last], heads, tails, odd, window, table[of_words:]
        )
        _maxima(table, rows * np.int32(apart), lengths, first, last, maxima, places)


@compiled
def _parts(weight: Any, dimension: int, position: int) -> Any:
    """(F, window, D+2d) → (D, window·G) for words and (2·window·d, G) for distances to the head, then to the tail; G is
    F padded.
    """
    filters, window = weight.shape[:2]
    apart = stride(filters)
    of_words, of_positions = aligned(dimension, window * apart, weight), aligned(2 * window * position, apart, weight)
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
    """(T, window + 2) the rows of the table that add up to each token's features, and the odd tokens. Along a sentence
    distances grow by one, so that one row has a whole window's; odd are the tokens in whose window they do not.
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
    """The rows of the table that distances add to the features: for a window around each distance to the head (with the
    bias), around each distance to the tail, a row of zeros, and of each odd token both.
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
    """(odd, 2·window·d) the vectors of all distances in the windows of these tokens."""
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
    """Fills the columns first … last-1 of `maxima` and `places` from the table (rows, G)."""
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


@compiled
def convolve_backward(
    grad: Any,  # (S·pieces, F or more) of the maxima
    rows: Any,  # (S·pieces, F or more) `places` of the forward pass
    vectors: Any,  # (U, step) of the distinct words, padded
    head_position: Any,  # (P, d)
    tail_position: Any,  # (P, d)
    weight: Any,  # (F, window·step) padded
    words: Any,  # (T,) as in the forward pass
    heads: Any,  # (T,)
    tails: Any,  # (T,)
    lengths: Any,  # (S, pieces + 1)
    dimension: int,  # D
    to_vectors: Any,  # the gradients, to fill, each like its own; what follows a word's D numbers means nothing
    to_head: Any,
    to_tail: Any,
    to_weight: Any,
    to_bias: Any,
) -> None:
    """Backward. Of a piece and a filter only the maximum has a gradient, so only the maxima are visited: by place for
    the inputs, by filter for the weights.
    """
    step = vectors.shape[1]
    half = weight.shape[1] // step // 2
    to_vectors[:], to_head[:], to_tail[:] = 0, 0, 0
    _to_inputs(grad, rows, weight, words, heads, tails, lengths, dimension, to_vectors, to_head, to_tail)
    to_head[0], to_tail[0] = 0, 0  # the separator's vector is zero for good
    inputs = laid_out(vectors, head_position, tail_position, words, heads, tails, half, dimension)
    gather_to_weight(grad, rows, inputs, to_weight, to_bias, step)


@compiled
def laid_out(
    vectors: Any, head_position: Any, tail_position: Any, words: Any, heads: Any, tails: Any, half: int, dimension: int
) -> Any:
    """((T + window - 1)·step,) the padded inputs end to end, zeros before the first token and behind the last."""
    step, position = vectors.shape[1], head_position.shape[1]
    inputs = aligned(len(words) + 2 * half, step, vectors)
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
    weight: Any,
    words: Any,
    heads: Any,
    tails: Any,
    lengths: Any,
    dimension: int,
    to_vectors: Any,
    to_head: Any,
    to_tail: Any,
) -> None:
    """Adds the weights of each maximum to the inputs in its window, sentence by sentence: the sums of one sentence stay
    in a core's first cache.
    """
    step, pieces = to_vectors.shape[1], lengths.shape[1] - 1
    sums, places, starts, sizes = sentence_buffers(grad, weight, lengths, step)
    flat, first = weight.reshape(weight.size), 0
    for s in range(len(lengths)):
        length = lengths[s].sum()
        own = slice(s * pieces, (s + 1) * pieces)
        begin, low, high = sentence_sums(
            grad[own], rows[own], flat, len(weight), step, first, length, len(words), sums, places, starts, sizes
        )
        to_tables(
            sums[begin:], words[low:high], heads[low:high], tails[low:high], dimension, to_vectors, to_head, to_tail
        )
        first += length


@compiled
def sentence_buffers(grad: Any, weight: Any, lengths: Any, step: int) -> Any:
    """What `sentence_sums` works in, large enough for every sentence."""
    beyond, longest = weight.shape[1] // step - 1, 0
    for s in range(len(lengths)):
        longest = max(longest, lengths[s].sum())
    buffer = aligned(longest + beyond, step, grad)
    most = (lengths.shape[1] - 1) * len(weight) + 1
    return buffer.reshape(buffer.size), np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, grad.dtype)


@compiled
def sentence_sums(
    grad: Any,  # (pieces, F or more) of one sentence
    rows: Any,
    flat: Any,  # all of the padded weight
    filters: int,
    step: int,
    first: int,  # where its tokens begin
    length: int,
    tokens: int,  # of all sentences
    sums: Any,  # buffers
    places: Any,
    starts: Any,
    sizes: Any,
) -> Any:
    """Adds up the weights of one sentence's maxima by the inputs in their windows: sums[begin:] are the gradients of
    the tokens from `low` to `high`. Returns these three.
    """
    reach = len(flat) // filters
    beyond = reach // step - 1  # tokens that belong to the windows of other places too
    half = beyond // 2
    sums[: (length + beyond) * step] = 0
    count = np.uint64(0)  # unsigned, or every index would be looked at twice
    for piece in range(len(grad)):
        own, row = grad[piece], rows[piece]
        for f in range(filters):  # without a branch, which dropout would make unpredictable
            places[count], starts[count], sizes[count] = (row[f] - first) * step, f * reach, own[f]
            count += np.uint64((own[f] != 0) & (row[f] >= 0))
    scatter_rows(sums, places[:count], flat, starts[:count], sizes[:count], reach)
    low, high = max(first - half, 0), min(first + length + beyond - half, tokens)
    return (low - first + half) * step, low, high


@compiled
def to_tables(
    sums: Any, words: Any, heads: Any, tails: Any, dimension: int, to_vectors: Any, to_head: Any, to_tail: Any
) -> None:
    """Adds the gradients of neighbouring inputs (tokens·step,) to the rows of the tables that they came from."""
    step, position = to_vectors.shape[1], to_head.shape[1]
    ones = np.ones(len(words), sums.dtype)
    starts, places = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    for t in range(len(words)):
        starts[t], places[t] = t * step, words[t] * step
    scatter_rows(to_vectors.reshape(to_vectors.size), places, sums, starts, ones, step)
    for t in range(len(words)):
        here = t * step + dimension
        for j in range(position):
            to_head[heads[t], j] += sums[here + j]
            to_tail[tails[t], j] += sums[here + position + j]


@compiled
def gather_to_weight(grad: Any, rows: Any, inputs: Any, to_weight: Any, to_bias: Any, step: int) -> None:
    """Adds up the windows in which each filter found its maxima. Maxima of neighbouring filters lie side by side, so
    those of a whole cache line are brought together at a time.
    """
    starts, sizes = np.empty((STRIDE, len(grad) + 1), np.int32), np.empty((STRIDE, len(grad) + 1), grad.dtype)
    counts = np.empty(STRIDE, np.uint32)
    for first in range(0, len(to_weight), STRIDE):
        last = min(first + STRIDE, len(to_weight))
        counts[:] = 0
        for piece in range(len(grad)):
            own, row = grad[piece, first:last], rows[piece, first:last]
            for f in range(len(own)):
                count = counts[f]
                starts[f, count], sizes[f, count] = row[f] * step, own[f]
                counts[f] = count + np.uint32((own[f] != 0) & (row[f] >= 0))
        for f in range(last - first):
            to, size = to_weight[first + f], sizes[f, : counts[f]]
            to[:] = 0
            gather_rows(inputs, starts[f, : counts[f]], size, to)
            total = grad.dtype.type(0)
            for i in range(len(size)):
                total += size[i]
            to_bias[first + f] = total
