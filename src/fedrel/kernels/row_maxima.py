"""Maxima of sums of rows, without writing the sums down."""

from __future__ import annotations

from typing import Any

from fedrel.kernels.jit import AVAILABLE, compiled
from fedrel.kernels.simd import VECTOR, Sums, cgutils, intrinsic, ir, types

_MANY = 5  # vectors of which maxima are found at once


def _maxima_of(vectors: int) -> Any:
    """See maxima_of_sums; so many vectors of features."""

    @intrinsic
    def maxima(
        typing: Any,
        table: Any,
        rows: Any,  # int32: where in the table, `each` of a token
        each: Any,
        first: Any,
        count: Any,  # at least one
        best: Any,
        place: Any,
        like: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            table, rows, each, first, count, best, place, _ = arguments
            sums = Sums(builder, context.get_data_type(signature.args[-1]), vectors)
            highest, where = sums.more(vectors), sums.more(vectors, ir.IntType(32))
            for v in range(vectors):
                builder.store(sums.constant(float("-inf")), highest[v])
                builder.store(sums.all(builder.trunc(first, ir.IntType(32))), where[v])
            with cgutils.for_range(builder, count) as loop:
                token = builder.add(first, loop.index)
                for it in sums.places:
                    builder.store(ir.Constant(sums.vector, None), it)
                with cgutils.for_range(builder, each) as term:
                    row = sums.row(table, rows, sums.beyond(term.index, token, each))
                    for v, it in enumerate(sums.places):
                        builder.store(builder.fadd(builder.load(it), sums.load(row, v)), it)
                here = sums.all(builder.trunc(token, ir.IntType(32)))
                for v, it in enumerate(sums.places):
                    value, so_far = builder.load(it), builder.load(highest[v])
                    less = builder.fcmp_ordered("<=", value, so_far)  # what is no number is not
                    builder.store(builder.select(less, so_far, value), highest[v])
                    builder.store(builder.select(less, builder.load(where[v]), here), where[v])
            for v in range(vectors):
                sums.store(best, v, builder.load(highest[v]))
                sums.store(place, v, builder.load(where[v]))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7, like), generate

    return maxima


_many_maxima: Any
_few_maxima: Any
if AVAILABLE:
    _many_maxima, _few_maxima = _maxima_of(_MANY), _maxima_of(1)


@compiled
def maxima_of_sums(table: Any, rows: Any, first: int, count: int, best: Any, place: Any) -> None:
    """A token's features (n,) are the sum of stretches of the flat table that begin at rows[token] (T, k) int32. Of the
    `count` tokens from `first` on, at least one: best (n,) ← the maxima, place (n,) int32 ← the token that has each,
    the first of several. n is padded. NaN propagates.
    """
    like = best.dtype.type(0)
    size = best.itemsize
    few = VECTOR // size
    many = len(best) - len(best) % (_MANY * few)
    a, b, each = table.ctypes.data, rows.ctypes.data, rows.shape[1]
    c, d = best.ctypes.data, place.ctypes.data
    for j in range(0, many, _MANY * few):
        _many_maxima(a + j * size, b, each, first, count, c + j * size, d + j * 4, like)
    for j in range(many, len(best), few):
        _few_maxima(a + j * size, b, each, first, count, c + j * size, d + j * 4, like)
