"""Facts in slots, and random numbers whose sum over platforms tells the highest of their values and nothing else.

A fact falls into one slot of each of several tables, by a hash of its blinded key. In every slot a platform has one
number a step: a random one, never 0, in all steps up to its value, 0 above. The sum mod 2^32 over platforms is 0 above
the highest value of all, and random below, however many platforms there are: but for one step in 2^32, which is then
taken for the one below.
"""

from __future__ import annotations

import hashlib
import os

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


def random_up_to(slot: Tensor, value: Tensor, slots: int, steps: int) -> Tensor:
    """(tables, slots, steps) int32, from the slots (tables, n) of facts and the value of each (n,), from 0 to `steps`.
    Of facts that share a slot, the highest value counts.
    """
    most = torch.zeros(TABLES, slots, dtype=torch.int64)
    most.scatter_reduce_(1, slot, value.expand(TABLES, -1), "amax")
    drawn = np.frombuffer(os.urandom(_WORD * TABLES * slots * steps), np.uint32).reshape(TABLES, slots, steps)
    numbers = torch.from_numpy(np.maximum(drawn, 1).view(np.int32))
    return torch.where(torch.arange(steps) < most[:, :, None], numbers, 0)


def highest(random: Tensor) -> Tensor:
    """(tables, slots) uint8: the highest value of all, from the sum of their numbers (tables, slots, steps)."""
    steps = torch.arange(1, random.shape[2] + 1, dtype=torch.uint8)
    return torch.where(random != 0, steps, 0).amax(2)
