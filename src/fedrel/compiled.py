"""Loops that have to be fast, compiled by numba where it is installed. Who uses them keeps another way without it:
a machine with torch and numpy alone still trains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import numba
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True
# Sums may be regrouped; numbers that are not finite keep their meaning, since they tell of a diverged run.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled at its first call, which takes some seconds once."""
    return kept(function, **_OPTIONS) if AVAILABLE else function


def kept(function: Callable[..., Any], *signature: str, **options: Any) -> Callable[..., Any]:
    """Compiled, and kept on disk; where nothing can be written there, compiled anew in every process."""
    njit: Any = numba.njit
    fast: Callable[..., Any]
    try:
        fast = njit(*signature, cache=True, **options)(function)
    except (OSError, RuntimeError):
        fast = njit(*signature, **options)(function)
    return fast
