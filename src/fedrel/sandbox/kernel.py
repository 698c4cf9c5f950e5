"""Calls into the Linux kernel that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def linux() -> bool:
    return sys.platform.startswith("linux")


def syscall(number: int, *arguments: int) -> int:
    """The result of a system call; OSError where it fails. Pointers are passed as addresses."""
    # Each argument is given its full width: a variadic C function would take a plain Python integer for an `int`.
    result: int = _libc().syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def prctl(option: int, value: int) -> None:
    if _libc().prctl(ctypes.c_int(option), *(ctypes.c_ulong(argument) for argument in (value, 0, 0, 0))) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def threads() -> int | None:
    """How many threads this process has, those of C libraries included; None where /proc cannot be read."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return None
