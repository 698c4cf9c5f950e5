"""The command line as a process of its own, with a disk that can be full."""

import resource
import subprocess
import sys

FEDREL = [sys.executable, "-m", "fedrel.cli"]


def start(*arguments: object, limit: int | None = None, **more) -> subprocess.Popen[str]:
    """`limit`: the size in bytes from which on a file cannot grow, which is how a full disk looks to a program."""

    def cap():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [*FEDREL, *(str(argument) for argument in arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=cap,
        start_new_session=True,
        **more,
    )
