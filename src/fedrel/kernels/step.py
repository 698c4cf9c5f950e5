"""Whole training steps, compiled: text read, a convolution and a classifier forward and backward, weights moved.

One call makes many steps and lets other threads run meanwhile. learning/compiled_step.py says what it is used for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedrel.kernels.activations import activate, activate_backward
from fedrel.kernels.classifier import classify
from fedrel.kernels.convolution import convolve, convolve_backward
from fedrel.kernels.descent import move
from fedrel.kernels.dropout import draw_scales
from fedrel.kernels.embedding import add_to_rows, take_rows
from fedrel.kernels.jit import compiled
from fedrel.kernels.layout import aligned, pad, stride, unpad


class Text(NamedTuple):
    """The sentences of a whole shard."""

    tokens: Any  # (all tokens,)
    heads: Any  # (all tokens,) distances to the head
    tails: Any  # (all tokens,)
    starts: Any  # (sentences + 1,) where the tokens of each begin
    lengths: Any  # (sentences, pieces + 1)
    labels: Any  # (sentences,)


class Buffers(NamedTuple):
    """What `read` finds in the sentences of a step, in buffers for the longest."""

    place_of: Any  # (v,) -1 everywhere between two calls
    found: Any  # (U,) the distinct words
    words: Any  # (T,) the place of every token among them
    heads: Any  # (T,)
    tails: Any  # (T,)
    lengths: Any  # (S, pieces + 1)
    labels: Any  # (S,)


class Weights(NamedTuple):
    """The weights of a model, or their gradients."""

    classifier: Any  # (R, pieces·F), padded: (R, pieces·G)
    classifier_bias: Any  # (R,), or nothing
    head_position: Any  # (P, d)
    tail_position: Any  # (P, d)
    convolution: Any  # (F, window·width), padded: (F, window·step)
    bias: Any  # (F,)


class Dropout(NamedTuple):
    """What is dropped, see dropout.py: a number whose hash is below the threshold; others are multiplied."""

    threshold: Any
    scale: Any


class Descent(NamedTuple):
    """w ← shrink · w - lr · gradient. Word vectors are factor · table, so that shrinking them all is one product."""

    shrink: float
    lr: float
    words: bool  # whether word vectors learn too
    least: float  # a factor below this is multiplied into the table


@compiled
def read(text: Any, chosen: Any, to: Any) -> Any:
    """Gathers the chosen sentences (S,) of a Text in Buffers; how many tokens and how many distinct words they have."""
    total, count = 0, 0
    for s in range(len(chosen)):
        sentence = chosen[s]
        to.lengths[s], to.labels[s] = text.lengths[sentence], text.labels[sentence]
        for t in range(text.starts[sentence], text.starts[sentence + 1]):
            token = text.tokens[t]
            place = to.place_of[token]
            if place < 0:
                place = count
                to.place_of[token], to.found[count] = count, token
                count += 1
            to.words[total], to.heads[total], to.tails[total] = place, text.heads[t], text.tails[t]
            total += 1
    for place in range(count):
        to.place_of[to.found[place]] = -1
    return total, count


@compiled
def _learn(
    seen: Any,  # Buffers, as `read` left them
    sentences: int,
    tokens: int,
    vectors: Any,  # (U, step) of the distinct words, padded
    weights: Any,  # Weights, padded
    dimension: int,  # D
    is_tanh: bool,  # or else relu
    dropout: Any,  # Dropout
    key: Any,  # of this step's draws
    to_vectors: Any,  # the gradients, to fill, each like its own
    to: Any,
) -> Any:
    """Forward and backward through the model on what was read; returns the mean loss."""
    words, heads, tails = seen.words[:tokens], seen.heads[:tokens], seen.tails[:tokens]
    lengths, labels = seen.lengths[:sentences], seen.labels[:sentences]
    pooled, scales, rows = forward(seen, sentences, tokens, vectors, weights, dimension, is_tanh, dropout, key)
    grad = aligned(sentences, weights.classifier.shape[1], vectors)
    loss = classify(
        pooled,
        scales,
        weights.classifier,
        weights.classifier_bias,
        labels,
        to.classifier,
        to.classifier_bias,
        grad,
    )
    activate_backward(grad.reshape(grad.size), pooled.reshape(grad.size), scales.reshape(grad.size), is_tanh)
    convolve_backward(
        grad.reshape(rows.shape),
        rows,
        vectors,
        weights.head_position,
        weights.tail_position,
        weights.convolution,
        words,
        heads,
        tails,
        lengths,
        dimension,
        to_vectors,
        to.head_position,
        to.tail_position,
        to.convolution,
        to.bias,
    )
    return loss


@compiled
def forward(
    seen: Any,
    sentences: int,
    tokens: int,
    vectors: Any,
    weights: Any,
    dimension: int,
    is_tanh: bool,
    dropout: Any,
    key: Any,
) -> Any:
    """Of what was read, the activated maxima (S, pieces·G), the scales of dropout, like them, and the token of each
    maximum (S·pieces, G).
    """
    words, heads, tails = seen.words[:tokens], seen.heads[:tokens], seen.tails[:tokens]
    lengths, filters, columns = seen.lengths[:sentences], len(weights.bias), weights.classifier.shape[1]
    pieces = sentences * (lengths.shape[1] - 1)
    shape = pieces, stride(filters)
    pooled, scales = aligned(sentences, columns, vectors), aligned(sentences, columns, vectors)
    pooled[:], scales[:] = 0, 0
    maxima, rows = pooled.reshape(shape), np.empty(shape, np.int32)
    convolution = weights.convolution.reshape((filters, -1, vectors.shape[1]))
    convolve(
        vectors,
        weights.head_position,
        weights.tail_position,
        convolution,
        weights.bias,
        dimension,
        words,
        heads,
        tails,
        lengths,
        maxima,
        rows,
    )
    activate(pooled.reshape(pooled.size), is_tanh)
    by_piece = scales.reshape(shape)
    for piece in range(pieces):
        draw_scales(by_piece[piece, :filters], np.uint32(key + piece * filters), dropout.threshold, dropout.scale)
    return pooled, scales, rows


@compiled
def gradient(
    seen: Any,  # Buffers, as `read` left them
    sentences: int,
    tokens: int,
    vectors: Any,  # (U, D) of the distinct words
    weights: Any,  # Weights
    is_tanh: bool,  # or else relu
    dropout: Any,  # Dropout
    key: Any,  # of this step's draws
    to_vectors: Any,  # the gradients, to fill, each like its own
    to: Any,
) -> Any:
    """The gradients of one step, for an optimizer to use; returns the mean loss."""
    distinct, dimension = vectors.shape
    width = dimension + 2 * weights.head_position.shape[1]
    padded, to_padded = padded_weights(weights, width), padded_weights(to, width)
    words, to_words = aligned(distinct, stride(width), vectors), aligned(distinct, stride(width), vectors)
    pad(vectors, words, stride(width))
    loss = _learn(seen, sentences, tokens, words, padded, dimension, is_tanh, dropout, key, to_words, to_padded)
    unpad(to_words, to_vectors, stride(width))
    unpad_weights(to_padded, to, width)
    return loss


@compiled
def descend(
    text: Any,  # Text
    order: Any,  # (n,) sentences, up to `batch` of which make a step
    batch: int,
    seen: Any,  # Buffers
    table: Any,  # (v, D) word vectors are factor · table; changed in place
    factor: float,
    weights: Any,  # Weights, changed in place
    is_tanh: bool,  # or else relu
    dropout: Any,  # Dropout
    keys: Any,  # (steps,) of the draws of every step
    descent: Any,  # Descent
    losses: Any,  # (steps,) to fill
) -> float:
    """Whole steps of gradient descent, as many as there are losses; returns the factor that they leave."""
    dimension, kind = table.shape[1], table.dtype.type
    width = dimension + 2 * weights.head_position.shape[1]
    padded = padded_weights(weights, width)
    to = _empty_like(padded)
    for step in range(len(losses)):
        chosen = order[step * batch : (step + 1) * batch]
        tokens, distinct = read(text, chosen, seen)
        found = seen.found[:distinct]
        vectors, to_vectors = aligned(distinct, stride(width), table), aligned(distinct, stride(width), table)
        take_rows(table, found, kind(factor), vectors)
        losses[step] = _learn(
            seen, len(chosen), tokens, vectors, padded, dimension, is_tanh, dropout, keys[step], to_vectors, to
        )
        move(_flat(padded), _flat(to), kind(descent.shrink), kind(descent.lr))
        if descent.words:
            factor *= descent.shrink
            if factor < descent.least:
                table *= kind(factor)
                factor = 1.0
            add_to_rows(table, found, to_vectors, kind(-descent.lr / factor))
    unpad_weights(padded, weights, width)
    return factor


@compiled
def padded_weights(weights: Any, width: int) -> Any:
    """A padded copy of the classifier and of the convolution (pieces of F, tokens of `width`); the rest is shared."""
    filters, classes, step = len(weights.bias), len(weights.classifier), stride(width)
    window, pieces = weights.convolution.shape[1] // width, weights.classifier.shape[1] // filters
    classifier = aligned(classes, pieces * stride(filters), weights.classifier)
    convolution = aligned(filters, window * step, weights.convolution)
    pad(weights.classifier, classifier, stride(filters))
    pad(weights.convolution, convolution, step)
    positions = weights.head_position, weights.tail_position
    return Weights(classifier, weights.classifier_bias, positions[0], positions[1], convolution, weights.bias)


@compiled
def unpad_weights(padded: Any, weights: Any, width: int) -> None:
    """Copies the padded classifier and convolution back."""
    unpad(padded.classifier, weights.classifier, stride(len(weights.bias)))
    unpad(padded.convolution, weights.convolution, stride(width))


@compiled
def _empty_like(weights: Any) -> Any:
    """Weights of these shapes, not set."""
    return Weights(
        aligned(len(weights.classifier), weights.classifier.shape[1], weights.classifier),
        np.empty_like(weights.classifier_bias),
        np.empty_like(weights.head_position),
        np.empty_like(weights.tail_position),
        aligned(len(weights.convolution), weights.convolution.shape[1], weights.convolution),
        np.empty_like(weights.bias),
    )


@compiled
def _flat(weights: Any) -> Any:
    """All of them as arrays of one dimension that share their memory."""
    return (
        weights.classifier.reshape(weights.classifier.size),
        weights.classifier_bias,
        weights.head_position.reshape(weights.head_position.size),
        weights.tail_position.reshape(weights.tail_position.size),
        weights.convolution.reshape(weights.convolution.size),
        weights.bias,
    )
