"""A least-recently-used cache with a limit in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")
_OVERHEAD = 64 * 2**10  # bytes that every entry counts beside its own size, for the objects around it


class LruCache(Generic[Value]):
    """Values by name, made on demand. Beyond `limit` bytes the least recently used ones are evicted, but never the last
    one. Threads may call `get` concurrently for different names; for the same name, a value may be made twice.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, name: str, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The value of this name, from `make()` if it is not in the cache. `size(value)` is in bytes and is asked on
        every call, since a value may grow.
        """
        with self._lock:
            known = self._held.get(name)
        value = make() if known is None else known[0]
        with self._lock:
            self._keep(name, value, size(value) + _OVERHEAD)
        return value

    def _keep(self, name: str, value: Value, size: int) -> None:
        _, before = self._held.pop(name, (None, 0))
        self._held[name] = value, size
        self._bytes += size - before
        while self._bytes > self.limit and len(self._held) > 1:
            _, (_, freed) = self._held.popitem(last=False)
            self._bytes -= freed
