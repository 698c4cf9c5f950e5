"""Rows beside their neighbours, which makes a convolution a matrix product: forward and backward, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def windows_of(padded: Tensor, window: int) -> Tensor:
    """Forward: (…, T + window - 1, D), rows with zeros beyond both ends → (…, T, window·D), every row beside its
    neighbours.
    """
    *batch, count, width = padded.shape
    rows = count - window + 1
    # Rows lie end to end, so a window is one stretch of memory: no shifting, one copy.
    strides = (*padded.stride()[:-1], 1)
    return padded.as_strided((*batch, rows, window * width), strides).contiguous()


def windows_backward(grad: Tensor, window: int) -> Tensor:
    """Backward: (…, T, window·D) → (…, T, D), without what belongs to the zeros."""
    *batch, count, reach = grad.shape
    width, half = reach // window, window // 2
    padded = grad.new_zeros(*batch, count + window - 1, width)
    for place in range(window):
        padded[..., place : place + count, :] += grad[..., place * width : (place + 1) * width]
    return padded[..., half : half + count, :]


class _Windows(torch.autograd.Function):
    """`windows` for autograd."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, window: int) -> Tensor:
        ctx.window = window
        half = window // 2
        return windows_of(torch.nn.functional.pad(rows, (0, 0, half, half)), window)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return windows_backward(grad, ctx.window), None


windows: Callable[[Tensor, int], Tensor] = _Windows.apply
"""(T, D) → (T, window·D), every row beside its neighbours, zeros beyond both ends; `window` is odd."""
