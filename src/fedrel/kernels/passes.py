"""The way through a model and back in a training step by hand (see learning/compiled_step.py), compiled.

Weights are wide here: what belongs to a token, or to a piece of a sentence, begins a cache line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedrel.kernels.activations import activate, back_through
from fedrel.kernels.dropout import fill
from fedrel.kernels.gradients import gradients
from fedrel.kernels.jit import compiled
from fedrel.kernels.matmul import lines, multiply, stride
from fedrel.kernels.maxima import fill_maxima


class Weights(NamedTuple):
    """Or their gradients."""

    classifier: Any  # (R, pieces·F), wide: (R, pieces·G)
    classifier_bias: Any  # (R,), or nothing
    head_position: Any  # (P, d)
    tail_position: Any
    convolution: Any  # (F, window·width), wide: (F, window·step)
    bias: Any  # (F,)


class Dropout(NamedTuple):
    """See dropout.py."""

    threshold: Any
    scale: Any


@compiled
def learn(
    seen: Any,  # sentences as `read` found them
    sentences: int,
    tokens: int,
    vectors: Any,  # (U, step) of the distinct words, wide
    weights: Any,  # wide
    dimension: int,  # of words
    is_tanh: bool,  # or else relu
    dropout: Any,
    key: Any,  # of its draws
    to_vectors: Any,  # the gradients, to fill, wide
    to: Any,
) -> Any:
    """All gradients; returns the mean loss."""
    words, heads, tails = seen.words[:tokens], seen.heads[:tokens], seen.tails[:tokens]
    lengths, labels, filters = seen.lengths[:sentences], seen.labels[:sentences], len(weights.bias)
    columns = weights.classifier.shape[1]
    pieces = sentences * (lengths.shape[1] - 1)
    shape = pieces, stride(filters)
    pooled, scales = lines(sentences, columns, vectors), lines(sentences, columns, vectors)
    pooled[:], scales[:] = 0, 0
    maxima, rows = pooled.reshape(shape), np.empty(shape, np.int32)
    convolution = weights.convolution.reshape((filters, -1, vectors.shape[1]))
    fill_maxima(
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
        fill(by_piece[piece, :filters], np.uint32(key + piece * filters), dropout.threshold, dropout.scale)
    back = lines(sentences, columns, vectors)
    loss = _classify(pooled, scales, weights, labels, to, back)
    back_through(back.reshape(back.size), pooled.reshape(back.size), scales.reshape(back.size), is_tanh)
    gradients(
        back.reshape(shape),
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
def _classify(pooled: Any, scales: Any, weights: Any, labels: Any, to: Any, back: Any) -> Any:
    """The mean loss, the classifier's gradients, and that of what it saw, which is `pooled` times `scales`."""
    sentences, columns = pooled.shape
    seen, turned = lines(sentences, columns, pooled), lines(columns, stride(sentences), pooled)
    turned[:, sentences:] = 0
    for s in range(sentences):
        for j in range(columns):
            seen[s, j] = pooled[s, j] * scales[s, j]
    for j in range(columns):
        for s in range(sentences):
            turned[j, s] = seen[s, j]
    logits = lines(len(weights.classifier), stride(sentences), pooled)  # (R, S)
    multiply(weights.classifier, turned, logits)
    loss = _cross_entropy(logits, weights.classifier_bias, labels)
    to_logits = logits[:, :sentences]
    multiply(to_logits.T, weights.classifier, back)
    multiply(to_logits, seen, to.classifier)
    for c in range(len(to.classifier_bias)):
        to.classifier_bias[c] = to_logits[c].sum()
    return loss


@compiled
def _cross_entropy(logits: Any, bias: Any, labels: Any) -> Any:
    """The mean over the sentences; its gradient takes the place of the logits (R, S or more), sentence by column."""
    classes, sentences, kind = len(logits), len(labels), logits.dtype.type
    highest, whole = np.full(sentences, kind(-np.inf)), np.zeros(sentences, logits.dtype)
    loss = kind(0)
    for c in range(classes):
        offset = bias[c] if len(bias) else kind(0)
        for s in range(sentences):
            logits[c, s] += offset
            highest[s] = highest[s] if logits[c, s] <= highest[s] else logits[c, s]  # what is no number comes through
    for s in range(sentences):
        loss -= logits[labels[s], s] - highest[s]
    for c in range(classes):
        for s in range(sentences):
            logits[c, s] = np.exp(logits[c, s] - highest[s])
            whole[s] += logits[c, s]
    for s in range(sentences):
        loss += np.log(whole[s])
        whole[s] = 1 / (whole[s] * sentences)
    for c in range(classes):
        for s in range(sentences):
            logits[c, s] *= whole[s]
    for s in range(sentences):
        logits[labels[s], s] -= kind(1 / sentences)
    return loss / sentences
