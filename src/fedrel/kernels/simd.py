"""Sums that stay in a core's registers while they grow, which compilers do not manage by themselves. Written as code
for LLVM, through numba's own way to do that; for inside of compiled loops only.
"""

from __future__ import annotations

from typing import Any

from fedrel.kernels.jit import AVAILABLE

if AVAILABLE:
    from llvmlite import ir
    from llvmlite.binding import get_host_cpu_features
    from numba import types
    from numba.core import cgutils as _cgutils
    from numba.extending import intrinsic

    _INTP = ir.IntType(64)
    cgutils: Any = _cgutils
    try:
        _WIDE = bool(get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # LLVM cannot tell on every kind of machine
        _WIDE = False
else:
    _WIDE = False

VECTOR = 64 if _WIDE else 32  # bytes in a register
ROWS = 8 if _WIDE else 4  # of a tile of a product; times three columns that many sums find room in registers
LONG = 12  # vectors of a long sum
MANY = 5  # vectors of which maxima are found at once


class _Sums:
    """Sums of vectors of one kind of number. They are variables on the stack, which LLVM turns into registers."""

    def __init__(self, builder: Any, kind: Any, count: int) -> None:
        self.builder, self.kind = builder, kind
        self.lanes = VECTOR // (4 if isinstance(kind, ir.FloatType) else 8)
        self.number = _INTP(VECTOR // self.lanes)  # its bytes
        self.vector = ir.VectorType(kind, self.lanes)
        self.places = [cgutils.alloca_once(builder, self.vector) for _ in range(count)]

    def more(self, count: int, kind: Any = None) -> list[Any]:
        """More variables."""
        vector = ir.VectorType(kind or self.kind, self.lanes)
        return [cgutils.alloca_once(self.builder, vector) for _ in range(count)]

    def constant(self, value: float) -> Any:
        return ir.Constant(self.vector, [value] * self.lanes)

    def all(self, number: Any) -> Any:
        """A vector of this number."""
        vector = ir.VectorType(number.type, self.lanes)
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)

    def pointer(self, address: Any, kind: Any) -> Any:
        return self.builder.inttoptr(address, kind.as_pointer())

    def load(self, address: Any, number: int = 0) -> Any:
        """The n-th vector from there on; it need not begin a cache line."""
        return self.builder.load(self._at(address, number, self.vector), align=1)

    def store(self, address: Any, number: int, value: Any) -> None:
        self.builder.store(value, self._at(address, number, value.type), align=1)

    def spread(self, address: Any) -> Any:
        """A vector of the number there."""
        return self.all(self.builder.load(self.pointer(address, self.kind)))

    def add(self, place: Any, left: Any, right: Any) -> None:
        product = self.builder.fmul(left, right, flags=["contract"])  # with the sum one instruction
        self.builder.store(self.builder.fadd(product, self.builder.load(place), flags=["contract"]), place)

    def beyond(self, address: Any, count: Any, distance: Any) -> Any:
        return self.builder.add(address, self.builder.mul(count, distance))

    def row(self, table: Any, starts: Any, index: Any) -> Any:
        """Where in the table the row begins that the n-th of `starts` (int32) tells."""
        start = self.builder.load(self.pointer(self.beyond(starts, index, _INTP(4)), ir.IntType(32)))
        return self.beyond(table, self.builder.sext(start, _INTP), self.number)

    def _at(self, address: Any, number: int, vector: Any) -> Any:
        return self.builder.gep(self.pointer(address, vector), [_INTP(number)])


def _tile_of(rows: int, vectors: int) -> Any:
    """C ← A·B of so many rows, and so many vectors of columns. A's numbers may stand at any distances."""

    @intrinsic
    def tile(
        typing: Any, a: Any, a_row: Any, a_column: Any, b: Any, b_row: Any, c: Any, c_row: Any, inner: Any, like: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, a_row, a_column, b, b_row, c, c_row, inner, _ = arguments
            sums = _Sums(builder, context.get_data_type(signature.args[-1]), rows * vectors)
            for place in sums.places:
                builder.store(ir.Constant(sums.vector, None), place)
            with cgutils.for_range(builder, inner) as loop:
                columns = [sums.load(sums.beyond(b, loop.index, b_row), v) for v in range(vectors)]
                left = sums.beyond(a, loop.index, a_column)
                for r in range(rows):
                    factor = sums.spread(sums.beyond(left, _INTP(r), a_row))
                    for v in range(vectors):
                        sums.add(sums.places[r * vectors + v], factor, columns[v])
            for r in range(rows):
                for v in range(vectors):
                    sums.store(sums.beyond(c, _INTP(r), c_row), v, builder.load(sums.places[r * vectors + v]))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8, like), generate

    return tile


def _sum_of(vectors: int) -> Any:
    """to += the rows that begin at these places, each times its size, as far as so many vectors reach."""

    @intrinsic
    def row_sum(typing: Any, to: Any, rows: Any, starts: Any, sizes: Any, count: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, rows, starts, sizes, count, _ = arguments
            sums = _Sums(builder, context.get_data_type(signature.args[-1]), vectors)
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
    """The numbers that begin at each of `places` += the row that begins at the same of `starts`, times its size."""

    @intrinsic
    def spread(typing: Any, to: Any, places: Any, rows: Any, starts: Any, sizes: Any, count: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, places, rows, starts, sizes, count, _ = arguments
            sums = _Sums(builder, context.get_data_type(signature.args[-1]), 1)
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


def _maxima_of(vectors: int) -> Any:
    """A token's features are the sum of some rows of a table. Of the tokens from `first` on, `best` ← their maxima, and
    `place` (int32) ← which token has it, the first of several; so many vectors of features.
    """

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
            sums = _Sums(builder, context.get_data_type(signature.args[-1]), vectors)
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


if AVAILABLE:
    tall_wide, tall_narrow, flat_wide, flat_narrow = (
        _tile_of(ROWS, 3),
        _tile_of(ROWS, 1),
        _tile_of(1, 3),
        _tile_of(1, 1),
    )
    long_sum, short_sum = _sum_of(LONG), _sum_of(1)
    long_spread, short_spread = _spread_of(LONG), _spread_of(1)
    many_maxima, few_maxima = _maxima_of(MANY), _maxima_of(1)
else:
    tall_wide = tall_narrow = flat_wide = flat_narrow = None
    long_sum = short_sum = long_spread = short_spread = many_maxima = few_maxima = None
