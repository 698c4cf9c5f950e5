"""A parallel map over processes, with results in the order of the items."""

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

_WAITING = 3  # items per process that are submitted ahead; the rest is not read yet


def map_in_order(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Generator[Result, None, None]:
    """Yields work(item) for every item, in order, from up to `workers` forked processes.

    `work` need not be picklable and may hold large data (a knowledge base): the processes inherit it. With fewer than
    two items or workers, or where there is no fork, everything runs in this process. An exception of `work` is raised
    here; raises UserError if a worker process is killed.
    """
    rest = iter(items)
    first = list(islice(rest, max(workers, 1)))
    every = chain(first, rest)
    if len(first) < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(work, every)
        return
    context = multiprocessing.get_context("fork")
    stopped = context.RawValue("b")  # without a lock, since a killed process might hold it
    pool = ProcessPoolExecutor(len(first), context, initializer=_begin, initargs=(work, stopped))
    under_way: deque[Future[Any]] = deque()
    try:
        under_way.append(_submit_first(pool, next(every)))
        for item in every:
            under_way.append(pool.submit(_call, item))
            if len(under_way) >= _WAITING * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool:
        raise UserError(
            "a worker process was killed, perhaps because memory ran out; try again with fewer --workers"
        ) from None
    finally:
        stopped.value = True
        pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _submit_first(pool: ProcessPoolExecutor, item: Any) -> Future[Any]:
    """Submits the first item, which starts the worker processes, with SIGINT blocked in them for good: Ctrl-C reaches
    every process of the group, but the parent alone decides when the workers stop.
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
    """Makes this child process exit when its parent dies. A parent that is killed cannot say so: without this, its
    children would wait for work forever, or go on next to those of a new parent.
    """
    Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _call(item: Any) -> Any:
    """work(item), or None once the caller has stopped: items already queued in a process cannot be cancelled."""
    return None if _stopped.value else _work(item)
