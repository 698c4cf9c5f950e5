"""How many platforms should work side by side: measured once, not guessed.

The number of cores says little: a container may have a share of them, and two that are halves of one core do less
than two. So work like a training step's is done for a moment by one thread, by two, by four …: the highest number
counts that does not do less than another. Results do not depend on the answer.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator

import torch

from fedrel.engines.simulator import threads
from fedrel.util.parallel import cores

_SECONDS = 0.02  # of each trial
_REPEATS = 3  # the best counts: whatever else is going on only takes away
_AS_MUCH = 0.95  # of the best rate. More threads than cores to spare do no harm, fewer leave cores idle for hours


@functools.cache
def useful_threads() -> int:
    """Asked for again in this process, the same answer."""
    return best(trial, cores())


def best(rate: Callable[[int], float], most: int) -> int:
    """The highest number of threads that does as much as any other; `rate` says how much so many do in a second."""
    rates = dict.fromkeys(_numbers(most), 0.0)
    for _ in range(_REPEATS):
        for count in rates:
            rates[count] = max(rates[count], rate(count))
    return max(count for count, found in rates.items() if found >= _AS_MUCH * max(rates.values()))


def trial(count: int) -> float:
    """Pieces of work per second that so many threads do."""
    with threads(count) as pool:
        list(pool.map(_work, [0.0] * count))  # so that all have begun
        return sum(pool.map(_work, [_SECONDS] * count)) / _SECONDS


def _numbers(most: int) -> Iterator[int]:
    """1, 2, 4, … and the most."""
    count = 1
    while count < most:
        yield count
        count *= 2
    yield most


def _work(seconds: float) -> int:
    """Products of the size that a training step has, until the time is over."""
    words, weights = torch.ones(700, 50), torch.ones(50, 690)
    products = torch.empty(700, 690)
    end, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        torch.mm(words, weights, out=products)
        done += 1
    return done
