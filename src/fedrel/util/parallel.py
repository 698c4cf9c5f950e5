"""Work spread over processes, its results in the order of the work."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from threading import Thread
from typing import Any, TypeVar

from fedrel.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAITING = 3  # pieces of work per process that may be under way: the rest is not read yet


def in_order(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Generator[Result, None, None]:
    """work(item) of every item. `work` may hold a lot (a knowledge base): processes inherit it, nothing is sent."""
    rest = iter(items)
    first = list(islice(rest, max(workers, 1)))
    every = chain(first, rest)
    if len(first) < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(work, every)
        return
    context = multiprocessing.get_context("fork")
    stopped = context.RawValue("b")  # without a lock, which a process that is killed might hold
    pool = ProcessPoolExecutor(len(first), context, initializer=_begin, initargs=(work, stopped))
    under_way: deque[Future[Any]] = deque()
    try:
        under_way.append(_submit_deaf(pool, next(every)))
        for item in every:
            under_way.append(pool.submit(_call, item))
            if len(under_way) >= _WAITING * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool:
        raise UserError(
            "one of the processes was ended from outside, perhaps for want of memory; try again with fewer --workers"
        ) from None
    finally:
        stopped.value = True
        pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _submit_deaf(pool: ProcessPoolExecutor, item: Any) -> Future[Any]:
    """With the first item the processes begin, deaf to Ctrl-C for good: that goes to all processes, but it is for this
    one to tell the others when to stop.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_call, item)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_work: Callable[[Any], Any]
_stopped: Any


def _begin(work: Callable[[Any], Any], stopped: Any) -> None:
    global _work, _stopped
    _work, _stopped = work, stopped
    end_with_parent()


def end_with_parent() -> None:
    """A parent that is killed tells nobody; its processes would wait for work forever, or go on beside new ones."""
    Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _call(item: Any) -> Any:
    """What a process has been handed already cannot be taken back; nobody waits for its result."""
    return None if _stopped.value else _work(item)
