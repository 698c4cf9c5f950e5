"""The convolution of many platforms at once, each with weights of its own, forward and backward.

The weights are stacked along a platform axis, so every layer is one batched product. The sentences of a platform lie
end to end, and only the end of its row is padded. Nothing waits for the device and all shapes are known beforehand, so
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
class Text:
    """All sentences of all platforms, end to end. Word numbers are rows of the platforms' stacked tables. The last
    token is a separator.
    """

    starts: Tensor  # (all sentences + 1,)
    tokens: Tensor  # (all tokens + 1,) int32
    heads: Tensor  # (all tokens + 1,) int16
    tails: Tensor  # (all tokens + 1,) int16
    lengths: Tensor  # (all sentences, pieces + 1)
    labels: Tensor  # (all sentences,)
    separator: Tensor  # () the place of the separator


@dataclass(frozen=True)
class Forward:
    """What n platforms read in one step, padded to S sentences and T tokens each, and what became of it."""

    words: Tensor  # (n·T,) rows of the stacked word tables
    heads: Tensor  # (n·T,) rows of the stacked position tables
    tails: Tensor  # (n·T,)
    windows: Tensor  # (n, T, window·D)
    rows: Tensor  # (n·S·pieces, F) the token of each maximum, n·T in an empty piece
    vectors: Tensor  # (n, S, H)


def forward(
    encoder: Convolution,
    text: Text,
    chosen: Tensor,
    tokens: int,
    weights: Named,
    vectors_of: Callable[[Tensor], Tensor],
) -> Forward:
    """`chosen` (n, S): sentences of the text, -1 for padding; `tokens`: T; `weights` (n, …) by name; `vectors_of`: the
    vectors (…, D) of rows of the stacked word tables.
    """
    n, count = chosen.shape
    real = chosen >= 0
    sentence = chosen.clamp(min=0)
    first = text.starts[sentence]
    size = torch.where(real, text.starts[sentence + 1] - first, 0)
    ends = size.cumsum(1)  # (n, S)
    place = torch.arange(tokens, device=chosen.device).repeat(n, 1)
    which = torch.searchsorted(ends, place, right=True).clamp_(max=count - 1)  # (n, T) the sentence of every token
    source = (first - ends + size).gather(1, which) + place
    source = torch.where(place < ends[:, -1:], source, text.separator).view(-1)  # (n·T,)
    words = text.tokens[source]
    shift = torch.arange(n, device=chosen.device)[:, None].expand(n, tokens).reshape(-1) * weights[HEAD].shape[1]
    heads, tails = text.heads[source] + shift, text.tails[source] + shift
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
    lengths = torch.where(real[:, :, None], text.lengths[sentence], 0)  # (n, S, pieces + 1)
    inner = (
        lengths.cumsum(2) + (ends - size)[:, :, None] + torch.arange(n, device=chosen.device)[:, None, None] * tokens
    )
    pieces = encoder.pieces
    maxima, rows = piece_maxima(
        features.flatten(0, 1), inner[:, :, :pieces].flatten().contiguous(), lengths[:, :, :pieces].reshape(-1)
    )
    vectors = encoder.activation(maxima.view(n, count, encoder.hidden))
    return Forward(words, heads, tails, windows, rows, vectors)


def backward(encoder: Convolution, seen: Forward, grad: Tensor, weights: dict[str, Tensor]) -> tuple[Tensor, Named]:
    """The gradient of the vectors (n, S, H) → of the words' vectors (n, T, D), and of the encoder's weights by name."""
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
