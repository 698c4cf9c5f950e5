"""Memory that was freed and is still held."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def trim() -> None:
    """Gives freed memory back to the system. The C library of Linux keeps pieces between others that live on: with
    thousands of platforms after one another, hundreds of megabytes of them.
    """
    _of_library()(0)


@cache
def _of_library() -> Callable[[int], object]:
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another system, or another C library
        return lambda pad: None
    return found
