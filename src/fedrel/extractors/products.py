"""Small products inside compiled loops, where calling a library would cost more than the product."""

from __future__ import annotations

from typing import Any

from fedrel.compiled import compiled


@compiled
def scalar_products(rows: Any, seen: Any, products: Any) -> None:
    """Of each row with what is seen, four at a time: it is then read a quarter as often."""
    fours = len(rows) - len(rows) % 4
    for i in range(0, fours, 4):
        a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        r = s = t = u = rows.dtype.type(0)
        for j in range(len(seen)):
            r += a[j] * seen[j]
            s += b[j] * seen[j]
            t += c[j] * seen[j]
            u += d[j] * seen[j]
        products[i], products[i + 1], products[i + 2], products[i + 3] = r, s, t, u
    for i in range(fours, len(rows)):
        r, a = rows.dtype.type(0), rows[i]
        for j in range(len(seen)):
            r += a[j] * seen[j]
        products[i] = r


@compiled
def multiply(left: Any, right: Any, product: Any) -> None:
    """product ← left·right, four rows of the right at a time: their sum stays in registers."""
    inner = left.shape[1]  # there may be more rows on the right, which do not count
    fours = inner - inner % 4
    for i in range(len(left)):
        to = product[i]
        to[:] = 0
        for k in range(0, fours, 4):
            a, b, c, d = right[k], right[k + 1], right[k + 2], right[k + 3]
            r, s, t, u = left[i, k], left[i, k + 1], left[i, k + 2], left[i, k + 3]
            for j in range(len(to)):
                to[j] += (r * a[j] + s * b[j]) + (t * c[j] + u * d[j])
        for k in range(fours, inner):
            r, a = left[i, k], right[k]
            for j in range(len(to)):
                to[j] += r * a[j]
