"""Products inside compiled loops, as fast as a core can multiply and without a call of a library."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.kernels.jit import compiled
from fedrel.kernels.simd import (
    LONG,
    MANY,
    ROWS,
    VECTOR,
    few_maxima,
    flat_narrow,
    flat_wide,
    long_spread,
    long_sum,
    many_maxima,
    short_spread,
    short_sum,
    tall_narrow,
    tall_wide,
)

STRIDE = 16
_LINE = 64  # bytes of a cache line


@compiled
def stride(width: int) -> int:
    """So many numbers apart, things so wide each begin a cache line."""
    return -(-width // STRIDE) * STRIDE


@compiled
def lines(rows: int, columns: int, like: Any) -> Any:
    """(rows, columns) numbers of that kind, not set, the first of which begins a cache line."""
    size = like.itemsize
    flat = np.empty(rows * columns + _LINE // size, like.dtype)
    begin = (-flat.ctypes.data % _LINE) // size
    return flat[begin : begin + rows * columns].reshape((rows, columns))


@compiled
def multiply(left: Any, right: Any, product: Any) -> None:
    """product ← left·right. Rows on the right and of the product lie end to end and are whole cache lines long; there
    may be more of them on the right, which do not count. The numbers on the left may lie in any way.
    """
    like = product.dtype.type(0)
    size, columns, inner = product.itemsize, product.shape[1], left.shape[1]
    a, b, c = left.ctypes.data, right.ctypes.data, product.ctypes.data
    a_row, a_column, b_row, c_row = left.strides[0], left.strides[1], right.strides[0], product.strides[0]
    narrow = VECTOR // size
    wide = 3 * narrow
    tall = len(left) - len(left) % ROWS
    threes = columns - columns % wide
    for j in range(0, threes, wide):  # so many columns on the right stay in a core's first cache
        for i in range(0, tall, ROWS):
            tall_wide(a + i * a_row, a_row, a_column, b + j * size, b_row, c + i * c_row + j * size, c_row, inner, like)
        for i in range(tall, len(left)):
            flat_wide(a + i * a_row, a_row, a_column, b + j * size, b_row, c + i * c_row + j * size, c_row, inner, like)
    for j in range(threes, columns, narrow):
        for i in range(0, tall, ROWS):
            tall_narrow(
                a + i * a_row, a_row, a_column, b + j * size, b_row, c + i * c_row + j * size, c_row, inner, like
            )
        for i in range(tall, len(left)):
            flat_narrow(
                a + i * a_row, a_row, a_column, b + j * size, b_row, c + i * c_row + j * size, c_row, inner, like
            )


@compiled
def add_rows_of(flat: Any, starts: Any, sizes: Any, to: Any) -> None:
    """to += the stretches of `flat` that begin at these int32 places, each times its size; whole cache lines long."""
    like = to.dtype.type(0)
    size, count = to.itemsize, len(starts)
    narrow = VECTOR // size
    far = len(to) - len(to) % (LONG * narrow)
    t, r, a, b = to.ctypes.data, flat.ctypes.data, starts.ctypes.data, sizes.ctypes.data
    for j in range(0, far, LONG * narrow):
        long_sum(t + j * size, r + j * size, a, b, count, like)
    for j in range(far, len(to), narrow):
        short_sum(t + j * size, r + j * size, a, b, count, like)


@compiled
def add_rows_to(to: Any, places: Any, flat: Any, starts: Any, sizes: Any, reach: int) -> None:
    """What begins at each of `places` in `to` += what begins at `starts` in `flat`, times its size; so far reaching."""
    like = to.dtype.type(0)
    size, count = to.itemsize, len(starts)
    narrow = VECTOR // size
    far = reach - reach % (LONG * narrow)
    t, p, r, a, b = to.ctypes.data, places.ctypes.data, flat.ctypes.data, starts.ctypes.data, sizes.ctypes.data
    for j in range(0, far, LONG * narrow):
        long_spread(t + j * size, p, r + j * size, a, b, count, like)
    for j in range(far, reach, narrow):
        short_spread(t + j * size, p, r + j * size, a, b, count, like)


@compiled
def maxima_of_sums(table: Any, rows: Any, first: int, count: int, best: Any, place: Any) -> None:
    """A token's features are the sum of stretches of the table, which begin at these int32 places (T, …). Of `count`
    tokens from the first on (one at least), the maxima, and which token has each, the first of several.
    """
    like = best.dtype.type(0)
    size = best.itemsize
    few = VECTOR // size
    many = len(best) - len(best) % (MANY * few)
    a, b, each = table.ctypes.data, rows.ctypes.data, rows.shape[1]
    c, d = best.ctypes.data, place.ctypes.data
    for j in range(0, many, MANY * few):
        many_maxima(a + j * size, b, each, first, count, c + j * size, d + j * 4, like)
    for j in range(many, len(best), few):
        few_maxima(a + j * size, b, each, first, count, c + j * size, d + j * 4, like)
