"""Compiled training steps (see learning/compiled_step.py): one call makes many and lets other threads run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedrel.kernels.convolution import add_to, move
from fedrel.kernels.gradients import narrow, widen
from fedrel.kernels.jit import compiled
from fedrel.kernels.matmul import lines, stride
from fedrel.kernels.passes import Weights, learn


class Text(NamedTuple):
    """Of a whole shard."""

    tokens: Any
    heads: Any
    tails: Any
    starts: Any
    lengths: Any  # (S, pieces + 1)
    labels: Any


class Read(NamedTuple):
    """Room for what `read` finds in the sentences of a step."""

    place_of: Any  # (v,) -1 everywhere, as it will be afterwards
    found: Any  # the distinct words
    words: Any  # (T,) the place of every token among them
    heads: Any  # (T,)
    tails: Any
    lengths: Any  # (S, pieces + 1)
    labels: Any  # (S,)


class Descent(NamedTuple):
    """w ← shrink·w - lr·gradient; of the words that a step does not meet, shrinking is left to one factor."""

    shrink: float
    lr: float
    words: bool  # whether they learn too
    least: float  # below it the factor is multiplied in


@compiled
def read(text: Any, chosen: Any, to: Any) -> Any:
    """How many tokens and how many distinct words there are in the chosen sentences."""
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
def gradient(
    seen: Any,  # sentences as `read` found them
    sentences: int,
    tokens: int,
    vectors: Any,  # (U, D) of the distinct words
    weights: Any,
    is_tanh: bool,
    dropout: Any,
    key: Any,
    to_vectors: Any,  # the gradients, to fill
    to: Any,
) -> Any:
    """Returns the mean loss."""
    distinct, dimension = vectors.shape
    width = dimension + 2 * weights.head_position.shape[1]
    wide, to_wide = _widened(weights, width), _widened(to, width)
    words, to_words = lines(distinct, stride(width), vectors), lines(distinct, stride(width), vectors)
    widen(vectors, words, stride(width))
    loss = learn(seen, sentences, tokens, words, wide, dimension, is_tanh, dropout, key, to_words, to_wide)
    narrow(to_words, to_vectors, stride(width))
    _narrow(to_wide, to, width)
    return loss


@compiled
def descend(
    text: Any,
    order: Any,  # sentences
    batch: int,
    seen: Any,  # room to read
    table: Any,  # (v, D) words, to be multiplied by
    factor: float,
    weights: Any,
    is_tanh: bool,
    dropout: Any,
    keys: Any,  # of every step
    descent: Any,
    losses: Any,  # of every step, to fill
) -> float:
    """As many steps as there are losses; returns the factor of the words that they end with."""
    dimension, kind = table.shape[1], table.dtype.type
    width = dimension + 2 * weights.head_position.shape[1]
    wide = _widened(weights, width)
    to = _room_like(wide)
    for step in range(len(losses)):
        chosen = order[step * batch : (step + 1) * batch]
        tokens, distinct = read(text, chosen, seen)
        found = seen.found[:distinct]
        vectors, to_vectors = lines(distinct, stride(width), table), lines(distinct, stride(width), table)
        _gather(table, found, kind(factor), vectors)
        losses[step] = learn(
            seen, len(chosen), tokens, vectors, wide, dimension, is_tanh, dropout, keys[step], to_vectors, to
        )
        move(_flat(wide), _flat(to), kind(descent.shrink), kind(descent.lr))
        if descent.words:
            factor *= descent.shrink
            if factor < descent.least:
                table *= kind(factor)
                factor = 1.0
            add_to(table, found, to_vectors, kind(-descent.lr / factor))
    _narrow(wide, weights, width)
    return factor


@compiled
def _widened(weights: Any, width: int) -> Any:
    """The classifier and the convolution in a wide copy; the rest is shared."""
    filters, classes, step = len(weights.bias), len(weights.classifier), stride(width)
    window, pieces = weights.convolution.shape[1] // width, weights.classifier.shape[1] // filters
    classifier = lines(classes, pieces * stride(filters), weights.classifier)
    convolution = lines(filters, window * step, weights.convolution)
    widen(weights.classifier, classifier, stride(filters))
    widen(weights.convolution, convolution, step)
    positions = weights.head_position, weights.tail_position
    return Weights(classifier, weights.classifier_bias, positions[0], positions[1], convolution, weights.bias)


@compiled
def _narrow(wide: Any, weights: Any, width: int) -> None:
    narrow(wide.classifier, weights.classifier, stride(len(weights.bias)))
    narrow(wide.convolution, weights.convolution, stride(width))


@compiled
def _room_like(wide: Any) -> Any:
    return Weights(
        lines(len(wide.classifier), wide.classifier.shape[1], wide.classifier),
        np.empty_like(wide.classifier_bias),
        np.empty_like(wide.head_position),
        np.empty_like(wide.tail_position),
        lines(len(wide.convolution), wide.convolution.shape[1], wide.convolution),
        np.empty_like(wide.bias),
    )


@compiled
def _flat(weights: Any) -> Any:
    return (
        weights.classifier.reshape(weights.classifier.size),
        weights.classifier_bias,
        weights.head_position.reshape(weights.head_position.size),
        weights.tail_position.reshape(weights.tail_position.size),
        weights.convolution.reshape(weights.convolution.size),
        weights.bias,
    )


@compiled
def _gather(table: Any, found: Any, factor: Any, vectors: Any) -> None:
    for i in range(len(found)):
        row, to = table[found[i]], vectors[i]
        for j in range(len(row)):
            to[j] = factor * row[j]
        for j in range(len(row), len(to)):
            to[j] = 0
