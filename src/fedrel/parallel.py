"""Work spread over processes, its results in the order of the work."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAITING = 3  # pieces of work per process that may be under way: the rest is not read yet


def in_order(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """work(item) of every item. `work` may hold a lot (a knowledge base): processes inherit it, nothing is sent."""
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(work, items)
        return
    _inherited.append(work)
    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("fork"), initializer=signal.signal, initargs=_DEAF
    )
    under_way: deque[Future[Any]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(_call, item))
            if len(under_way) >= _WAITING * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _inherited.pop()


def cores() -> int:
    return os.cpu_count() or 1


_inherited: list[Callable[[Any], Any]] = []
_DEAF = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the first one tells the others when to stop


def _call(item: Any) -> Any:
    return _inherited[-1](item)
