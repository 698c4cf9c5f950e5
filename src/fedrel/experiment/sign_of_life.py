"""What a run in one process is doing, in a small file of its folder while it goes on, for whoever watches it.

    RUN/progress.json

It goes when the result is there. Rounds are in metrics.jsonl; this says what happens between them, and, once the run
has ended early, why.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedrel.util.files import write_atomic

FILE = "progress.json"
_EVERY = 1.0  # seconds between two looks at the clock that are written down


class SignOfLife:
    """Writes the file, once it has begun, every second at most; `at_work` says how the run ended, if it does not come
    to a result. Without a folder it writes nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._begun = False
        self._written = 0.0
        self._said: dict[str, Any] = {
            **{"state": "starting", "why": "", "doing": "", "round": 0, "best_round": 0, "score": None},
            **{"began": time.time(), "pid": os.getpid(), "host": platform.node(), "resumed": []},
        }

    def begin(self, resumed: int | None) -> None:
        """The folder is there. `resumed`: the round after which an earlier attempt is gone on with."""
        self._begun = self._path is not None
        if self._path is not None and resumed is not None:
            before: list[Any] = []
            with suppress(OSError, ValueError, KeyError, TypeError):
                before = list(json.loads(self._path.read_text(encoding="utf-8"))["resumed"])
            self._said |= {"resumed": [*before, {"time": time.time(), "round": resumed}], "round": resumed}
        self._write()

    def doing(self, what: str) -> None:
        """Notes the current task."""
        self._said |= {"state": "running", "doing": what}
        if time.monotonic() - self._written > _EVERY:
            self._write()

    def round_done(self, round_: int, best_round: int, best_score: float) -> None:
        """Notes a round, and the best one so far; 0: none counts yet."""
        score = best_score if best_round else None
        self._said |= {"state": "running", "round": round_, "best_round": best_round, "score": score}
        self._write()

    @contextmanager
    def at_work(self, ended: Callable[[str], None]) -> Iterator[None]:
        """Around the rounds: leaves behind why they ended early; `ended` is told FAILED or KILLED."""
        try:
            yield
        except Exception as error:
            self._end("failed", str(error))
            ended("FAILED")
            raise
        except BaseException:  # Ctrl-C, or nobody asks for more rounds
            self._end("stopped", "")
            ended("KILLED")
            raise

    def finished(self) -> None:
        """The result says the rest."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _end(self, state: str, why: str) -> None:
        self._said |= {"state": state, "why": why, "doing": ""}
        with suppress(OSError):  # what ended the run is told, whatever this comes to
            self._write()

    def _write(self) -> None:
        if not self._begun or self._path is None:
            return
        self._written = time.monotonic()
        write_atomic(self._path, json.dumps({**self._said, "beat": time.time()}) + "\n")
