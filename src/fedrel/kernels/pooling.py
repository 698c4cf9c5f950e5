"""The maxima of pieces of a sentence, and where they stand: one kernel on a GPU with Triton, plain torch elsewhere.

Shapes are known beforehand and nothing waits for the device, so a CUDA graph can record it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_on_gpu: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]] | None
try:
    from fedrel.kernels import pooling_triton
except ImportError:  # no Triton here
    _on_gpu = None
else:
    _on_gpu = pooling_triton.piece_maxima


def piece_maxima(features: Tensor, ends: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """features (T, F); pieces end before rows `ends` (M,) and are `lengths` (M,) long, in ascending order → the maxima
    (M, F), 0 of an empty piece, and the row of each (M, F), the first of several; T in an empty piece.
    """
    if features.is_cuda and _on_gpu is not None:
        return _on_gpu(features, ends, lengths)
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


def spread(grad: Tensor, rows: Tensor, count: int) -> Tensor:
    """(M, F) of the maxima → (count, F): every number to the row that its maximum stands in."""
    whole = grad.new_zeros(count + 1, grad.shape[1])  # the last takes what empty pieces have
    return whole.scatter_(0, rows, grad)[:count]


class _PieceMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, ends: Tensor, lengths: Tensor) -> Tensor:
        maxima, rows = piece_maxima(features, ends, lengths)
        ctx.save_for_backward(rows)
        ctx.count = len(features)
        return maxima

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        return spread(grad, rows, ctx.count), None, None


piece_max: Callable[[Tensor, Tensor, Tensor], Tensor] = _PieceMax.apply
