"""Returning freed memory to the operating system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def trim() -> None:
    """Returns freed memory to the operating system; does nothing where the C library has no `malloc_trim`.

    glibc keeps freed blocks that lie between live ones: after thousands of platforms in one process, hundreds of
    megabytes.
    """
    _malloc_trim()(0)


@cache
def _malloc_trim() -> Callable[[int], object]:
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another system, or another C library
        return lambda pad: None
    return found
