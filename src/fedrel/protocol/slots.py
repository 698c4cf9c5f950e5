"""Facts in slots, and random numbers whose sum over platforms tells the highest of their values and nothing else.

A fact falls into one slot of each of several tables, by a hash of its blinded key. In every slot a platform has one
byte a step, the highest step first: 0 in the steps above its value, a random one that is not 0 in the step that it
reaches, random ones after that. Four of them are one number mod 2^32, the first its lowest digits, so what a sum
carries over goes to lower steps, where everything is random already. The first byte of a slot that is not 0 in the sum
over platforms is the highest value of all, however many platforms reach it; where several do, in one case in 255 their
bytes add up to 0, and a lower value is read. All lower bytes are uniformly random and say nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

TABLES = 2
_WORD = 4  # bytes of a number, and of a hash that one table takes


def slots_of(keys: Tensor, window: int, slots: int) -> Tensor:
    """(tables, n) where facts with these blinded keys (n,) lie in a window of rounds. Nobody who lacks the keys can
    tell, nor who knows it in one window, where they lie in another.
    """
    salt = window.to_bytes(hashlib.blake2b.SALT_SIZE, "little")
    hashed = (hashlib.blake2b(key.to_bytes(8, "little", signed=True), salt=salt) for key in keys.tolist())
    words = b"".join(it.digest()[: _WORD * TABLES] for it in hashed)
    numbers = np.frombuffer(words, "<u4").reshape(-1, TABLES).T.astype(np.int64)
    return torch.from_numpy(numbers % slots)


def words_for(steps: int) -> int:
    """Numbers of a slot with so many steps."""
    return -(-steps // _WORD)


def random_up_to(slot: Tensor, value: Tensor, slots: int, steps: int, stream: Callable[[bytes, int], bytes]) -> Tensor:
    """(tables, slots, words) int32, from the slots (tables, n) of facts and the value of each (n,), from 0 to `steps`.
    Of facts that share a slot, the highest value counts. `stream`: random bytes, other ones for other values, so that
    no difference between two tables of one platform says which bytes are random.
    """
    most = torch.zeros(TABLES, slots, dtype=torch.int64)
    most.scatter_reduce_(1, slot, value.expand(TABLES, -1), "amax")
    width = _WORD * words_for(steps)
    bytes_ = stream(most.numpy().tobytes(), TABLES * slots * width)
    drawn = np.frombuffer(bytes_, np.uint8).reshape(TABLES, slots, width)
    first = torch.where(most > 0, steps - most, width).numpy()[:, :, None]  # where the first byte that is not 0 is
    place = np.arange(width)
    found = np.where(place < first, 0, np.where(place == first, drawn % 255 + 1, drawn)).astype(np.uint8)
    return torch.from_numpy(found.view("<i4").astype(np.int32))


def highest(random: Tensor, steps: int) -> Tensor:
    """(tables, slots) uint8: the highest value of all, from the sum of their numbers (tables, slots, words)."""
    digits = np.ascontiguousarray(random.numpy(), "<i4").view(np.uint8)[:, :, :steps] != 0
    found = np.where(digits.any(2), steps - digits.argmax(2), 0)
    return torch.from_numpy(found.astype(np.uint8))
