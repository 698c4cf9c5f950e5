"""A linear classifier with softmax and cross-entropy, forward and backward, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.kernels.jit import compiled
from fedrel.kernels.layout import aligned, stride
from fedrel.kernels.matmul import multiply


@compiled
def classify(
    pooled: Any,  # (S, H) sentence vectors
    scales: Any,  # (S, H) of dropout: the classifier sees pooled · scales
    weight: Any,  # (R, H)
    bias: Any,  # (R,), or nothing
    labels: Any,  # (S,)
    to_weight: Any,  # (R, H) to fill, as are the next two
    to_bias: Any,  # like bias
    to_seen: Any,  # (S, H) the gradient of what the classifier sees
) -> Any:
    """A linear classifier under cross-entropy, forward and backward: the mean loss, and its gradients. H is padded."""
    loss, seen, to_logits = errors(pooled, scales, weight, bias, labels)
    multiply(to_logits.T, weight, to_seen)
    backward(to_logits, seen, to_weight, to_bias)
    return loss


@compiled
def errors(pooled: Any, scales: Any, weight: Any, bias: Any, labels: Any) -> Any:
    """The mean loss, what the classifier sees (S, H), and the gradient of its logits (R, S)."""
    sentences, columns = pooled.shape
    seen, turned = aligned(sentences, columns, pooled), aligned(columns, stride(sentences), pooled)
    turned[:, sentences:] = 0
    for s in range(sentences):
        for j in range(columns):
            seen[s, j] = pooled[s, j] * scales[s, j]
    for j in range(columns):
        for s in range(sentences):
            turned[j, s] = seen[s, j]
    logits = aligned(len(weight), stride(sentences), pooled)  # (R, S)
    multiply(weight, turned, logits)
    loss = _cross_entropy(logits, bias, labels)
    return loss, seen, logits[:, :sentences]


@compiled
def backward(to_logits: Any, seen: Any, to_weight: Any, to_bias: Any) -> None:
    """Fills the gradients of the classifier's weights from those of its logits (R, S)."""
    multiply(to_logits, seen, to_weight)
    for c in range(len(to_bias)):
        to_bias[c] = to_logits[c].sum()


@compiled
def _cross_entropy(logits: Any, bias: Any, labels: Any) -> Any:
    """The mean over the S sentences; its gradient takes the place of the logits (R, S or more), a sentence a column."""
    classes, sentences, kind = len(logits), len(labels), logits.dtype.type
    highest, whole = np.full(sentences, kind(-np.inf)), np.zeros(sentences, logits.dtype)
    loss = kind(0)
    for c in range(classes):
        offset = bias[c] if len(bias) else kind(0)
        for s in range(sentences):
            logits[c, s] += offset
            highest[s] = highest[s] if logits[c, s] <= highest[s] else logits[c, s]  # NaN propagates
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
