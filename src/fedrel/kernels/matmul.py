"""Matrix products inside compiled loops, as fast as a core can multiply and without a call of a library. The backward
products are the same function on transposed views.
"""

from __future__ import annotations

from typing import Any

from fedrel.kernels.jit import AVAILABLE, compiled
from fedrel.kernels.simd import INTP, TALL, VECTOR, Sums, cgutils, intrinsic, ir, types


def _tile_of(rows: int, vectors: int) -> Any:
    """C ← A·B for so many rows, and so many vectors of columns. The numbers of A may lie at any distances."""

    @intrinsic
    def tile(
        typing: Any, a: Any, a_row: Any, a_column: Any, b: Any, b_row: Any, c: Any, c_row: Any, inner: Any, like: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, a_row, a_column, b, b_row, c, c_row, inner, _ = arguments
            sums = Sums(builder, context.get_data_type(signature.args[-1]), rows * vectors)
            for place in sums.places:
                builder.store(ir.Constant(sums.vector, None), place)
            with cgutils.for_range(builder, inner) as loop:
                columns = [sums.load(sums.beyond(b, loop.index, b_row), v) for v in range(vectors)]
                left = sums.beyond(a, loop.index, a_column)
                for r in range(rows):
                    factor = sums.spread(sums.beyond(left, INTP(r), a_row))
                    for v in range(vectors):
                        sums.add(sums.places[r * vectors + v], factor, columns[v])
            for r in range(rows):
                for v in range(vectors):
                    sums.store(sums.beyond(c, INTP(r), c_row), v, builder.load(sums.places[r * vectors + v]))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8, like), generate

    return tile


_tall_wide: Any
_tall_narrow: Any
_flat_wide: Any
_flat_narrow: Any
if AVAILABLE:
    _tall_wide, _tall_narrow, _flat_wide, _flat_narrow = (
        _tile_of(TALL, 3),
        _tile_of(TALL, 1),
        _tile_of(1, 3),
        _tile_of(1, 1),
    )


@compiled
def multiply(left: Any, right: Any, product: Any) -> None:
    """product (m, n) ← left (m, k) · right (k or more, n). Rows on the right and of the product lie end to end and are
    padded; the numbers on the left may lie in any way.
    """
    like = product.dtype.type(0)
    size, columns, inner = product.itemsize, product.shape[1], left.shape[1]
    a, b, c = left.ctypes.data, right.ctypes.data, product.ctypes.data
    a_row, a_column, b_row, c_row = left.strides[0], left.strides[1], right.strides[0], product.strides[0]
    narrow = VECTOR // size
    wide = 3 * narrow
    tall = len(left) - len(left) % TALL
    threes = columns - columns % wide
    for j in range(0, threes, wide):  # so many columns on the right stay in a core's first cache
        for i in range(0, tall, TALL):
            _tall_wide(
                a + i * a_row, a_row, a_column, b + j * size, b_row, c + i * c_row + j * size, c_row, inner, like
            )
        for i in range(tall, len(left)):
            _flat_wide(
                a + i * a_row, a_row, a_column, b + j * size, b_row, c + i * c_row + j * size, c_row, inner, like
            )
    for j in range(threes, columns, narrow):
        for i in range(0, tall, TALL):
            _tall_narrow(
                a + i * a_row, a_row, a_column, b + j * size, b_row, c + i * c_row + j * size, c_row, inner, like
            )
        for i in range(tall, len(left)):
            _flat_narrow(
                a + i * a_row, a_row, a_column, b + j * size, b_row, c + i * c_row + j * size, c_row, inner, like
            )
