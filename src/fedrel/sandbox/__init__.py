"""Limits that a Linux process sets itself, without being root: which files, which sockets, which programs.

    from fedrel.sandbox import Limits, confine, python_paths

    protection = confine(Limits(read=(*python_paths(), kit), write=(scratch,), network="client", programs=False))
    for problem in protection.problems:
        print(problem)

The limits hold for the process and all that it starts, and cannot be lifted. Two parts of the kernel keep them:
Landlock for files, TCP ports and signals to other processes, and seccomp for system calls. Every limited process also
loses what no ordinary program needs: looking into other processes, mounting, namespaces of its own, io_uring, System V
shared memory and message queues, and control over the kernel. On other systems nothing is limited, and `confine` says
so.

They do not hide that a file exists, its size and its times; do not keep a process from changing the mode or the times
of a file that its user owns; and do not tell one address on the network from another.
"""

from fedrel.sandbox.confine import Limits, Protection, available, confine
from fedrel.sandbox.paths import python_paths

__all__ = ["Limits", "Protection", "available", "confine", "python_paths"]
