"""The coordinator's watch over its runs: one whose process died, or that must take a platform in again, goes on.

NVFlare gives a job up when its process or its server dies, and never lets a platform back into one. So the run ends and
a new job goes on with it from the checkpoint; at most one round is repeated.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.federation.engines.nvflare.kits import Kit
from fedrel.federation.engines.nvflare.session import Admin, NoAnswerError, connect
from fedrel.federation.engines.nvflare.status import ALIVE, read_status, status_files, write_status

_LOOK = 2.0  # seconds
_STUCK = 300.0  # seconds without a sign of life from a process that exists
_RETURN = 30.0  # seconds to wait for platforms
_TRIES = 5  # without a new round


@dataclass
class Keeper:
    kit: Kit
    runs: Path
    say: Callable[[str], None]
    ended: threading.Event = field(default_factory=threading.Event)
    _died: dict[str, float] = field(default_factory=dict)  # since when a run has no process
    _told: dict[str, str] = field(default_factory=dict)  # run: the job that was asked to end for those who are back
    _tries: dict[str, tuple[int, int]] = field(default_factory=dict)  # run: (round, how often it was started there)

    def watch(self) -> None:
        """In a thread of its own, since the server may take its time to answer."""
        while not self.ended.wait(_LOOK):
            for path in status_files(self.runs):
                status = read_status(path)
                if status.get("state") in ALIVE:
                    try:
                        self._look_after(status, path)
                    except UserError:
                        pass  # the server is not up yet, or again
                    except Exception as error:  # whatever NVFlare raises; the next look may do better
                        self.say(f"looking after {status['run']}: {type(error).__name__}: {error}")

    def _look_after(self, status: dict[str, Any], path: Path) -> None:
        if _is_alive(status["pid"]):
            if time.time() - status["beat"] > _STUCK:
                self.say(f"{status['run']}: no sign of life for {_STUCK:g} s; its process is ended")
                os.kill(status["pid"], signal.SIGKILL)
            elif status["state"] in ("running", "waiting"):
                self._let_back_in(status)
            return
        round_, tries = self._tries.get(status["run"], (-1, 0))
        tries = tries + 1 if round_ == status["round"] else 1
        if tries > _TRIES:
            why = f"started {_TRIES} times without getting past round {status['round']}"
            write_status(path, {**status, "state": "failed", "why": why})
            self.say(f"{status['run']}: {why}")
            return
        with connect(self.kit) as admin:
            if not self._are_back(admin, status):
                return
            self._end_old(admin, status)
            job = admin.submit(status["run"], status["experiment"])
        self._tries[status["run"]] = (status["round"], tries)
        write_status(path, {**status, "pid": os.getpid(), "job": job, "beat": time.time()})
        self.say(f"{status['run']}: goes on after round {status['round']}")

    def _are_back(self, admin: Admin, status: dict[str, Any]) -> bool:
        """After the server died, platforms take some seconds to find it; a job begins with those that are there."""
        expected = {name for name, it in status["platforms"].items() if not it["absent"]}
        since = self._died.setdefault(status["run"], time.monotonic())
        if expected <= admin.connected().keys() or time.monotonic() - since > _RETURN:
            del self._died[status["run"]]
            return True
        return False

    def _end_old(self, admin: Admin, status: dict[str, Any]) -> None:
        """A job whose process is gone may count as running for ever, and then cannot be ended."""
        for job in admin.running(status["run"]):
            with contextlib.suppress(NoAnswerError):
                admin.abort(job)

    def _let_back_in(self, status: dict[str, Any]) -> None:
        absent = [name for name, it in status["platforms"].items() if it["absent"]]
        if not absent:
            return
        with connect(self.kit) as admin:
            here = admin.connected()
            back = [name for name in absent if name in here and status["job"] not in admin.jobs_of(name)]
            if back and self._told.get(status["run"]) != status["job"]:
                self._told[status["run"]] = status["job"]
                self.say(f"{status['run']}: {', '.join(back)} came back; the run takes it in after this round")
                admin.command(status["job"], "restart")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        return True
