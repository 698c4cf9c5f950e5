"""Wall-clock time by phase, measured only on request: `with watching() as phases: …`.

Phases nest, and the time of an inner phase is not counted for the outer one, so that the shares add up. Inside
`evaluate` everything counts as evaluation. Platforms that run in parallel threads each count their own time.
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
    """`seconds` by phase, over all threads so far.

    `wait` is called at each change of phase and blocks until the device has finished its queued work, which would
    otherwise count for a later phase.
    """

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self.seconds: dict[str, float] = {}
        self._wait = wait
        self._lock = threading.Lock()
        self._running = threading.local()  # this thread's open phases, and when the innermost was entered or resumed

    def enter(self, phase: Phase) -> bool:
        """Whether a phase begins here; not inside `evaluate`, nor inside the same phase. If so, call `leave` later."""
        open_: list[Phase] = self._running.__dict__.setdefault("open", [])
        if open_ and (open_[-1] == _WHOLE or open_[-1] == phase):
            return False
        self._note(open_[-1] if open_ else None)
        open_.append(phase)
        return True

    def leave(self) -> None:
        """Ends this thread's innermost phase."""
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
    """Measures the phases of everything that runs inside the block; `wait` blocks until the device is idle."""
    global _phases
    _phases = Phases(wait)
    try:
        yield _phases
    finally:
        _phases = None


def watched() -> dict[str, float] | None:
    """Seconds by phase so far, or None outside of `watching`."""
    return None if _phases is None else dict(_phases.seconds)


@contextmanager
def phase(name: Phase) -> Iterator[None]:
    """Counts the time inside the block for this phase; costs nothing outside of `watching`."""
    watch = _phases
    if watch is None or not watch.enter(name):
        yield
        return
    try:
        yield
    finally:
        watch.leave()


def timed(name: Phase) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """A decorator: the time of every call of the function counts for this phase."""

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @functools.wraps(function)
        def inside(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            if _phases is None:
                return function(*args, **kwargs)
            with phase(name):
                return function(*args, **kwargs)

        return inside

    return decorate
