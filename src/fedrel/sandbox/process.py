"""A process drops the rights it does not need before it handles untrusted input."""

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
    import resource  # here, not in the function: a confined process may no longer be able to read the library


@dataclass(frozen=True)
class Limits:
    """What a process may still do once it is confined.

    read: files, and folders with everything below them, that it may read; None: everything. Programs may be started
        from there too.
    write: files and folders that it may read and change. A path that does not exist when the limits are set stays
        forbidden: create folders first. Locks and pools of `multiprocessing` need /dev/shm.
    network: "none": only socket pairs, and sockets that are already open;
        "client": TCP and UDP over IP, outgoing only;
        "server": TCP and UDP over IP, listening and outgoing;
        "any": no limits.
    programs: whether it may start programs. Threads and forks are always allowed.
    accelerator: whether it may compute on the machine's accelerators; requires network "none" or "any", else
        ValueError. It may then use their devices, and create local sockets that can neither connect nor accept.
    """

    read: tuple[Path, ...] | None = None
    write: tuple[Path, ...] = ()
    network: Network = "none"
    programs: bool = True
    accelerator: bool = False

    def __post_init__(self) -> None:
        if self.accelerator and self.network not in ("none", "any"):
            raise ValueError("an accelerator needs local sockets, which a process with network access must not have")


@dataclass(frozen=True)
class Protection:
    """Which limits are in force. If `problems` is empty, everything that was requested holds.

    files: reading and writing are limited as requested.
    network: sockets are limited as requested. False for "any".
    programs: no program can be started. False if programs are allowed.
    memory: other processes of the same user cannot read this process's memory, nor this process theirs, and a crash
        writes no core dump. Does not extend to programs that this process starts.
    problems: one sentence for each limit that does not hold, with the reason.
    """

    files: bool
    network: bool
    programs: bool
    memory: bool
    problems: tuple[str, ...]


def confine(limits: Limits) -> Protection:
    """Limits this process, and everything it starts from now on, irrevocably. Returns which limits hold; nothing is
    raised where the system does not support one.

    Call it before starting threads: before Linux 7.0, file limits apply to the calling thread only. Open files,
    folders and sockets stay usable, and names, sizes and modes of files that can no longer be read stay visible.
    """
    if not kernel.linux():
        return _unprotected(
            f"Nothing is limited: this requires Linux, and this is {platform.system() or 'another system'}."
        )
    private, problems = _keep_memory_private()
    try:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    except OSError as error:
        problems.append(f"The process can still gain privileges by starting a program: {error.strerror}.")
    try:
        kernel.drop_capabilities()  # some let root read other processes' memory despite all other limits
    except OSError as error:
        private = False
        problems.append(f"A process run by root keeps root's capabilities: {error.strerror}.")
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
    """What `confine` can enforce on this machine for a single-threaded process, found by trying it in a fork."""
    if not kernel.linux():
        return confine(Limits())
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Other threads may hold locks while the process forks. The code that the fork runs takes none.
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
        return _unprotected("Nothing can be limited: the process that tried was killed, perhaps by the container.")
    found = json.loads(text)
    return Protection(**{**found, "problems": tuple(found["problems"])})


def _tried() -> Protection:
    """The result of `confine`, minus limits that turn out not to hold: some systems accept these calls and ignore
    them.
    """
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
