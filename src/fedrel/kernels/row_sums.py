"""Weighted sums of rows: gathered into one row, and, the other way round, scattered to many."""

from __future__ import annotations

from typing import Any

from fedrel.kernels.jit import AVAILABLE, compiled
from fedrel.kernels.simd import VECTOR, Sums, cgutils, intrinsic, types

_LONG = 12  # vectors of a long sum


def _sum_of(vectors: int) -> Any:
    """to += the rows that begin at `starts`, each times its size; so many vectors of each."""

    @intrinsic
    def row_sum(typing: Any, to: Any, rows: Any, starts: Any, sizes: Any, count: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, rows, starts, sizes, count, _ = arguments
            sums = Sums(builder, context.get_data_type(signature.args[-1]), vectors)
            for v, place in enumerate(sums.places):
                builder.store(sums.load(to, v), place)
            with cgutils.for_range(builder, count) as loop:
                row = sums.row(rows, starts, loop.index)
                size = sums.spread(sums.beyond(sizes, loop.index, sums.number))
                for v, place in enumerate(sums.places):
                    sums.add(place, size, sums.load(row, v))
            for v, place in enumerate(sums.places):
                sums.store(to, v, builder.load(place))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5, like), generate

    return row_sum


def _spread_of(vectors: int) -> Any:
    """What begins at places[i] += the row that begins at starts[i], times sizes[i], for every i; so many vectors."""

    @intrinsic
    def spread(typing: Any, to: Any, places: Any, rows: Any, starts: Any, sizes: Any, count: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, places, rows, starts, sizes, count, _ = arguments
            sums = Sums(builder, context.get_data_type(signature.args[-1]), 1)
            with cgutils.for_range(builder, count) as loop:
                row, here = sums.row(rows, starts, loop.index), sums.row(to, places, loop.index)
                size = sums.spread(sums.beyond(sizes, loop.index, sums.number))
                for v in range(vectors):
                    builder.store(sums.load(here, v), sums.places[0])
                    sums.add(sums.places[0], size, sums.load(row, v))
                    sums.store(here, v, builder.load(sums.places[0]))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6, like), generate

    return spread


_long_sum: Any
_short_sum: Any
_long_spread: Any
_short_spread: Any
if AVAILABLE:
    _long_sum, _short_sum = _sum_of(_LONG), _sum_of(1)
    _long_spread, _short_spread = _spread_of(_LONG), _spread_of(1)


@compiled
def gather_rows(flat: Any, starts: Any, sizes: Any, to: Any) -> None:
    """to (n,) += Σ_i sizes[i] · flat[starts[i] : starts[i] + n]; n is padded, `starts` (k,) int32, `sizes` (k,)."""
    like = to.dtype.type(0)
    size, count = to.itemsize, len(starts)
    narrow = VECTOR // size
    far = len(to) - len(to) % (_LONG * narrow)
    t, r, a, b = to.ctypes.data, flat.ctypes.data, starts.ctypes.data, sizes.ctypes.data
    for j in range(0, far, _LONG * narrow):
        _long_sum(t + j * size, r + j * size, a, b, count, like)
    for j in range(far, len(to), narrow):
        _short_sum(t + j * size, r + j * size, a, b, count, like)


@compiled
def scatter_rows(to: Any, places: Any, flat: Any, starts: Any, sizes: Any, reach: int) -> None:
    """to[places[i] : places[i] + reach] += sizes[i] · flat[starts[i] : starts[i] + reach] for every i, in order;
    `reach` is padded, `places` and `starts` (k,) int32, `sizes` (k,).
    """
    like = to.dtype.type(0)
    size, count = to.itemsize, len(starts)
    narrow = VECTOR // size
    far = reach - reach % (_LONG * narrow)
    t, p, r, a, b = to.ctypes.data, places.ctypes.data, flat.ctypes.data, starts.ctypes.data, sizes.ctypes.data
    for j in range(0, far, _LONG * narrow):
        _long_spread(t + j * size, p, r + j * size, a, b, count, like)
    for j in range(far, reach, narrow):
        _short_spread(t + j * size, p, r + j * size, a, b, count, like)
