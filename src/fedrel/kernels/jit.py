"""Loops that have to be fast, compiled by numba where it is installed, and the switch that turns them off.

Whoever uses a compiled loop asks `usable` and keeps another way without it: a machine with torch and numpy alone still
trains. With FEDREL_JIT=0 in the environment, every machine trains so.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrel.errors import UserError
from fedrel.util.files import private_cache, private_folder, require_own

if TYPE_CHECKING:  # finding names in text needs numba, but not torch, which takes a second to import
    import torch
try:
    import numba
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = os.environ.get("FEDREL_JIT", "1") != "0"
# Sums may be regrouped; numbers that are not finite keep their meaning, since they tell of a diverged run.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


def usable(device: torch.device) -> bool:
    """Whether compiled loops are there for tensors on this device."""
    return AVAILABLE and device.type == "cpu"


def compiles_first(function: Callable[..., Any]) -> bool:
    """Whether a compiled loop has to be compiled before it can run, since nothing is kept of it."""
    statistics = getattr(function, "stats", None)  # none: it is not compiled
    if statistics is None or not statistics.cache_path:
        return statistics is not None
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}-*.nbi"
    return not any(Path(statistics.cache_path).glob(name))


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled at its first call, which takes some seconds once."""
    return kept(function, **_OPTIONS) if AVAILABLE else function


def kept(function: Callable[..., Any], *signature: str, **options: Any) -> Callable[..., Any]:
    """Compiled, and kept on disk; where nothing can be written there, or others could write there, compiled anew in
    every process.
    """
    njit: Any = numba.njit
    fast: Callable[..., Any]
    try:
        with _cached_in(_place(Path(function.__code__.co_filename).parent)):
            fast = njit(*signature, cache=True, **options)(function)
    except UserError as error:
        _warn(f"{error}; compiled code is not kept")
        fast = njit(*signature, **options)(function)
    except (OSError, RuntimeError):
        fast = njit(*signature, **options)(function)
    return fast


@cache
def _warn(sentence: str) -> None:
    """Once: numba makes Python forget what it has warned of."""
    warnings.warn(sentence, stacklevel=2)


def _place(package: Path) -> str:
    """Where numba keeps what it compiled from a package; empty: beside its source. What lies there is run when it is
    loaded, so it must be a folder that nobody can write in who cannot change the program anyway.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        folder = Path(chosen)
        if folder.exists():
            require_own(folder, group=True)
        return str(private_folder(folder))  # numba makes folders in it as the umask says
    beside = package / "__pycache__"
    if os.access(beside if beside.exists() else package, os.W_OK | os.X_OK) and not _wider(beside, package):
        return ""
    return str(private_cache("numba"))


def _wider(inner: Path, outer: Path) -> bool:
    """Whether there are people who can write in the one and not in the other."""
    if not inner.exists():
        return False
    mine, theirs = inner.stat(), outer.stat()
    others = stat.S_IMODE(mine.st_mode) & ~stat.S_IMODE(theirs.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return bool(others) or mine.st_uid not in (os.getuid(), theirs.st_uid)


@contextmanager
def _cached_in(folder: str) -> Iterator[None]:
    """Numba looks at this setting when a function is decorated; other people's functions keep theirs."""
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = folder
    try:
        yield
    finally:
        settings.CACHE_DIR = before
