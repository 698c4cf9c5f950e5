"""Limits that an unprivileged Linux process sets on itself: files, sockets and programs.

    from fedrel.sandbox import Limits, confine, python_paths

    protection = confine(Limits(read=(*python_paths(), kit), write=(scratch,), network="client", programs=False))
    for problem in protection.problems:
        print(problem)

The limits apply to the process and everything it starts, and cannot be lifted. Two parts of the kernel enforce them:
Landlock for files, TCP ports and signals to other processes, and seccomp for system calls. Every confined process also
loses what no ordinary program needs: access to other processes' memory, mounting, new namespaces, io_uring, System V
shared memory and message queues, and control over the kernel. On systems other than Linux nothing is limited, and
`confine` reports that.

The limits do not hide a file's existence, size or timestamps; do not stop a process from changing the mode or
timestamps of a file that its user owns; and do not distinguish network addresses.
"""

from fedrel.sandbox.paths import python_paths
from fedrel.sandbox.process import Limits, Protection, available, confine

__all__ = ["Limits", "Protection", "available", "confine", "python_paths"]
