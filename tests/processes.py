"""The command line as a separate process, with a disk that can be full."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FEDREL = [sys.executable, "-m", "fedrel.cli"]


def start(*arguments: object, limit: int | None = None, **more) -> subprocess.Popen[str]:
    """`limit`: the maximum file size in bytes; reaching it looks like a full disk to a program."""

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


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(number) for number in (task / "children").read_text().split()]
    return found
