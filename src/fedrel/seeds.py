"""Randomness that depends on names alone, never on order, process or machine."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(*parts: object) -> int:
    """A 63-bit seed from anything that prints the same everywhere."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Inside, torch draws from `seed`; outside, nothing has changed."""
    devices = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
