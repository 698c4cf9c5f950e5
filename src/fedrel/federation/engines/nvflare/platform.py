"""A platform's part in a job: hands the coordinator's requests to the process that trains, and its answers back.

This process sees bytes only. It imports neither torch nor anything that reads text.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedrel.federation import frames
from fedrel.federation.engines.nvflare.status import read_start
from fedrel.federation.frames import ClosedError, Frame, OverdueError

PAYLOAD, HEADER = "payload", "header"
TASK = "fedrel"  # the only one that a platform's job knows


@dataclass
class Child:
    """The process that trains, started when first needed and again after it died."""

    begin: Frame | None = None  # how it is told of the run
    process: subprocess.Popen[bytes] | None = None
    pipes: tuple[int, int] = (-1, -1)  # to read from, to write to
    asked: int = 0

    def ask(self, frame: Frame, deadline: float, abort: Signal) -> Frame:
        if frame.header["do"] == "begin":
            self.stop()
            self.begin = frame
        elif self.process is None and self.begin is not None:
            self._answer(self.begin, deadline, abort)
        return self._answer(frame, deadline, abort)

    def _answer(self, frame: Frame, deadline: float, abort: Signal) -> Frame:
        process = self.process or self._start()
        self.asked += 1
        try:
            frames.send(self.pipes[1], Frame({**frame.header, "id": self.asked}, frame.payload))
            while True:
                answer = frames.receive(self.pipes[0], deadline=deadline, wanted=lambda: not abort.triggered)
                if answer.header.pop("id", None) == self.asked:  # what was said twice is heard once
                    return answer
        except ClosedError:
            code = process.wait()
            self.stop()
            why = f"signal {-code}" if code < 0 else f"exit code {code}"
            hint = " (out of memory?)" if code == -signal.SIGKILL else ""
            return Frame({"failed": f"the platform's training process ended with {why}{hint}"})
        except OverdueError:
            self.stop()
            return Frame({"failed": "not done by the deadline"})

    def _start(self) -> subprocess.Popen[bytes]:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = [sys.executable, "-m", "fedrel.worker", str(theirs_in), str(theirs_out)]
        self.process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.pipes = (ours_in, ours_out)
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in self.pipes:
                os.close(pipe)
            self.process = None


class Platform(Executor):  # type: ignore[misc]  # nvflare has no types
    def __init__(self) -> None:
        super().__init__()
        self.child = Child()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        header = _request(shareable)
        if task_name != TASK or header is None:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
        if header["do"] == "begin":
            header |= _own_settings(kit, fl_ctx.get_identity_name())
        deadline = time.monotonic() + float(header["seconds"])
        answer = self.child.ask(Frame(header, shareable[PAYLOAD]), deadline, abort_signal)
        reply = Shareable()
        reply[HEADER], reply[PAYLOAD] = answer.header, bytes(answer.payload)
        return reply

    def finalize(self, fl_ctx: FLContext) -> None:
        self.child.stop()


def _request(shareable: Shareable) -> dict[str, Any] | None:
    """What is asked for, if it is anything we know."""
    header, payload = shareable.get(HEADER), shareable.get(PAYLOAD)
    wanted = {"do": str, "run": str, "task": str, "round": int, "attempt": int, "seconds": float}
    if not isinstance(header, dict) or not isinstance(payload, bytes | bytearray) or header.keys() != wanted.keys():
        return None
    if not all(type(header[name]) is kind for name, kind in wanted.items()) or not _is_plain(header["run"]):
        return None
    return dict(header)


def _is_plain(name: str) -> bool:
    """A run's name becomes a folder's."""
    return 0 < len(name) <= 100 and all(c.isascii() and (c.isalnum() or c in "._-") for c in name) and name[0] != "."


def _own_settings(kit: Path, name: str) -> dict[str, Any]:
    """Where this platform keeps what is its own; the coordinator has no say in it."""
    told = read_start(kit)
    return {
        "name": name,
        "data": told["data"],
        "store": told.get("store", ""),
        "key": str(kit / "local" / "blinding.key"),
        "policy": str(kit / "local" / "policy.toml"),
        "ledger": str(kit / "ledger" / "ledger.jsonl"),
        "memory": str(kit / "memory"),
    }
