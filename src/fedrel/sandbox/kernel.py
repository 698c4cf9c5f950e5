"""Calls into the Linux kernel that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

_CAPABILITIES_VERSION = 0x20080522  # that of two times 32 capabilities
# What root may keep: the files of other users, becoming another user, ports below 1024
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
    """The result of a system call; OSError where it fails. Pointers are passed as addresses."""
    # Each argument is given its full width: a variadic C function would take a plain Python integer for an `int`.
    result: int = _libc().syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    return _check(result)


def prctl(option: int, value: int) -> None:
    _check(_libc().prctl(ctypes.c_int(option), *(ctypes.c_ulong(argument) for argument in (value, 0, 0, 0))))


def drop_capabilities() -> None:
    """Leaves this thread, if it is root's, little of what root may do. Others have nothing to lose.

    With `no_new_privs`, programs that it starts do not get it back.
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable ones, for the lower 32 and then the upper
    _check(_libc().capget(header, sets))
    sets[:] = [*(held & _KEPT for held in sets[:3]), 0, 0, 0]
    _check(_libc().capset(header, sets))


def threads() -> int | None:
    """How many threads this process has, those of C libraries included; None where /proc is missing."""
    try:
        # Each is a folder, which counts as a link to the one above. Unlike a list, that is told in a limited process.
        return Path("/proc/self/task").stat().st_nlink - 2
    except OSError:
        return None


def _check(result: int) -> int:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
