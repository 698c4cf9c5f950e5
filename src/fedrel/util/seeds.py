"""Randomness that depends on names alone, never on order, process or machine."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(*parts: object) -> int:
    """A 63-bit seed from anything that prints the same everywhere."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(seed: int, device: torch.device) -> torch.Generator:
    """Draws that nobody else takes from: platforms may work side by side."""
    return torch.Generator(device).manual_seed(seed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch draws from `seed`; outside, nothing has changed. Not for work that goes on side by side."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
