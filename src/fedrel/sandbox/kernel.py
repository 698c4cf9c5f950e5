"""Linux system calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

_CAPABILITIES_VERSION = 0x20080522  # the one with two times 32 capabilities
# What root keeps: access to other users' files, switching to another user, ports below 1024
_KEPT = (
    1 << 0  # CAP_CHOWN
    | 1 << 1  # CAP_DAC_OVERRIDE
    | 1 << 2  # CAP_DAC_READ_SEARCH
    | 1 << 3  # CAP_FOWNER
    | 1 << 4  # CAP_FSETID
    | 1 << 6  # CAP_SETGID
    | 1 << 7  # CAP_SETUID
    | 1 << 10  # CAP_NET_BIND_SERVICE
)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def linux() -> bool:
    return sys.platform.startswith("linux")


def syscall(number: int, *arguments: int) -> int:
    """Makes a system call and returns its result. Pointers are passed as addresses. Raises OSError if it fails."""
    # Arguments are passed as `long`: ctypes would pass a plain Python integer to a variadic C function as an `int`.
    result: int = _libc().syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    return _check(result)


def prctl(option: int, value: int) -> None:
    _check(_libc().prctl(ctypes.c_int(option), *(ctypes.c_ulong(argument) for argument in (value, 0, 0, 0))))


def drop_capabilities() -> None:
    """Drops most capabilities of the calling thread; without effect unless it runs as root.

    With `no_new_privs` set, programs that it starts do not regain them.
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable ones, for the lower 32 and then the upper
    _check(_libc().capget(header, sets))
    sets[:] = [*(held & _KEPT for held in sets[:3]), 0, 0, 0]
    _check(_libc().capset(header, sets))


def threads() -> int | None:
    """How many threads this process has, including those of C libraries; None if there is no /proc."""
    try:
        # Each thread is a folder, and so a link to its parent. A confined process may stat the parent, not list it.
        return Path("/proc/self/task").stat().st_nlink - 2
    except OSError:
        return None


def _check(result: int) -> int:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
