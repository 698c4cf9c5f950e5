"""Padded rows: how weights and vectors lie in memory while compiled loops work on them.

What belongs to one token, or to one piece of a sentence, is padded with zeros to whole cache lines. Loops over it then
need no remainder, and never read a line for a few numbers alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.kernels.jit import compiled

STRIDE = 16  # numbers; a multiple of what a vector register holds
_LINE = 64  # bytes of a cache line


@compiled
def stride(width: int) -> int:
    """The padded size of rows of so many numbers."""
    return -(-width // STRIDE) * STRIDE


@compiled
def aligned(rows: int, columns: int, like: Any) -> Any:
    """(rows, columns) numbers of the kind of `like`, not set, the first of which begins a cache line."""
    size = like.itemsize
    flat = np.empty(rows * columns + _LINE // size, like.dtype)
    begin = (-flat.ctypes.data % _LINE) // size
    return flat[begin : begin + rows * columns].reshape((rows, columns))


@compiled
def pad(rows: Any, padded: Any, step: int) -> None:
    """rows (n, parts·width) → padded (n, parts·step): zeros follow every part."""
    parts = padded.shape[1] // step
    width = rows.shape[1] // parts
    for f in range(len(rows)):
        for k in range(parts):
            to, source = padded[f, k * step : (k + 1) * step], rows[f, k * width : (k + 1) * width]
            to[:width] = source
            to[width:] = 0


@compiled
def unpad(padded: Any, rows: Any, step: int) -> None:
    """padded (n, parts·step) → rows (n, parts·width): what follows every part is left out."""
    parts = padded.shape[1] // step
    width = rows.shape[1] // parts
    for f in range(len(rows)):
        for k in range(parts):
            rows[f, k * width : (k + 1) * width] = padded[f, k * step : k * step + width]
