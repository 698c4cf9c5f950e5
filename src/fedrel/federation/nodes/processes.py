"""Children of a node: started with a channel, ended with the node, and never found by a number that somebody wrote."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType
from typing import IO, Any

from fedrel.errors import UserError
from fedrel.federation.channel import Channel, ClosedError, Message
from fedrel.util.escaping import shown
from fedrel.util.files import private_cache, private_folder

LOG = "node.log"
CONFINED = "fedrel.federation.nodes.confined"
_LOG_BYTES, _LOGS = 5 * 2**20, 3
_PR_SET_PDEATHSIG = 1
_GRACE = 5.0  # seconds that a child has to end by itself
_PAUSES = (0.5, 1.0, 2.0, 5.0)  # seconds before the next start, the longer the more often it died at once
_SETTLED = 60.0  # seconds after which a death counts as the first again


class Log:
    """A node's log: what its children write, in files that do not grow without end."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOG
        path.touch(mode=0o600)
        self._handler = RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=_LOGS, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def write(self, who: str, line: str) -> None:
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {who}: {shown(line)}"
        with contextlib.suppress(OSError):  # a full disk must not end the node
            self._handler.emit(logging.LogRecord("node", logging.INFO, "", 0, text, None, None))

    def follow(self, who: str, pipe: IO[bytes]) -> None:
        with pipe:
            for line in iter(lambda: pipe.readline(2**16), b""):
                # Its reasons may quote other parties, whose escapes are not obeyed by a terminal that shows the log.
                self.write(who, shown(line.decode(errors="backslashreplace").rstrip("\n"), 2**16))


@dataclass
class Child:
    """A process of ours, and our end of its channel."""

    who: str
    process: subprocess.Popen[bytes]
    channel: Channel
    begun: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, who: str, module: str, told: dict[str, Any], log: Log) -> Child:
        """`python -m MODULE DESCRIPTOR`, which is told at once what it is for."""
        return cls._start(who, [module], told, log, dict(os.environ))

    @classmethod
    def confined(cls, kind: str, who: str, told: dict[str, Any], writable: list[Path], log: Log) -> Child:
        """A process that holds data, and can write into these folders and its caches alone."""
        caches = [private_cache("data"), private_cache("numba")]
        environment = {"NUMBA_CACHE_DIR": str(caches[1]), **os.environ}
        caches.append(private_folder(Path(environment["NUMBA_CACHE_DIR"])))
        folders = [*writable, *caches, *_for_computing()]
        return cls._start(
            who, [CONFINED, kind], {**told, "writable": [str(path) for path in folders]}, log, environment
        )

    @classmethod
    def _start(
        cls, who: str, arguments: list[str], told: dict[str, Any], log: Log, environment: dict[str, str]
    ) -> Child:
        channel, theirs = Channel.pair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-u", "-m", *arguments, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_parent,
                env=environment,
            )
        assert process.stdout is not None
        threading.Thread(target=log.follow, args=(who, process.stdout), daemon=True).start()
        child = cls(who, process, channel)
        with contextlib.suppress(ClosedError):  # it died at once; whoever waits for it notices
            channel.send({"do": "start", **told})
        return child

    def ended(self) -> bool:
        return self.process.poll() is not None

    def reap(self) -> None:
        """Of a process that has closed its channel: it is about to end by itself, with an exit code that says why."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        self.end(kindly=False)

    def end(self, *, kindly: bool = True) -> None:
        """By its channel, then by signals; only ever this very process."""
        if kindly:
            with contextlib.suppress(ClosedError):
                self.channel.send({"do": "end"})
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_GRACE)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.channel.close()

    @property
    def how(self) -> str:
        """How it ended."""
        code = self.process.wait()
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        return f"signal {-code}{hint}" if code < 0 else f"exit code {code}"


Heard = tuple[Child | None, Callable[[Message], None], Callable[[], None]]  # who is told of a message, and of the end


def hear(children: Sequence[Heard], seconds: float, invalid: Callable[[str], None]) -> None:
    """A message of each child that has one, or after a while of none. What is no message of ours ends the child that
    sent it: a process with the network that was taken over may say anything.
    """
    channels = {it[0].channel.fileno(): it for it in children if it[0] is not None}
    for descriptor in select.select(list(channels), [], [], seconds)[0]:
        child, told, gone = channels[descriptor]
        if child is None or child.channel.fileno() != descriptor:
            continue  # it ended while another one was heard
        try:
            message = child.channel.receive(0.0)
            if message is not None:
                told(message)
        except ClosedError:
            gone()
        except (KeyError, TypeError, ValueError):
            invalid(child.who)
            gone()


@dataclass
class Pauses:
    """How long to wait before a child is started again."""

    deaths: int = 0

    def after(self, child: Child) -> float:
        self.deaths = 1 if time.monotonic() - child.begun > _SETTLED else self.deaths + 1
        return _PAUSES[min(self.deaths, len(_PAUSES)) - 1]


def _end_with_parent() -> None:
    """A node that is killed takes its children with it; left behind, they would be in the way of the next one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def ending_signals() -> Iterator[Callable[[], bool]]:
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
def only_one(path: Path, sentence: str) -> Iterator[None]:
    """Holds a lock that the system itself lets go when the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(sentence) from None
        yield
    finally:
        os.close(descriptor)


def _for_computing() -> list[Path]:
    """What a process that computes may write beside its own folders."""
    return [path for path in [Path("/dev/shm")] if path.is_dir()]
