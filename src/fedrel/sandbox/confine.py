"""A process gives up rights that it does not need, before it touches anything it should not trust."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from fedrel.sandbox import kernel, landlock, seccomp
from fedrel.sandbox.landlock import Network
from fedrel.sandbox.paths import accelerator_paths

if sys.platform != "win32":
    import resource  # not when it is needed: by then the library may be out of reach


@dataclass(frozen=True)
class Limits:
    """What a process keeps.

    read: the files, and folders with all beneath them, that it may read; None: everything. Programs may be started
        from these too.
    write: those that it may change and read. What does not exist yet is not allowed later: create folders first.
        Locks and pools of `multiprocessing` take /dev/shm.
    network: "none": no sockets but pairs of connected ones, and those that are open already;
        "client": TCP and UDP over IP, but no port of its own;
        "server": TCP and UDP over IP, to listen and to connect;
        "any": no limits.
    programs: whether it may start programs. Threads and forks are always allowed.
    accelerator: whether it may compute on the machine's accelerators, with "none" or "any" network. It may then use
        their devices, and make local sockets that can neither connect nor accept a connection.
    """

    read: tuple[Path, ...] | None = None
    write: tuple[Path, ...] = ()
    network: Network = "none"
    programs: bool = True
    accelerator: bool = False

    def __post_init__(self) -> None:
        if self.accelerator and self.network not in ("none", "any"):
            raise ValueError("a process on the network gets no accelerator: that would take local sockets too")


@dataclass(frozen=True)
class Protection:
    """Which limits are in force. All that was asked for holds if there are no problems.

    files: reading and writing are limited as asked for.
    network: sockets are limited as asked for. False for "any".
    programs: no program can be started. False where programs were to be allowed.
    memory: other processes of the same user cannot read the memory of this one, nor this one theirs. No part of it is
        written to disk in a crash. A program that this process starts can be read by other processes again.
    problems: a sentence for each thing that does not hold, and why.
    """

    files: bool
    network: bool
    programs: bool
    memory: bool
    problems: tuple[str, ...]


def confine(limits: Limits) -> Protection:
    """Limits this process, and all that it starts from now on, for good. Nothing is raised where the system cannot do
    that: the answer says what holds.

    To be called before other threads exist: Linux before 7.0 limits the files of the calling thread alone. Files,
    folders and sockets that are open stay usable. So do the names, sizes and modes of files that can no longer be read.
    """
    if not kernel.linux():
        return _unprotected(
            f"Nothing is limited: that takes Linux, and this is {platform.system() or 'another system'}."
        )
    private, problems = _keep_memory_private()
    try:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    except OSError as error:
        problems.append(f"The process can still gain rights by starting a program: {error.strerror}.")
    try:
        kernel.drop_capabilities()  # some let root read the memory of others past all other limits
    except OSError as error:
        private = False
        problems.append(f"If the process is root's, it keeps the special rights of root: {error.strerror}.")
    write = (*limits.write, *(accelerator_paths() if limits.accelerator else ()))
    files, found = landlock.restrict(limits.read, write, limits.network, limits.programs)
    problems += found
    failed = seccomp.install(limits.network, limits.programs, limits.accelerator)
    if failed:
        problems.append(failed)
    return Protection(
        files=files,
        network=limits.network != "any" and not failed,
        programs=not limits.programs and not failed,
        memory=private and not failed,
        problems=tuple(problems),
    )


def available() -> Protection:
    """What `confine` could give on this machine to a process of one thread, found by trying it in a forked process."""
    if not kernel.linux():
        return confine(Limits())
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Other threads may hold locks as the process forks. What the fork runs takes none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(asdict(_tried())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        return _unprotected("Nothing can be limited: the process that tried was ended, perhaps by the container.")
    found = json.loads(text)
    return Protection(**{**found, "problems": tuple(found["problems"])})


def _tried() -> Protection:
    """The answer of `confine`, less what turns out not to hold: some systems only pretend to know these calls."""
    found = confine(Limits(read=(), network="none", programs=False))
    problems = list(found.problems)
    files, network = found.files, found.network
    if files:
        try:
            list(Path("/").iterdir())
        except PermissionError:
            pass
        else:
            files = False
            problems.append("Access to files is not limited, although the kernel says that it is.")
    if network:
        try:
            socket.socket().close()
        except PermissionError:
            pass
        else:
            network = False
            problems.append("The network is not limited, although the kernel says that it is.")
    return Protection(files, network, found.programs, found.memory, tuple(problems))


def _keep_memory_private() -> tuple[bool, list[str]]:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    except (OSError, ValueError) as error:
        return False, [f"Other processes of the user may be able to read this one's memory: {error}."]
    return True, []


def _unprotected(problem: str) -> Protection:
    return Protection(files=False, network=False, programs=False, memory=False, problems=(problem,))
