"""A node's child processes: started with a channel, known by their handles (no pid is ever stored), ended with it."""

from __future__ import annotations

import contextlib
import ctypes
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
from fedrel.util.locks import lock_alone

LOG = "node.log"
CONFINED = "fedrel.federation.nodes.confined"
NO_SPACE = 75  # exit code of a run's process: the disk is full, to be started again when there is space
_LOG_BYTES, _LOGS = 5 * 2**20, 3
_PR_SET_PDEATHSIG = 1
_GRACE = 5.0  # seconds for a child to exit before it is killed
_PAUSES = (0.5, 1.0, 2.0, 5.0)  # seconds before the next start, longer after each quick death
_SETTLED = 60.0  # seconds of life after which a death counts as the first again


class Log:
    """A node's log: the output of its children, in rotating files."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOG
        path.touch(mode=0o600)
        self._handler = RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=_LOGS, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def write(self, who: str, line: str) -> None:
        """Adds a line. Nothing is raised if the disk is full."""
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {who}: {shown(line)}"
        with contextlib.suppress(OSError):  # a full disk must not end the node
            self._handler.emit(logging.LogRecord("node", logging.INFO, "", 0, text, None, None))

    def follow(self, who: str, pipe: IO[bytes]) -> None:
        """Adds every line from a pipe, until it is closed."""
        with pipe:
            for line in iter(lambda: pipe.readline(2**16), b""):
                # A line may quote other parties; their escape sequences must not reach a terminal that shows the log.
                self.write(who, shown(line.decode(errors="backslashreplace").rstrip("\n"), 2**16))


@dataclass
class Child:
    """A child process, and our end of its channel."""

    who: str
    process: subprocess.Popen[bytes]
    channel: Channel
    begun: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, who: str, module: str, told: dict[str, Any], log: Log) -> Child:
        """Starts `python -m MODULE DESCRIPTOR` and sends it `told` as its first message."""
        return cls._start(who, [module], told, log, dict(os.environ))

    @classmethod
    def confined(cls, kind: str, who: str, told: dict[str, Any], writable: list[Path], log: Log) -> Child:
        """Starts a worker or a conductor, which confines itself: it can write only to these folders and its caches."""
        compiled = private_cache("numba")
        environment = {"NUMBA_CACHE_DIR": str(compiled), **os.environ}
        chosen = private_folder(Path(environment["NUMBA_CACHE_DIR"]))
        folders = [*writable, private_cache("data"), private_cache("unpacked"), compiled, chosen, *_for_computing()]
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
        with contextlib.suppress(ClosedError):  # it died at once; noticed where its channel is read
            channel.send({"do": "start", **told})
        return child

    def ended(self) -> bool:
        return self.process.poll() is not None

    def reap(self) -> None:
        """Waits for a process that has closed its channel, so that its own exit code is seen, and kills it if it does
        not exit.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        self.end(gracefully=False)

    def end(self, *, gracefully: bool = True) -> None:
        """Asks the process to end over its channel, if `gracefully`, and then kills it."""
        if gracefully:
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
        """How the process ended, for people; waits for its end."""
        code = self.process.wait()
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        return f"signal {-code}{hint}" if code < 0 else f"exit code {code}"


Heard = tuple[Child | None, Callable[[Message], None], Callable[[], None]]  # a child, handlers of a message and its end


def hear(children: Sequence[Heard], seconds: float, invalid: Callable[[str], None]) -> None:
    """Waits up to `seconds` for messages, and handles one of each child that has sent any. An invalid message (a
    compromised network process may send anything) is reported to `invalid` and counts as the end of its child.
    """
    channels = {it[0].channel.fileno(): it for it in children if it[0] is not None}
    for descriptor in select.select(list(channels), [], [], seconds)[0]:
        child, told, gone = channels[descriptor]
        if child is None or child.channel.fileno() != descriptor:
            continue  # it ended while another child's message was handled
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
    """How long to wait before a child is restarted."""

    deaths: int = 0

    def after(self, child: Child) -> float:
        """Seconds to wait after the death of this child."""
        self.deaths = 1 if time.monotonic() - child.begun > _SETTLED else self.deaths + 1
        return _PAUSES[min(self.deaths, len(_PAUSES)) - 1]


def _end_with_parent() -> None:
    """Makes the kernel kill the child when the node dies; a leftover child would block the next node."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def ending_signals() -> Iterator[Callable[[], bool]]:
    """Catches SIGINT and SIGTERM; yields a function that says whether one has arrived."""
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
    """Holds a lock file, which the kernel releases when the process dies. Raises UserError(sentence) if another process
    holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            lock_alone(descriptor)
        except BlockingIOError:
            raise UserError(sentence) from None
        yield
    finally:
        os.close(descriptor)


def _for_computing() -> list[Path]:
    """What a process that computes may write besides its own folders."""
    return [path for path in [Path("/dev/shm")] if path.is_dir()]
