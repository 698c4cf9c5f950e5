"""Random seeds derived from names, so that draws never depend on order, process or machine.

torch is imported where it is used: a process that only derives seeds does without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive(*parts: object) -> int:
    """A 63-bit seed from the `str` of the parts, the same in every process and on every machine."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def stream(content: bytes, count: int, *parts: object) -> bytes:
    """So many random bytes, other ones for every content, that nobody can tell from others who lacks the parts."""
    key = "/".join(str(part) for part in parts).encode()
    return hashlib.shake_256(hashlib.sha256(key).digest() + hashlib.sha256(content).digest()).digest(count)


def generator(seed: int, device: torch.device) -> torch.Generator:
    """A generator of its own, independent of torch's global one, so that platforms can run in parallel."""
    import torch

    return torch.Generator(device).manual_seed(seed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds torch's global CPU generator inside the block and restores it afterwards. Not thread-safe."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
