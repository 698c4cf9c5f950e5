"""Shamir, 1979: a secret in shares, of which so many give it back and fewer say nothing at all about it.

The secret, 32 bytes as a number s, is the constant term of a random polynomial of degree threshold - 1 over the
integers mod p; holder x = 1, 2, … has its value at x. With as many values as the threshold, by Lagrange
s = Σ_x f(x) · Π_{y≠x} y / (y - x) mod p. Shares are not marked: whoever joins them must check what comes out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import lru_cache

PRIME = 2**256 + 297  # the smallest above all secrets
SECRET_BYTES, SHARE_BYTES = 32, 33


def threshold(holders: int) -> int:
    """How many shares open a secret: three in five, so that two sets of so many share a fifth of all holders."""
    return -(-3 * holders // 5)


def split(secret: bytes, holders: int, threshold: int) -> list[bytes]:
    """The shares of holders 1, 2, …, in this order."""
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= holders:
        raise ValueError(f"{len(secret)} bytes among {holders} holders, of whom {threshold} are to suffice")
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_value(coefficients, x).to_bytes(SHARE_BYTES, "big") for x in range(1, holders + 1)]


def join(shares: Mapping[int, bytes]) -> bytes:
    """The secret, from exactly as many shares as its threshold, by holder. Raises ValueError if they are shares of no
    secret.
    """
    values = {x: int.from_bytes(share, "big") for x, share in shares.items()}
    weights = _weights(tuple(sorted(values)))
    secret = sum(values[x] * weight for x, weight in weights.items()) % PRIME
    if secret >> (8 * SECRET_BYTES):
        raise ValueError("these are shares of no secret")
    return secret.to_bytes(SECRET_BYTES, "big")


def _value(coefficients: list[int], x: int) -> int:
    found = 0
    for coefficient in reversed(coefficients):
        found = (found * x + coefficient) % PRIME
    return found


@lru_cache(maxsize=4)  # the same holders answer for many secrets
def _weights(holders: tuple[int, ...]) -> dict[int, int]:
    found = {}
    for x in holders:
        above, below = 1, 1
        for y in holders:
            if y != x:
                above, below = above * y % PRIME, below * (y - x) % PRIME
        found[x] = above * pow(below, -1, PRIME) % PRIME
    return found
