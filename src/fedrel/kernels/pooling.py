"""Max-pooling by pieces of a sentence, forward and backward: one Triton kernel on a GPU, plain torch elsewhere.

Shapes are known beforehand and nothing waits for the device, so a CUDA graph can record it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

_FILTERS = 128  # of one program of the GPU


def piece_maxima(features: Tensor, ends: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Forward. Features (T, F) in M pieces in ascending order: the m-th is `lengths`[m] rows long and ends before row
    `ends`[m] → the maxima (M, F), 0 in an empty piece, and the row of each (M, F) int64, the first of several, T in an
    empty piece.
    """
    if features.is_cuda and triton is not None:
        return _piece_maxima_on_gpu(features, ends, lengths)
    count = len(features)
    places = torch.arange(count, device=features.device)
    piece = torch.searchsorted(ends.contiguous(), places, right=True).clamp_(max=len(ends) - 1)  # (T,)
    inside = (places < ends[piece]) & (places >= ends[piece] - lengths[piece])
    piece = torch.where(inside, piece, len(ends))[:, None].expand_as(features)  # whatever is in none, in one more
    lowest = features.new_full((len(ends) + 1, features.shape[1]), -torch.inf)
    maxima = lowest.scatter_reduce_(0, piece, features, "amax")
    holds = features >= maxima.gather(0, piece)
    rows = torch.full_like(maxima, count, dtype=torch.int64)
    rows.scatter_reduce_(0, piece, torch.where(holds, places[:, None], count), "amin")
    return maxima[:-1].masked_fill(maxima[:-1] == -torch.inf, 0), rows[:-1]


def _piece_maxima_kernel(  # type: ignore[no-untyped-def]
    features, ends, lengths, maxima, rows, count, filters, BLOCK: tl.constexpr
):
    """One program for each piece and each block of filters, in one pass over the rows of the piece."""
    piece = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = columns < filters
    end = tl.load(ends + piece)
    begin = end - tl.load(lengths + piece)
    best = tl.full((BLOCK,), float("-inf"), features.dtype.element_ty)
    row = tl.full((BLOCK,), 0, tl.int64) + count
    for here in range(begin, end):
        value = tl.load(features + here * filters + columns, mask=real, other=float("-inf"))
        greater = value > best
        best = tl.where(greater, value, best)
        row = tl.where(greater, here, row)
    best = tl.where(end > begin, best, 0.0)
    tl.store(maxima + piece * filters + columns, best, mask=real)
    tl.store(rows + piece * filters + columns, row, mask=real)


_launch: Any = None if triton is None else triton.jit(_piece_maxima_kernel)


def _piece_maxima_on_gpu(features: Tensor, ends: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    features = features.contiguous()
    count, filters = features.shape
    maxima = features.new_empty(len(ends), filters)
    rows = torch.empty(len(ends), filters, dtype=torch.int64, device=features.device)
    grid: Any = (len(ends), triton.cdiv(filters, _FILTERS))
    if len(ends):
        _launch[grid](features, ends, lengths, maxima, rows, count, filters, BLOCK=_FILTERS)
    return maxima, rows


def piece_maxima_backward(grad: Tensor, rows: Tensor, count: int) -> Tensor:
    """Backward: grad (M, F) of the maxima → (count, F) of the features, every number in the row of its maximum."""
    whole = grad.new_zeros(count + 1, grad.shape[1])  # the last takes what empty pieces have
    return whole.scatter_(0, rows, grad)[:count]


class _PieceMax(torch.autograd.Function):
    """`piece_max` for autograd."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, ends: Tensor, lengths: Tensor) -> Tensor:
        maxima, rows = piece_maxima(features, ends, lengths)
        ctx.save_for_backward(rows)
        ctx.count = len(features)
        return maxima

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        return piece_maxima_backward(grad, rows, ctx.count), None, None


piece_max: Callable[[Tensor, Tensor, Tensor], Tensor] = _PieceMax.apply
"""The maxima of `piece_maxima` as a differentiable function of the features."""
