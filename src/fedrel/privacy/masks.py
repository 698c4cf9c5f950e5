"""Masks that hide integers mod 2^32: a random one hides what it is added to completely.

They are streams of AES-256 in counter mode; their keys come from X25519 agreements or random seeds by HKDF-SHA256, each
for one purpose. All of it from `cryptography`.

A stream is made in stretches, so that all cores can work on it: stretch i counts from i · 2^32 + 2 on, in 128 bits. So
does AES-GCM under the nonce i, of which OpenSSL computes several blocks at once on processors with AVX-512, in less
than half the time; on others plain counter mode is faster. The bytes are the same, so a party takes what is faster on
its machine. (GCM's tag is left out: it would protect a message.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from functools import cache

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR, GCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedrel.privacy.fixed_point import Words
from fedrel.privacy.stretches import STRETCH, each_stretch

_BLOCK = 16  # bytes of AES
_ZEROS = memoryview(bytes(4 * STRETCH))


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
    stream: never use it for another purpose.
    """
    streams = [(key, change) for keys, change in ((add, np.add), (subtract, np.subtract)) for key in keys]
    counting = _fastest() if streams else _plainly

    def pass_by(place: int, stretch: slice) -> None:
        """Every stream passes while the numbers of a stretch are in the processor's cache."""
        piece, buffer = total[stretch], _buffer()
        drawn = np.frombuffer(buffer, "<u4", len(piece))
        for key, change in streams:
            counting(key, place).update_into(_ZEROS[: piece.nbytes], buffer)
            change(piece, drawn, out=piece)

    each_stretch(pass_by, len(total))


def _plainly(key: bytes, stretch: int) -> CipherContext:
    """Gives a key's stream from the beginning of a stretch on."""
    return Cipher(AES256(key), CTR(((stretch << 32) + 2).to_bytes(_BLOCK, "big"))).encryptor()


def _by_gcm(key: bytes, stretch: int) -> CipherContext:
    """Gives the same bytes."""
    return Cipher(AES256(key), GCM(stretch.to_bytes(_BLOCK - 4, "big"))).encryptor()


@cache
def _fastest() -> Callable[[bytes, int], CipherContext]:
    """Which of the two takes less time on this machine; a trial of a few milliseconds."""
    buffer, seconds = _buffer(), dict[Callable[[bytes, int], CipherContext], float]()
    for counting in (_plainly, _by_gcm) * 3:
        begin = time.thread_time()
        counting(bytes(32), 0).update_into(_ZEROS, buffer)
        seconds[counting] = min(time.thread_time() - begin, seconds.get(counting, math.inf))
    return min(seconds, key=seconds.__getitem__)


def _buffer() -> bytearray:
    """That a stretch of a stream fits into; `cryptography` asks for a little more."""
    return bytearray(4 * STRETCH + _BLOCK - 1)
