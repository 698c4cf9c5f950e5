"""Numbers as integers that add up exactly, and masks that hide them: the arithmetic of secure_sum.py.

A real x is kept as round(x · 2^f) mod 2^32, so a sum of integers is the sum of the numbers however it is ordered, and
a mask that is random mod 2^32 hides what it is added to completely. Masks are streams of AES-256 in counter mode; their
keys come from X25519 agreements or random seeds by HKDF-SHA256, each for one purpose. All of it from `cryptography`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Words = NDArray[np.uint32]  # integers mod 2^32

_MOST = 2**31 - 1  # the sum's absolute value
_BOUNDS = (1e-30, 1e30)
_PIECE = 2**14  # numbers at once: they stay in the CPU's cache while every stream passes
_BLOCK = 16  # bytes of AES


@dataclass(frozen=True)
class FixedPoint:
    """How numbers of absolute value `bound` at most are kept, so that no sum over `parties` of them overflows."""

    bound: float
    parties: int

    def __post_init__(self) -> None:
        if not _BOUNDS[0] <= self.bound <= _BOUNDS[1]:
            raise ValueError(f"bound = {self.bound:g}: must be from {_BOUNDS[0]:g} to {_BOUNDS[1]:g}")
        if not 1 <= self.parties <= _MOST // 2:
            raise ValueError(f"parties = {self.parties}: must be from 1 to {_MOST // 2}")

    @property
    def scale(self) -> float:
        """2^f, as large as can be with parties · (bound · 2^f + 1/2) ≤ 2^31 - 1."""
        return 2.0 ** (math.frexp((_MOST / self.parties - 0.5) / self.bound)[1] - 1)

    def encode(self, numbers: NDArray[np.floating]) -> Words:
        """(n,) from reals (n,). Raises ValueError for a number beyond the bound, and for NaN: a sum with it would be
        wrong without a sign.
        """
        encoded = np.empty(len(numbers), np.uint32)
        for start in range(0, len(numbers), _PIECE):
            exact = numbers[start : start + _PIECE].astype(np.float64)
            if not bool((np.abs(exact) <= self.bound).all()):
                raise ValueError(f"a number is not within {self.bound:g}")
            encoded[start : start + _PIECE] = np.rint(exact * self.scale).astype(np.int32).view(np.uint32)
        return encoded

    def decode(self, total: Words) -> NDArray[np.float64]:
        """The sum, each number off by at most parties / (2 · scale)."""
        return total.view(np.int32) / self.scale


def packed(*parts: bytes) -> bytes:
    """The parts with their lengths, so that no two lists of parts give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def derived_key(secret: bytes, *purpose: bytes) -> bytes:
    """32 bytes by HKDF-SHA256, unrelated to those for any other purpose."""
    return HKDF(SHA256(), 32, None, packed(*purpose)).derive(secret)


def agreed_secret(own: X25519PrivateKey, other: bytes) -> bytes:
    """What the holders of two X25519 keys compute alike. Raises ValueError for a key that agrees on nothing secret."""
    return own.exchange(X25519PublicKey.from_public_bytes(other))


def public_bytes(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def add_streams(total: Words, *, add: Collection[bytes], subtract: Collection[bytes]) -> None:
    """Adds the streams of some keys to the numbers in place, mod 2^32, and takes those of others away. A key gives one
    stream, whose counter begins at 0: never use it for another purpose.
    """
    streams = [(_counting(key), change) for keys, change in ((add, np.add), (subtract, np.subtract)) for key in keys]
    zeros, buffer = memoryview(bytes(4 * _PIECE)), bytearray(4 * _PIECE + _BLOCK - 1)
    for start in range(0, len(total), _PIECE):
        piece = total[start : start + _PIECE]
        drawn = np.frombuffer(buffer, "<u4", len(piece))
        for stream, change in streams:
            stream.update_into(zeros[: piece.nbytes], buffer)
            change(piece, drawn, out=piece)


def _counting(key: bytes, start: bytes = bytes(_BLOCK)) -> CipherContext:
    return Cipher(AES256(key), CTR(start)).encryptor()
