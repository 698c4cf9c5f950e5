"""Vector registers for compiled loops: the means to write LLVM code whose sums stay in registers while they grow, which
compilers do not manage by themselves. matmul.py, row_sums.py and row_maxima.py are written with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedrel.kernels.jit import AVAILABLE

ir: Any = None
cgutils: Any = None
types: Any = None
INTP: Any = None  # the type of an address
_wide = False
if AVAILABLE:
    import llvmlite.binding
    import llvmlite.ir
    import numba.core.cgutils
    import numba.extending

    ir, cgutils, types = llvmlite.ir, numba.core.cgutils, numba.types
    INTP = ir.IntType(64)
    try:
        _wide = bool(llvmlite.binding.get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # LLVM cannot tell on every kind of machine
        _wide = False

VECTOR = 64 if _wide else 32  # bytes in a register
TALL = 8 if _wide else 4  # rows of a tile of a product; times three columns that many sums fit into registers


def intrinsic(function: Callable[..., Any]) -> Any:
    """numba's way to write a function as LLVM code; it can be called in compiled loops alone."""
    return numba.extending.intrinsic(function)


class Sums:
    """So many sums of vectors of one kind of number: variables on the stack, which LLVM turns into registers. Addresses
    are whole numbers, distances are bytes.
    """

    def __init__(self, builder: Any, kind: Any, count: int) -> None:
        self.builder, self.kind = builder, kind
        self.lanes = VECTOR // (4 if isinstance(kind, ir.FloatType) else 8)
        self.number = INTP(VECTOR // self.lanes)  # its bytes
        self.vector = ir.VectorType(kind, self.lanes)
        self.places = [cgutils.alloca_once(builder, self.vector) for _ in range(count)]

    def more(self, count: int, kind: Any = None) -> list[Any]:
        """So many more variables, of this kind of number or of the sums' own."""
        vector = ir.VectorType(kind or self.kind, self.lanes)
        return [cgutils.alloca_once(self.builder, vector) for _ in range(count)]

    def constant(self, value: float) -> Any:
        """A vector with a number known at compile time in every place."""
        return ir.Constant(self.vector, [value] * self.lanes)

    def all(self, number: Any) -> Any:
        """A vector with this number in every place."""
        vector = ir.VectorType(number.type, self.lanes)
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)

    def pointer(self, address: Any, kind: Any) -> Any:
        """The address as a pointer to something of this kind."""
        return self.builder.inttoptr(address, kind.as_pointer())

    def load(self, address: Any, number: int = 0) -> Any:
        """The vector that is so many vectors behind the address; it need not begin a cache line."""
        return self.builder.load(self._at(address, number, self.vector), align=1)

    def store(self, address: Any, number: int, value: Any) -> None:
        """Writes a vector so many vectors behind the address."""
        self.builder.store(value, self._at(address, number, value.type), align=1)

    def spread(self, address: Any) -> Any:
        """A vector with the number at the address in every place."""
        return self.all(self.builder.load(self.pointer(address, self.kind)))

    def add(self, place: Any, left: Any, right: Any) -> None:
        """The variable += left · right."""
        product = self.builder.fmul(left, right, flags=["contract"])  # with the sum one instruction
        self.builder.store(self.builder.fadd(product, self.builder.load(place), flags=["contract"]), place)

    def beyond(self, address: Any, count: Any, distance: Any) -> Any:
        """address + count · distance."""
        return self.builder.add(address, self.builder.mul(count, distance))

    def row(self, table: Any, starts: Any, index: Any) -> Any:
        """The address in the table of the row that begins at the number `starts`[index] (int32)."""
        start = self.builder.load(self.pointer(self.beyond(starts, index, INTP(4)), ir.IntType(32)))
        return self.beyond(table, self.builder.sext(start, INTP), self.number)

    def _at(self, address: Any, number: int, vector: Any) -> Any:
        return self.builder.gep(self.pointer(address, vector), [INTP(number)])
