"""A party's long-running process: starts NVFlare's, starts it again when it dies, and ends it when told to."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from fedrel.errors import UserError
from fedrel.federation.engines.nvflare.kits import Kit
from fedrel.federation.engines.nvflare.remarks import Remarks
from fedrel.federation.engines.nvflare.status import write_start

LOG = "node.log"
_JOB = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEPT_JOBS = 5
_TICK = 0.5
_AGAIN = (1, 2, 5, 10, 30)  # seconds before the next start, the longer the more often it died at once
_SETTLED = 60.0  # seconds after which a death counts as the first again
_PR_SET_PDEATHSIG = 1
_GRACE = 15.0  # seconds that NVFlare has to end by itself


@dataclass
class Node:
    kit: Kit
    settings: dict[str, Any]  # what this party was told at its start
    say: Callable[[str], None]
    each: Callable[[], None] = lambda: None  # called a few times a second

    def run(self) -> None:
        """Until a signal ends it."""
        write_start(self.kit.folder, self.settings)
        _tidy(self.kit)
        deaths = 0
        remarks = Remarks(self.kit, self.kit.folder / LOG, self.say)
        with _single(self.kit), _signals() as ended:
            while not ended():
                begin = time.monotonic()
                with (self.kit.folder / LOG).open("ab") as log, self._process(log) as process:
                    while process.poll() is None and not ended():
                        self.each()
                        remarks()
                        time.sleep(_TICK)
                if ended():
                    return
                remarks()
                deaths = 1 if time.monotonic() - begin > _SETTLED else deaths + 1
                pause = _AGAIN[min(deaths, len(_AGAIN)) - 1]
                self.say(f"the node ended by itself (exit code {process.returncode}); again in {pause} s; see {LOG}")
                until = time.monotonic() + pause
                while time.monotonic() < until and not ended():
                    time.sleep(_TICK)

    @contextmanager
    def _process(self, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            self.kit.command(),
            cwd=self.kit.folder,
            env=self.kit.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its own group: jobs end with it
            preexec_fn=_end_with_parent,
        )
        try:
            yield process
        finally:
            _end(process)


def _tidy(kit: Kit) -> None:
    """NVFlare leaves a folder behind for every job; the last few are enough to look into."""
    jobs = [path for path in kit.folder.iterdir() if _JOB.fullmatch(path.name) and path.is_dir()]
    for path in sorted(jobs, key=lambda path: path.stat().st_mtime)[:-_KEPT_JOBS]:
        shutil.rmtree(path, ignore_errors=True)


def _end_with_parent() -> None:
    """A node that is killed takes NVFlare with it; left behind, it would be in the way of the next one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Politely, then not; the jobs that it started too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _signals() -> Iterator[Callable[[], bool]]:
    """Whether somebody asked for the end, by Ctrl-C or as a service manager does."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _single(kit: Kit) -> Iterator[None]:
    """Two nodes with one kit would take each other's messages."""
    path = kit.folder / ".node.lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{kit.folder}: a node with this kit is running already; stop it first") from None
        yield


def folder_for(kit: Kit, name: str) -> Path:
    path = kit.folder.absolute() / name
    path.mkdir(mode=0o700, exist_ok=True)
    return path
