"""The compiled passes of a training step by hand (see fused.py) that the convolution does not have already."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.compiled import compiled
from fedrel.extractors.draws import fill
from fedrel.extractors.gradients import gradients
from fedrel.extractors.products import multiply, scalar_products


@compiled
def read(
    tokens: Any,  # of the whole shard
    head_distance: Any,
    tail_distance: Any,
    starts: Any,
    piece_lengths: Any,
    chosen: Any,  # (S,) sentences
    place_of: Any,  # (v,) -1 everywhere, as it will be afterwards
    found: Any,  # the distinct words of the chosen sentences, to fill
    words: Any,  # (T,) the place of every token among them, to fill
    heads: Any,  # (T,) to fill
    tails: Any,
    lengths: Any,  # (S, pieces + 1) to fill
) -> Any:
    """How many tokens and how many distinct words there are."""
    total, count = 0, 0
    for s in range(len(chosen)):
        sentence = chosen[s]
        lengths[s] = piece_lengths[sentence]
        for t in range(starts[sentence], starts[sentence + 1]):
            token = tokens[t]
            place = place_of[token]
            if place < 0:
                place = count
                place_of[token], found[count] = count, token
                count += 1
            words[total], heads[total], tails[total] = place, head_distance[t], tail_distance[t]
            total += 1
    for place in range(count):
        place_of[found[place]] = -1
    return total, count


@compiled
def learn(
    vectors: Any,  # (S, H) of the encoder, whose activation is tanh, or else relu
    is_tanh: bool,
    labels: Any,  # of the whole shard
    chosen: Any,  # (S,)
    draw: Any,  # what dropout draws from
    classifier: Any,  # (R, H)
    classifier_bias: Any,  # (R,), or nothing
    rows: Any,  # (S·pieces, F) and all that follows: see gradients.py
    words: Any,
    head_position: Any,
    tail_position: Any,
    weight: Any,
    places: Any,
    heads: Any,
    tails: Any,
    space: Any,
    to_classifier: Any,  # the gradients, to fill
    to_classifier_bias: Any,
    to_words: Any,
    to_head: Any,
    to_tail: Any,
    to_weight: Any,
    to_bias: Any,
) -> Any:
    """All gradients; returns the mean loss."""
    sentences = len(vectors)
    scales, seen, back = np.empty_like(vectors), np.empty_like(vectors), np.empty_like(vectors)
    fill(scales.reshape(scales.size), draw[0], draw[1], draw[2])
    for s in range(sentences):
        for j in range(vectors.shape[1]):
            seen[s, j] = vectors[s, j] * scales[s, j]
    to_logits = np.empty((sentences, len(classifier)), classifier.dtype)
    loss = _cross_entropy(seen, classifier, classifier_bias, labels, chosen, to_logits)
    multiply(to_logits, classifier, back)
    multiply(to_logits.T, seen, to_classifier)
    for c in range(len(to_classifier_bias)):
        to_classifier_bias[c] = to_logits[:, c].sum()
    for s in range(sentences):
        for j in range(vectors.shape[1]):
            value = vectors[s, j]
            slope = 1 - value * value if is_tanh else vectors.dtype.type(value > 0)
            back[s, j] *= scales[s, j] * slope
    gradients(
        back.reshape(rows.shape),
        rows,
        words,
        head_position,
        tail_position,
        weight,
        places,
        heads,
        tails,
        space,
        to_words,
        to_head,
        to_tail,
        to_weight,
        to_bias,
    )
    return loss


@compiled
def _cross_entropy(seen: Any, weight: Any, bias: Any, labels: Any, chosen: Any, to_logits: Any) -> Any:
    """The mean over the sentences, and its gradient."""
    sentences, classes = to_logits.shape
    loss = seen.dtype.type(0)
    for s in range(sentences):
        logits, label = to_logits[s], labels[chosen[s]]
        scalar_products(weight, seen[s], logits)
        for c in range(len(bias)):
            logits[c] += bias[c]
        highest = logits.max()
        own = logits[label] - highest
        whole = seen.dtype.type(0)
        for c in range(classes):
            logits[c] = np.exp(logits[c] - highest)
            whole += logits[c]
        loss += np.log(whole) - own
        for c in range(classes):
            logits[c] /= whole * sentences
        logits[label] -= seen.dtype.type(1 / sentences)
    return loss / sentences
