"""Dropout from a counter: the same numbers on every device, whatever else is drawn beside it.

Whether a number is dropped is a hash of its place and of one key per call, so stacked training drops exactly what
platforms drop one by one, a GPU what a CPU drops, and no generator's state has to be kept. Forward and backward
multiply by the same scales.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrel.kernels.jit import compiled, usable

# The constants of a well-known mixing of 32 bits (Wellons, "lowbias32"), as signed numbers where torch needs them
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B
_HALF = 1 << 31


class Draws:
    """The draws of one training: the keys of its calls follow from the seed alone."""

    def __init__(self, seed: int) -> None:
        self._seed, self._calls = seed, 0

    def next_key(self) -> int:
        """The key of the next call."""
        self._calls += 1
        return key(self._seed, self._calls - 1)


def key(seed: int, call: int) -> int:
    """32 bits, signed, for the call of this number, from 0 on, in a training with this seed: Steele's splitmix64."""
    x = (seed + (call + 1) * 0x9E3779B97F4A7C15) % (1 << 64)
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % (1 << 64)
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % (1 << 64)
    return ((x ^ (x >> 31)) >> 32) - _HALF


def kept(vectors: Tensor, key: int, dropout: float) -> Tensor:
    """Like `vectors`, 1/(1-dropout) where a number stays and 0 where it goes."""
    if usable(vectors.device):
        exact = vectors.dtype if vectors.dtype in (torch.float32, torch.float64) else torch.float32
        scales = torch.empty(vectors.shape, dtype=exact)
        array = scales.view(-1).numpy()
        draw_scales(array, *settings(key, dropout, array.dtype))
        return scales.to(vectors.dtype)  # numpy knows no bfloat16
    return kept_by(key, vectors, dropout)


def kept_by(key: Tensor | int, vectors: Tensor, dropout: float) -> Tensor:
    """Like `kept`, by torch alone: the key may lie on a device, where asking for its value would mean to wait."""
    places = torch.arange(vectors.numel(), dtype=torch.int32, device=vectors.device)
    return (stays(places + key, dropout).to(vectors.dtype) / (1 - dropout)).view(vectors.shape)


def stays(places: Tensor, dropout: float) -> Tensor:
    """True where a number stays, given its place plus the key (int32)."""
    x = (places ^ ((places >> 16) & 0xFFFF)) * _FIRST
    x = (x ^ ((x >> 15) & 0x1FFFF)) * (_SECOND - (1 << 32))
    x = x ^ ((x >> 16) & 0xFFFF)
    return (x ^ -_HALF) >= _threshold(dropout) - _HALF  # unsigned numbers compared as signed ones


def _threshold(dropout: float) -> int:
    return min(round(dropout * (1 << 32)), (1 << 32) - 1)


def settings(key: int, dropout: float, kind: Any) -> tuple[Any, Any, Any]:
    """Key, threshold and scale for `draw_scales`, for numbers of this kind."""
    return np.uint32(key % (1 << 32)), np.uint32(_threshold(dropout)), kind.type(1 / (1 - dropout))


@compiled
def draw_scales(scales: Any, key: Any, threshold: Any, scale: Any) -> None:
    """scales (n,) ← `scale` where a number stays, 0 where it is dropped: its place and the key, hashed, say which."""
    for i in range(len(scales)):
        x = np.uint32(np.uint32(i) + key)
        x = np.uint32(np.uint32(x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
        x = np.uint32(np.uint32(x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
        x = np.uint32(x ^ (x >> np.uint32(16)))
        scales[i] = scale if x >= threshold else 0
