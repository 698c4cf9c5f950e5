"""The state of a run, from the folder that it writes; read again, it reads what is new."""

from __future__ import annotations

import json
import os
import platform
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.util.files import Tail
from fedrel.watch import states
from fedrel.watch.history import extended, is_number, note

_MOST_LEDGER = 200_000  # lines that one look reads; the rest waits for the next
_REPORT, _PROGRESS = "report.html", "progress.json"


class RunFolder:
    """`look` returns a status, as a coordinator keeps one. `beside` reads the status file that a coordinator writes
    next to the folder; it is empty where there is none.
    """

    def __init__(self, folder: Path, beside: Callable[[Path], dict[str, Any]] = lambda folder: {}) -> None:
        """Raises UserError if there is no run in the folder."""
        self.folder = folder.absolute()
        self._beside = beside
        if not (folder / "experiment.toml").is_file() and not beside(self.folder):
            compared = (folder / "compare.json").is_file() or (folder / "cells").is_dir()
            raise UserError(
                f"{folder}: a comparison; watch one of the runs in {folder / 'cells'}"
                if compared
                else f"{folder}: no run in this folder; a run writes it once its data are prepared"
            )
        self._forget()

    @property
    def report(self) -> Path | None:
        """The page about the finished run, once it is there."""
        path = self.folder / _REPORT
        return path if path.is_file() else None

    def look(self, now: float) -> dict[str, Any]:
        """The run's status at this time, in seconds since 1970."""
        if status := self._beside(self.folder):
            beat = status.get("beat")
            return {**status, "silent": max(0.0, now - beat) if is_number(beat) and beat else 0.0}
        experiment, result, progress = self._experiment(), self._json("result.json"), self._json(_PROGRESS)
        training = _table(experiment, "training")
        metric = str(result.get("metric") or training.get("metric") or "")
        self._read(metric)
        round_ = self._history[-1]["round"] if self._history else 0
        best = result.get("best_round") or progress.get("best_round") or 0
        state, why = self._state(result, progress)
        return {
            "run": self.folder.name,
            "state": state,
            "why": why,
            "round": round_,
            "rounds": training.get("rounds") or 0,
            "metric": metric,
            "score": self._history[-1]["score"] if self._history else None,
            "best_round": best,
            "doing": progress.get("doing") or "",
            "queued": progress.get("began") or 0.0,
            "silent": max(0.0, now - progress["beat"]) if is_number(progress.get("beat")) else 0.0,
            "method": _table(experiment, "method").get("name", ""),
            "history": self._history,
            "events": self._told(progress),
            "cohort": self._cohort,
            "platforms": self._platforms(),
            "result": result,
            "folder": str(self.folder),
        }

    # -- its files --------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._metrics = Tail(self.folder / "metrics.jsonl", whole=True)
        self._ledger = Tail(self.folder / "ledger.jsonl", whole=True)
        self._history: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._cohort: list[str] = []
        self._taken: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
        self._suspected: dict[str, dict[str, Any]] = {}

    def _read(self, metric: str) -> None:
        """Reads the rounds and the ledger's lines that are new; all of them, where a resumed run wrote them anew."""
        if self._metrics.is_other() or self._ledger.is_other():
            self._forget()
        for line in self._metrics.lines():
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):  # of another version
                self._round(json.loads(line), metric)
        for line in islice(self._ledger.lines(), _MOST_LEDGER):
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                entry = json.loads(line)
                self._sent[str(entry["platform"])] += int(entry["bytes"])

    def _round(self, line: dict[str, Any], metric: str) -> None:
        self._history = extended(self._history, line, metric)
        self._cohort = [str(name) for name in line["cohort"]]
        self._taken.update(self._cohort)
        for found in line.get("suspicions", ()):
            self._suspicion(found, line["round"])

    def _suspicion(self, found: dict[str, Any], round_: int) -> None:
        from fedrel.engines.screening import Suspicion  # imports torch

        told = Suspicion(**found)
        mine = self._suspected.setdefault(told.platform, {"suspicions": 0})
        mine |= {"suspicions": mine["suspicions"] + 1, "suspicion": str(told)}
        if told.left_out:
            mine["suspected"] = round_
        note(self._events, 0.0, round_, "left out" if told.left_out else "out of line", told.platform, told.why)

    def _platforms(self) -> dict[str, dict[str, Any]]:
        held = _table(self._json("details.json"), "held") if self.report else {}
        names = sorted({*self._taken, *self._sent, *held})
        return {
            name: {
                "rounds": self._taken[name],
                "bytes": self._sent[name],
                **({"held": held[name]} if name in held else {}),
                **self._suspected.get(name, {}),
            }
            for name in names
        }

    def _told(self, progress: dict[str, Any]) -> list[dict[str, Any]]:
        """Attempts that diverged, what went wrong in rounds, and where the run was gone on with."""
        events: list[dict[str, Any]] = []
        for path in sorted(self.folder.glob("diverged-*/why.json")):
            why = str(_read_json(path).get("why", ""))
            note(events, path.stat().st_mtime, 0, "begun again with a smaller learning rate", why=why)
        resumed = progress.get("resumed")
        for it in resumed if isinstance(resumed, list) else ():
            if isinstance(it, dict):
                note(events, it.get("time") or 0.0, it.get("round") or 0, "resumed")
        return sorted([*events, *self._events], key=lambda it: (it["round"], it["time"]))

    def _state(self, result: dict[str, Any], progress: dict[str, Any]) -> tuple[str, str]:
        if result:
            return "done", ""
        state = progress.get("state")
        if state in ("failed", "stopped"):
            return state, str(progress.get("why") or "")
        if state not in states.ALIVE or _is_over(progress):
            return states.INTERRUPTED, ""
        return state, ""

    def _experiment(self) -> dict[str, Any]:
        try:
            return tomllib.loads((self.folder / "experiment.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}

    def _json(self, name: str) -> dict[str, Any]:
        return _read_json(self.folder / name)


def _is_over(progress: dict[str, Any]) -> bool:
    """Whether the process that wrote this is gone, as far as that can be told from here."""
    pid = progress.get("pid")
    if os.name != "posix" or progress.get("host") != platform.node() or not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty if the file is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _table(found: dict[str, Any], name: str) -> dict[str, Any]:
    inner = found.get(name)
    return inner if isinstance(inner, dict) else {}
