"""Seccomp: an unprivileged Linux process gives up system calls, for itself and everything it starts.

The kernel runs a small program (a filter) before each system call. It sees the number of the call and its arguments as
plain integers, and decides whether the call proceeds. Filters accumulate: what one of them refuses stays refused.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
import sys
from dataclasses import dataclass

from fedrel.sandbox.calls import AARCH64, X86_64
from fedrel.sandbox.kernel import syscall
from fedrel.sandbox.landlock import Network

_SET_MODE_FILTER = 1
_ALL_THREADS = 1 << 0

_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
# Instructions: load a word of the call's description, mask it, compare it, return a verdict
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # byte offsets in the description

_X32 = 0x40000000  # set in the numbers of x86_64's second call table (x32), which no rule here would match
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEW_TIME = 0x80  # CLONE_NEWTIME, whose bit is part of the exit signal in clone()
# Both insert text into the terminal, often an inherited one, as if it had been typed
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_TYPE = 0xF  # the rest of a socket's type are flags
_STREAM, _DATAGRAM, _PACKETS = 1, 2, 5

_REFUSED = (
    # other processes' memory and file descriptors
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    # a different view of the file system
    *("mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount"),
    *("fspick", "mount_setattr", "open_tree_attr", "open_by_handle_at", "fanotify_init", "setns"),
    # the kernel and the machine
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "bpf", "perf_event_open"),
    *("userfaultfd", "add_key", "request_key", "keyctl", "reboot", "swapon", "swapoff", "acct", "quotactl"),
    *("quotactl_fd", "syslog", "settimeofday", "clock_settime", "clock_adjtime", "sethostname", "setdomainname"),
    *("vhangup", "iopl", "ioperm"),
    # system calls through a queue, which filters do not see
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
    # inter-process communication that uses neither files nor sockets
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
)


@dataclass(frozen=True)
class Architecture:
    """A processor architecture: the kernel's identifier for it, and its system call numbers by name."""

    mark: int
    numbers: dict[str, int]


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, X86_64),
    "aarch64": Architecture(0xC00000B7, AARCH64),
}

Instruction = tuple[int, int, int, int]  # code, instructions to skip if true, if false, operand


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def architecture() -> Architecture | None:
    """The architecture of this process; None if there is no filter for it."""
    return ARCHITECTURES.get(platform.machine()) if sys.maxsize > 2**32 else None


def program(on: Architecture, network: Network, programs: bool, accelerator: bool = False) -> list[Instruction]:
    """The filter's instructions. It allows every call that it does not name."""
    call = on.numbers
    denied = _error(errno.EACCES)
    steps: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, on.mark),
        (_RETURN, 0, 0, _KILL),  # a call in 32-bit mode, where the numbers mean other calls
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        _error(errno.ENOSYS),
    ]
    for name in _REFUSED:
        if name in call:  # some exist on one architecture only
            steps += _when(call[name], [_error(errno.EPERM)])
    # The flags of clone3 are in memory, which a filter cannot read. C libraries fall back to clone without it.
    steps += _when(call["clone3"], [_error(errno.ENOSYS)])
    steps += _when(call["clone"], _unless_any_bit(0, _NEW_NAMESPACES))
    steps += _when(call["unshare"], _unless_any_bit(0, _NEW_NAMESPACES | _NEW_TIME))
    steps += _when(call["ioctl"], [*_unless_one_of(1, (_TIOCSTI, _TIOCLINUX)), _error(errno.EPERM)])
    if not programs:
        for name in ("execve", "execveat"):
            steps += _when(call[name], [denied])
    if network != "any":
        # No datagrams: a paired datagram socket can still send to any socket in the file system
        pair = [*_only(0, (socket.AF_UNIX,)), *_only(1, (_STREAM, _PACKETS), mask=_TYPE), (_RETURN, 0, 0, _ALLOW)]
        steps += _when(call["socketpair"], pair)
    if network == "none" and not accelerator:
        steps += _when(call["socket"], [denied])
    if network == "none" and accelerator:
        # CUDA does not start unless it can listen on a local socket of this type, meant for forks of the process. It
        # may listen, but nothing can connect.
        local = [*_only(0, (socket.AF_UNIX,)), *_only(1, (_PACKETS,), mask=_TYPE), (_RETURN, 0, 0, _ALLOW)]
        steps += _when(call["socket"], local)
        for name in ("connect", "accept", "accept4"):
            steps += _when(call[name], [denied])
    if network in ("client", "server"):
        internet = [
            *_only(0, (socket.AF_INET, socket.AF_INET6)),
            *_only(1, (_STREAM, _DATAGRAM), mask=_TYPE),
            # Landlock's rules for TCP do not cover protocols such as MPTCP and SCTP
            *_only(2, (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP)),
            (_RETURN, 0, 0, _ALLOW),
        ]
        steps += _when(call["socket"], internet)
    if network == "client":
        for name in ("bind", "listen", "accept", "accept4"):
            steps += _when(call[name], [denied])
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def install(network: Network, programs: bool, accelerator: bool = False) -> str | None:
    """Filters the system calls of all threads from now on. Returns None, or a sentence if that failed.
    `no_new_privs` must be set.
    """
    on = architecture()
    if on is None:
        return f"System calls are not limited: supported on x86_64 and aarch64, not on {platform.machine()}."
    code = b"".join(struct.pack("=HBBI", *step) for step in program(on, network, programs, accelerator))
    buffer = ctypes.create_string_buffer(code, len(code))
    filtering = _Program(len(code) // 8, ctypes.addressof(buffer))
    try:
        thread = syscall(on.numbers["seccomp"], _SET_MODE_FILTER, _ALL_THREADS, ctypes.addressof(filtering))
    except OSError as error:
        reasons = {
            errno.ENOSYS: "this kernel has no seccomp filters",
            errno.EINVAL: "this kernel has no seccomp filters",
            errno.EPERM: "seccomp is not permitted here, perhaps by the container",
            errno.EACCES: "seccomp is not permitted here, perhaps by the container",
        }
        return f"System calls are not limited: {reasons.get(error.errno or 0, f'seccomp failed ({error.strerror})')}."
    # With this flag the call returns the number of a thread that it could not filter, and has changed nothing
    return f"System calls are not limited: thread {thread} has its own filter." if thread else None


def _error(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def _when(number: int, then: list[Instruction]) -> list[Instruction]:
    """Runs `then` for the call with this number. `then` must end in a verdict: it overwrites the loaded number."""
    return [(_EQUAL, 0, len(then), number), *then]


def _load(argument: int) -> Instruction:
    # The low half: the kernel treats these arguments as 32-bit and ignores the rest
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument)


def _unless_any_bit(argument: int, bits: int) -> list[Instruction]:
    return [_load(argument), (_ANY_BIT, 0, 1, bits), _error(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]


def _unless_one_of(argument: int, values: tuple[int, ...]) -> list[Instruction]:
    """Allows the call if the argument is none of the values; otherwise execution continues after these."""
    compare = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_load(argument), *compare, (_RETURN, 0, 0, _ALLOW)]


def _only(argument: int, values: tuple[int, ...], mask: int | None = None) -> list[Instruction]:
    """Refuses the call unless the argument is one of the values; otherwise execution continues after these."""
    masked = [] if mask is None else [(_AND, 0, 0, mask)]
    compare = [(_EQUAL, len(values) - place, 0, int(value)) for place, value in enumerate(values)]
    return [_load(argument), *masked, *compare, _error(errno.EACCES)]
