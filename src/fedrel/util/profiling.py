"""Where the time goes, by phase, if somebody wants to know: `with watching() as phases: …`.

A phase inside another is taken out of it, so that the shares add up; but what happens during `evaluate` is evaluation,
whatever it uses. Platforms that work side by side each count their own time.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, ParamSpec, TypeVar

Phase = Literal["data", "score", "train", "aggregate", "evaluate", "codec"]
_WHOLE = "evaluate"

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Phases:
    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        """`wait`: until a device has done what it was asked for; what it does later would count for another phase."""
        self.seconds: dict[str, float] = {}
        self._wait = wait
        self._lock = threading.Lock()
        self._running = threading.local()  # the phases that this thread is in, and since when the innermost one runs

    def enter(self, phase: Phase) -> bool:
        open_: list[Phase] = self._running.__dict__.setdefault("open", [])
        if open_ and (open_[-1] == _WHOLE or open_[-1] == phase):
            return False
        self._note(open_[-1] if open_ else None)
        open_.append(phase)
        return True

    def leave(self) -> None:
        self._note(self._running.open.pop())

    def _note(self, phase: Phase | None) -> None:
        self._wait()
        now = time.perf_counter()
        if phase:
            with self._lock:
                self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._running.since
        self._running.since = now


_phases: Phases | None = None


@contextmanager
def watching(wait: Callable[[], None] = lambda: None) -> Iterator[Phases]:
    global _phases
    _phases = Phases(wait)
    try:
        yield _phases
    finally:
        _phases = None


def watched() -> dict[str, float] | None:
    """Seconds by phase so far, if somebody is watching."""
    return None if _phases is None else dict(_phases.seconds)


@contextmanager
def phase(name: Phase) -> Iterator[None]:
    watch = _phases
    if watch is None or not watch.enter(name):
        yield
        return
    try:
        yield
    finally:
        watch.leave()


def timed(name: Phase) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """All that a function does belongs to this phase."""

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @functools.wraps(function)
        def inside(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            if _phases is None:
                return function(*args, **kwargs)
            with phase(name):
                return function(*args, **kwargs)

        return inside

    return decorate
