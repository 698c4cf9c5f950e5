"""Landlock: an unprivileged Linux process gives up access to files, for itself and everything it starts.

A ruleset names the access rights it handles. A handled right is denied everywhere except below the paths for which a
rule grants it. Rights can only shrink: a second ruleset narrows the first.

The kernel checks when a file is opened, so files that are already open stay usable. It does not check metadata: a
process can still see that a file exists and how large it is (stat), and change the mode, owner and timestamps of files
that it owns.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from fedrel.sandbox.kernel import syscall, threads

Network = Literal["none", "client", "server", "any"]

# System call numbers, the same on every architecture
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1 << 0
_PATH_BENEATH = 1
_ALL_THREADS = 1 << 3

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
_MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1

_READING = _READ_FILE | _READ_DIR
_CHANGING = (_WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM) | (
    _REFER | _TRUNCATE | _IOCTL_DEV
)
_NEVER_GRANTED = _MAKE_CHAR | _MAKE_BLOCK
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

# The ABI version that introduced a right; all others are in version 1
_SINCE = {_REFER: 2, _TRUNCATE: 3, _IOCTL_DEV: 5}
_SINCE_TCP, _SINCE_SCOPES, _SINCE_ALL_THREADS = 4, 6, 8

# Harmless, and expected by most programs
_DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty"))


class _Handled(NamedTuple):
    """The rights a ruleset handles, in the kernel's order. An older kernel accepts fields it does not know if they
    are 0.
    """

    files: int
    network: int
    scoped: int


def version() -> int:
    """The kernel's Landlock ABI version. Raises OSError if it has no Landlock."""
    return syscall(_CREATE_RULESET, 0, 0, _VERSION)


def restrict(
    read: Iterable[Path] | None, write: Iterable[Path], network: Network, programs: bool
) -> tuple[bool, list[str]]:
    """Gives up all access that the arguments do not name. Returns whether files are now protected, and one sentence
    for each limit that does not hold. `no_new_privs` must be set.
    """
    try:
        known = version()
    except OSError as error:
        return False, [_why(error)]
    holds, problems = True, []
    if known < _SINCE[_TRUNCATE]:
        holds = False
        problems.append("Other files can be truncated, though not written: preventing that requires Linux 6.2.")
    if known < _SINCE[_IOCTL_DEV]:
        problems.append("Device control commands (ioctl) are not limited: that requires Linux 6.10.")
    if known < _SINCE_SCOPES:
        problems.append("Signals can be sent to other processes of the user: preventing that requires Linux 6.12.")
    count = threads()
    flags = _ALL_THREADS if known >= _SINCE_ALL_THREADS else 0
    if count != 1 and not flags:
        holds = False
        problems.append(
            f"File access is limited for only one of {count or 'an unknown number of'} threads: set limits before "
            "starting other threads, or use Linux 7.0."
        )
    try:
        handled = _handled(read is not None, network, programs, known)
        with _ruleset(handled) as ruleset:
            for paths, rights in _grants(read, write, programs):
                for path in paths:
                    problems += _allow(ruleset, path, rights & handled.files)
            syscall(_RESTRICT_SELF, ruleset, flags)
    except OSError as error:
        return False, [*problems, _why(error)]
    return holds, problems


def _grants(read: Iterable[Path] | None, write: Iterable[Path], programs: bool) -> Iterator[tuple[Iterable[Path], int]]:
    yield _DEVICES, _READING | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
    # No execute right on writable paths, unless they are in `read` too: the process cannot run a program it has written
    yield write, _READING | _CHANGING
    yield read or (), _READING | (_EXECUTE if programs else 0)


def _handled(reading: bool, network: Network, programs: bool, known: int) -> _Handled:
    files = _CHANGING | _NEVER_GRANTED
    if reading:
        files |= _READING
    if reading or not programs:
        files |= _EXECUTE
    for right, since in _SINCE.items():
        if known < since:
            files &= ~right
    tcp = {"none": _BIND_TCP | _CONNECT_TCP, "client": _BIND_TCP, "server": 0, "any": 0}[network]
    scoped = _SIGNALS | (0 if network == "any" else _ABSTRACT_SOCKETS)
    return _Handled(files, tcp if known >= _SINCE_TCP else 0, scoped if known >= _SINCE_SCOPES else 0)


@contextmanager
def _ruleset(handled: _Handled) -> Iterator[int]:
    attributes = ctypes.create_string_buffer(struct.pack("=QQQ", *handled), 24)
    ruleset = syscall(_CREATE_RULESET, ctypes.addressof(attributes), 24, 0)
    try:
        yield ruleset
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> list[str]:
    """Adds a rule. A failure here leaves the process with fewer rights, never with more."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return []  # it does not exist, or could not be opened anyway
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        if rights:
            rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor), 12)
            syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.addressof(rule), 0)
    except OSError as error:
        return [f"{path} is not accessible: the kernel accepts no rule for it ({error.strerror})."]
    finally:
        os.close(descriptor)
    return []


def _why(error: OSError) -> str:
    reasons = {
        errno.ENOSYS: "this kernel has no Landlock, which requires Linux 5.13",
        errno.EOPNOTSUPP: "Landlock is disabled in this kernel (see its boot option lsm=)",
        errno.EPERM: "Landlock is not permitted here, perhaps by the container",
        errno.E2BIG: "the process has already been limited too many times",
    }
    return f"Access to files is not limited: {reasons.get(error.errno or 0, f'Landlock failed ({error.strerror})')}."
