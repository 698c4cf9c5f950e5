"""Long vectors of numbers, a stretch at a time, by all cores: every number is worked on by itself, so it does not
matter who does which stretch.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fedrel.util.parallel import cores

STRETCH = 2**18  # numbers: long enough that calls take no time, short enough for the CPU's cache
Result = TypeVar("Result")


def each_stretch(work: Callable[[int, slice], Result], size: int) -> list[Result]:
    """What `work` returns for every stretch of so many numbers, given its place, from 0, and which numbers it is. Only
    calls that let other threads run, as those of numpy and `cryptography` do, are done side by side.
    """
    stretches = [slice(start, min(start + STRETCH, size)) for start in range(0, size, STRETCH)]
    workers = min(cores(), len(stretches))
    if workers < 2:
        return [work(place, it) for place, it in enumerate(stretches)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, range(len(stretches)), stretches))
