"""Tags, by which platforms recognise an opened sum as the sum of what they sent: without them a coordinator could say
that any numbers were opened.

Platforms share a key that the coordinator lacks. From the key and the name of the sum all of them draw the same random
r, and each adds to its numbers x, as signed integers,

    T = Σ_i r_i x_i mod 2^64,      two of them, each as two numbers mod 2^32, the lower half first.

Tags add up as numbers do, and are hidden by the same masks. Whoever has r computes the tags of the sum; what the upper
half misses is what the lower halves carried over, less than the number of platforms. A change by d, 0 < |d| < 2^32, of
any of the numbers changes r·d among at least 2^33 values, so a coordinator that does not know r, and sees of tags only
their sums, is found out but for one case in 2^31 / platforms, with each of the two.

Numbers that are cyclic are known mod 2^32 alone, and have 32 tags mod 2^32 of their own: for the least noticeable
change, by 2^31, each is right in one case of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fedrel.privacy.fixed_point import Words
from fedrel.privacy.masks import derived_key
from fedrel.privacy.stretches import each_stretch

_EXACT, _CYCLIC = 2, 32  # tags
_PIECE = 2**14  # numbers at once: they stay in the CPU's cache
_BLOCK = 16  # bytes of AES


def count(cyclic: Sequence[slice]) -> int:
    """Numbers that tags take, of a vector with these cyclic stretches."""
    return 2 * _EXACT + (_CYCLIC if cyclic else 0)


def of(numbers: Words, cyclic: Sequence[slice], key: bytes) -> Words:
    """(count,) the tags of numbers (n,)."""
    exact = _products(numbers, _keys(key, b"exact", _EXACT), np.uint64, without=cyclic)
    halves = [half for tag in exact for half in (tag & 0xFFFFFFFF, tag >> 32)]
    around = np.concatenate([numbers[stretch] for stretch in cyclic]) if cyclic else numbers[:0]
    rest = _products(around, _keys(key, b"cyclic", _CYCLIC if cyclic else 0), np.uint32)
    return np.array([*halves, *rest], np.uint32)


def fit(total: Words, tags: Words, cyclic: Sequence[slice], key: bytes, platforms: int) -> bool:
    """Whether the sums of tags belong to the sum (n,) of the numbers of so many platforms."""
    if len(tags) != count(cyclic):
        return False
    off = (of(total, cyclic, key) - tags).astype(np.uint32)
    upper = off[1 : 2 * _EXACT : 2].copy()
    off[1 : 2 * _EXACT : 2] = 0
    return not off.any() and bool((upper < platforms).all())


def _keys(key: bytes, purpose: bytes, count: int) -> list[bytes]:
    return [derived_key(key, purpose, bytes([tag])) for tag in range(count)]


def _products(
    numbers: Words, keys: Sequence[bytes], kind: type[np.uint32 | np.uint64], without: Sequence[slice] = ()
) -> list[int]:
    """For the stream r of every key, Σ r_i x_i mod 2^32, or 2^64, of signed numbers x (n,) but for some of them."""
    width = np.dtype(kind).itemsize
    zeros = memoryview(bytes(width * _PIECE))

    def products(_: int, stretch: slice) -> list[int]:
        first = width * stretch.start // _BLOCK  # every stretch begins with a block
        streams = [Cipher(AES256(key), CTR(first.to_bytes(_BLOCK, "big"))).encryptor() for key in keys]
        totals, buffer = [0] * len(streams), bytearray(width * _PIECE + _BLOCK)
        for start in range(stretch.start, stretch.stop, _PIECE):
            signed = numbers[start : min(start + _PIECE, stretch.stop)].view(np.int32)
            piece: NDArray[Any] = signed.astype(np.int64 if width == 8 else np.int32).view(kind)
            for left_out in without:
                piece[max(left_out.start - start, 0) : max(left_out.stop - start, 0)] = 0
            drawn: NDArray[Any] = np.frombuffer(buffer, kind, len(piece))
            for place, stream in enumerate(streams):
                stream.update_into(zeros[: piece.nbytes], buffer)
                totals[place] += int((piece * drawn).sum(dtype=kind))
        return totals

    found = each_stretch(products, len(numbers))
    return [sum(totals[place] for totals in found) % 2 ** (8 * width) for place in range(len(keys))]
