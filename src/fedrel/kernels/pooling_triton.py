"""The maxima of pieces on a GPU, in one pass over the features."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_FILTERS = 128  # of one program


@triton.jit  # type: ignore[untyped-decorator]
def _maxima(  # type: ignore[no-untyped-def]
    features, ends, lengths, maxima, rows, count, filters, BLOCK: tl.constexpr
):
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


def piece_maxima(features: Tensor, ends: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    features = features.contiguous()
    count, filters = features.shape
    maxima = features.new_empty(len(ends), filters)
    rows = torch.empty(len(ends), filters, dtype=torch.int64, device=features.device)
    grid: Any = (len(ends), triton.cdiv(filters, _FILTERS))
    if len(ends):
        _maxima[grid](features, ends, lengths, maxima, rows, count, filters, BLOCK=_FILTERS)
    return maxima, rows
