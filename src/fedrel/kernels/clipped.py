"""The gradient of a training step in which no sentence counts for more than a length, compiled.

A sentence's gradient is never written down. With e its error in the logits, h what the classifier sees, δ_fp the
gradient of filter f's maximum in piece p, x_fp the window in which that was found and g_w what its tokens hand to the
row w of a table, the square of its length is

    |e|²·|h|² + |e|² + Σ_f |Σ_p δ_fp·x_fp|² + Σ_f (Σ_p δ_fp)² + Σ_w |g_w|²

(without the second term where the classifier has no bias, and without words in the last where they are frozen). δ, e
and g are then scaled, and everything else is as in a plain step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.kernels.activations import activate_backward
from fedrel.kernels.classifier import backward, errors
from fedrel.kernels.convolution import gather_to_weight, laid_out, sentence_buffers, sentence_sums, to_tables
from fedrel.kernels.jit import compiled
from fedrel.kernels.layout import aligned, pad, stride, unpad
from fedrel.kernels.matmul import multiply
from fedrel.kernels.step import forward, padded_weights, unpad_weights


@compiled
def clipped_gradient(
    seen: Any,  # Buffers, as `read` left them
    sentences: int,
    tokens: int,
    vectors: Any,  # (U, D) of the distinct words
    weights: Any,  # Weights
    is_tanh: bool,  # or else relu
    dropout: Any,  # Dropout
    key: Any,  # of this step's draws
    clip: float,  # length of a sentence's gradient, at most
    trains_words: bool,
    to_vectors: Any,  # the sums of gradients, to fill, each like its own
    to: Any,
    lengths_found: Any,  # (S,) to fill: of every sentence's gradient, before it is clipped
) -> Any:
    """The sum of the sentences' clipped gradients; returns the mean loss."""
    distinct, dimension = vectors.shape
    width = dimension + 2 * weights.head_position.shape[1]
    padded, to_padded = padded_weights(weights, width), padded_weights(to, width)
    step = stride(width)
    rows_of_words, to_words = aligned(distinct, step, vectors), aligned(distinct, step, vectors)
    pad(vectors, rows_of_words, step)
    words, heads, tails = seen.words[:tokens], seen.heads[:tokens], seen.tails[:tokens]
    lengths, labels = seen.lengths[:sentences], seen.labels[:sentences]
    pooled, scales, rows = forward(seen, sentences, tokens, rows_of_words, padded, dimension, is_tanh, dropout, key)
    loss, shown, to_logits = errors(pooled, scales, padded.classifier, padded.classifier_bias, labels)
    for c in range(len(to_logits)):
        for s in range(sentences):
            to_logits[c, s] *= sentences  # of each by itself, not of their mean
    grad = aligned(sentences, padded.classifier.shape[1], vectors)
    multiply(to_logits.T, padded.classifier, grad)
    activate_backward(grad.reshape(grad.size), pooled.reshape(grad.size), scales.reshape(grad.size), is_tanh)
    by_piece = grad.reshape(rows.shape)
    half = padded.convolution.shape[1] // step // 2
    tables = padded.head_position, padded.tail_position
    inputs = laid_out(rows_of_words, tables[0], tables[1], words, heads, tails, half, dimension)
    _squares(
        to_logits,
        shown,
        len(padded.classifier_bias) > 0,
        by_piece,
        rows,
        inputs,
        padded.convolution,
        step,
        lengths_found,
    )
    _clip(
        by_piece,
        rows,
        to_logits,
        padded.convolution,
        seen.found,
        words,
        heads,
        tails,
        lengths,
        dimension,
        clip,
        trains_words,
        lengths_found,
        to_words,
        to_padded.head_position,
        to_padded.tail_position,
    )
    backward(to_logits, shown, to_padded.classifier, to_padded.classifier_bias)
    gather_to_weight(by_piece, rows, inputs, to_padded.convolution, to_padded.bias, step)
    unpad(to_words, to_vectors, step)
    unpad_weights(to_padded, to, width)
    return loss


@compiled
def _squares(
    to_logits: Any, shown: Any, biased: bool, grad: Any, rows: Any, inputs: Any, weight: Any, step: int, squares: Any
) -> None:
    """Fills (S,) with the squared lengths of the gradients of all weights that are no tables."""
    sentences, reach = len(squares), weight.shape[1]
    pieces = len(grad) // sentences
    window, whole = np.empty(reach, grad.dtype), np.empty(reach, grad.dtype)
    for s in range(sentences):
        error, length, biases = 0.0, 1.0 if biased else 0.0, 0.0
        for c in range(len(to_logits)):
            error += to_logits[c, s] * to_logits[c, s]
        for j in range(shown.shape[1]):
            length += shown[s, j] * shown[s, j]
        whole[:] = 0
        for f in range(len(weight)):
            total = 0.0
            window[:] = 0
            for piece in range(s * pieces, (s + 1) * pieces):
                size, row = grad[piece, f], rows[piece, f]
                if size != 0 and row >= 0:
                    total += size
                    here = inputs[row * step : row * step + reach]
                    for j in range(reach):
                        window[j] += size * here[j]
            biases += total * total
            for j in range(reach):
                whole[j] += window[j] * window[j]
        squares[s] = error * length + whole.sum() + biases


@compiled
def _clip(
    grad: Any,
    rows: Any,
    to_logits: Any,
    weight: Any,
    found: Any,
    words: Any,
    heads: Any,
    tails: Any,
    lengths: Any,
    dimension: int,
    clip: float,
    trains_words: bool,
    squares: Any,
    to_vectors: Any,
    to_head: Any,
    to_tail: Any,
) -> None:
    """Adds what tables get to the squares, which become lengths; scales `grad` and `to_logits` in place, and fills the
    gradients of the tables.
    """
    step, pieces, kind = to_vectors.shape[1], lengths.shape[1] - 1, grad.dtype.type
    sums, places, starts, sizes = sentence_buffers(grad, weight, lengths, step)
    flat, first = weight.reshape(weight.size), 0
    to_vectors[:], to_head[:], to_tail[:] = 0, 0, 0
    own_vectors, own_head, own_tail = np.zeros_like(to_vectors), np.zeros_like(to_head), np.zeros_like(to_tail)
    for s in range(len(lengths)):
        length = lengths[s].sum()
        own = slice(s * pieces, (s + 1) * pieces)
        begin, low, high = sentence_sums(
            grad[own], rows[own], flat, len(weight), step, first, length, len(words), sums, places, starts, sizes
        )
        here = words[low:high], heads[low:high], tails[low:high]
        to_tables(sums[begin:], here[0], here[1], here[2], dimension, own_vectors, own_head, own_tail)
        square = float(squares[s])
        for t in range(low, high):  # rows that are named again are cleared, and count once
            if trains_words and found[words[t]] != 0:
                square += _taken(own_vectors[words[t], :dimension])
            square += _taken(own_head[heads[t]]) if heads[t] else 0.0
            square += _taken(own_tail[tails[t]]) if tails[t] else 0.0
        for t in range(low, high):
            own_vectors[words[t]], own_head[heads[t]], own_tail[tails[t]] = 0, 0, 0
        size = np.sqrt(square)
        squares[s] = size
        share = kind(1) if size <= clip else kind(clip / size)  # NaN stays
        for c in range(len(to_logits)):
            to_logits[c, s] *= share
        for piece in range(s * pieces, (s + 1) * pieces):
            for f in range(len(weight)):
                grad[piece, f] *= share
        mine = sums[begin : begin + (high - low) * step]
        for j in range(len(mine)):
            mine[j] *= share
        to_tables(mine, here[0], here[1], here[2], dimension, to_vectors, to_head, to_tail)
        first += length
    to_head[0], to_tail[0] = 0, 0  # the separator's vector is zero for good


@compiled
def _taken(row: Any) -> float:
    """The sum of its squares, and zeros in its place."""
    found = 0.0
    for j in range(len(row)):
        found += row[j] * row[j]
        row[j] = 0
    return found
