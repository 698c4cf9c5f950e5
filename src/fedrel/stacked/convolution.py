"""A convolution that reads for many platforms at once, each with weights of its own, and finds its gradients by hand.

The weights lie along a platform axis, so every layer is one batched product. Sentences of a platform stand end to end,
and only the end of a platform's row is padded. Nothing waits for the device and all shapes are known beforehand, so
that a step can be recorded as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.extractors.convolution import Convolution
from fedrel.kernels.activations import SLOPES
from fedrel.kernels.pooling import piece_maxima, piece_maxima_backward
from fedrel.kernels.windows import windows_backward, windows_of
from fedrel.learning.named import Named

HEAD, TAIL = "encoder.head_position", "encoder.tail_position"
WEIGHT, BIAS = "encoder.convolution.weight", "encoder.convolution.bias"


@dataclass(frozen=True)
class Library:
    """All sentences of all platforms, end to end, with numbers of words that count through the platforms' tables laid
    below each other. Its last token is a separator.
    """

    starts: Tensor  # (all sentences + 1,)
    tokens: Tensor  # (all tokens + 1,) int32
    heads: Tensor  # (all tokens + 1,) int16
    tails: Tensor
    lengths: Tensor  # (all sentences, pieces + 1)
    labels: Tensor  # (all sentences,)
    separator: Tensor  # () the place of the last token


@dataclass(frozen=True)
class Read:
    """What n platforms read in one step, S sentences and T tokens each, and what they made of it."""

    words: Tensor  # (n·T,) rows of the tables
    heads: Tensor  # (n·T,) rows of the position tables, laid below each other
    tails: Tensor
    windows: Tensor  # (n, T, window·D)
    rows: Tensor  # (n·S·pieces, F) where the maxima stand
    vectors: Tensor  # (n, S, H)


def read(
    encoder: Convolution,
    library: Library,
    chosen: Tensor,
    tokens: int,
    weights: Named,
    vectors_of: Callable[[Tensor], Tensor],
) -> Read:
    """`chosen` (n, S): sentences of the library, -1 for none; `tokens`: as many as a platform reads at most;
    `vectors_of`: words' vectors, by row.
    """
    n, count = chosen.shape
    real = chosen >= 0
    sentence = chosen.clamp(min=0)
    first = library.starts[sentence]
    size = torch.where(real, library.starts[sentence + 1] - first, 0)
    ends = size.cumsum(1)  # (n, S)
    place = torch.arange(tokens, device=chosen.device).repeat(n, 1)
    which = torch.searchsorted(ends, place, right=True).clamp_(max=count - 1)  # (n, T) the sentence of every token
    source = (first - ends + size).gather(1, which) + place
    source = torch.where(place < ends[:, -1:], source, library.separator).view(-1)  # (n·T,)
    words = library.tokens[source]
    shift = torch.arange(n, device=chosen.device)[:, None].expand(n, tokens).reshape(-1) * weights[HEAD].shape[1]
    heads, tails = library.heads[source] + shift, library.tails[source] + shift
    parts = [vectors_of(words), weights[HEAD].flatten(0, 1)[heads], weights[TAIL].flatten(0, 1)[tails]]
    width = sum(part.shape[1] for part in parts)
    half = encoder.window // 2
    padded = parts[0].new_zeros(n, tokens + 2 * half, width)  # zero beyond both ends
    begin = 0
    for part in parts:
        padded[:, half : half + tokens, begin : begin + part.shape[1]] = part.view(n, tokens, part.shape[1])
        begin += part.shape[1]
    windows = windows_of(padded, encoder.window)
    features = torch.baddbmm(weights[BIAS][:, None], windows, weights[WEIGHT].transpose(1, 2))  # (n, T, F)
    lengths = torch.where(real[:, :, None], library.lengths[sentence], 0)  # (n, S, pieces + 1)
    inner = (
        lengths.cumsum(2) + (ends - size)[:, :, None] + torch.arange(n, device=chosen.device)[:, None, None] * tokens
    )
    pieces = encoder.pieces
    maxima, rows = piece_maxima(
        features.flatten(0, 1), inner[:, :, :pieces].flatten().contiguous(), lengths[:, :, :pieces].reshape(-1)
    )
    vectors = encoder.activation(maxima.view(n, count, encoder.hidden))
    return Read(words, heads, tails, windows, rows, vectors)


def gradients(encoder: Convolution, seen: Read, grad: Tensor, weights: dict[str, Tensor]) -> tuple[Tensor, Named]:
    """From that of the vectors (n, S, H): of the words' vectors (n, T, D), and of the encoder's weights by name."""
    n, tokens = seen.windows.shape[:2]
    to_maxima = (grad * SLOPES[encoder.activation](seen.vectors)).reshape(-1, encoder.filters)
    real = seen.rows < n * tokens
    to_bias = (to_maxima * real).view(n, -1, encoder.filters).sum(1)
    to_features = piece_maxima_backward(to_maxima, seen.rows, n * tokens).view(n, tokens, encoder.filters)
    to_weight = to_features.transpose(1, 2) @ seen.windows  # (n, F, window·D)
    to_windows = to_features @ weights[WEIGHT]  # (n, T, window·D)
    inner = windows_backward(to_windows, encoder.window)  # (n, T, D+2d)
    first, position = encoder.words.dimension, weights[HEAD].shape[2]
    to_head, to_tail = (
        torch.zeros_like(weights[name])
        .flatten(0, 1)
        .index_add_(0, rows, inner[:, :, begin : begin + position].reshape(n * tokens, position))
        .view_as(weights[name])
        for name, rows, begin in ((HEAD, seen.heads, first), (TAIL, seen.tails, first + position))
    )
    to_head[:, 0], to_tail[:, 0] = 0, 0  # the separator's vector is zero for good
    found = {HEAD: to_head, TAIL: to_tail, WEIGHT: to_weight, BIAS: to_bias}
    return inner[:, :, :first], Named(found)
