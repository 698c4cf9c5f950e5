"""Masks that hide integers mod 2^32: a random one hides what it is added to completely.

They are streams of AES-256 in counter mode; their keys come from X25519 agreements or random seeds by HKDF-SHA256, each
for one purpose. All of it from `cryptography`.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedrel.privacy.fixed_point import Words

_PIECE = 2**14  # numbers at once: they stay in the CPU's cache while every stream passes
_BLOCK = 16  # bytes of AES


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
