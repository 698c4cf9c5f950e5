"""What was used lately, up to so many bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
_ASIDE = 64 * 2**10  # bytes that a thing counts beside its own: a small one has little to lose, and objects around it


class Recent(Generic[Thing]):
    """Things by name. Over `limit` bytes, those that nobody asked for the longest are let go, and made anew later; the
    last one always stays. Threads may ask side by side, for different things.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: OrderedDict[str, tuple[Thing, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, name: str, make: Callable[[], Thing], size: Callable[[Thing], int]) -> Thing:
        with self._lock:
            known = self._held.get(name)
        thing = make() if known is None else known[0]
        with self._lock:
            self._keep(name, thing, size(thing) + _ASIDE)
        return thing

    def _keep(self, name: str, thing: Thing, size: int) -> None:
        _, before = self._held.pop(name, (None, 0))
        self._held[name] = thing, size
        self._bytes += size - before
        while self._bytes > self.limit and len(self._held) > 1:
            _, (_, freed) = self._held.popitem(last=False)
            self._bytes -= freed
