"""The state of a run, in a file next to its folder that its process writes every second.

    RUNS/NAME.status.json

Reading it needs neither torch nor a network.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedrel.errors import UserError
from fedrel.util.files import run_name, write_atomic
from fedrel.watch.history import is_number, note
from fedrel.watch.states import ALIVE, ENDED, QUEUED

__all__ = [
    "ALIVE",
    "ENDED",
    "PLATFORM",
    "QUEUED",
    "Status",
    "read_status",
    "status_file",
    "status_files",
    "write_status",
]
_SUFFIX = ".status.json"
# What is known of a platform. Every key is there from the start: one thread writes while another adds to it
PLATFORM: dict[str, Any] = {"bytes": 0, "failures": 0, "seen": 0.0, "why": "", "asked": 0.0, "failed": 0.0, "took": 0.0}
PLATFORM |= {"rounds": 0, "suspicions": 0, "suspicion": "", "suspected": 0}


@dataclass
class Status:
    """The state of a run: for `fedrel status`, and for the node that restarts it. Times are seconds since 1970."""

    run: str
    run_id: str = ""
    state: str = QUEUED  # or one of ALIVE or ENDED
    why: str = ""
    queued: float = 0.0  # when it was submitted
    by: str = ""  # the admin who submitted it
    place: int = 0  # in the queue; 0: at work
    experiment: str = ""  # TOML, as submitted
    attempt: int = 0  # how often its process was started
    epoch: int = 0  # the `attempt` in its requests, which only grows
    round: int = 0  # the last finished one, from 1
    rounds: int = 0
    doing: str = ""  # the current task
    score: float | None = None
    metric: str = ""
    best_round: int = 0
    platforms: dict[str, dict[str, Any]] = field(default_factory=dict)
    cohort: list[str] = field(default_factory=list)  # of the last round
    history: list[dict[str, Any]] = field(default_factory=list)  # `fedrel.watch.history.point` of every round
    events: list[dict[str, Any]] = field(default_factory=list)  # what went wrong, and right again
    beat: float = 0.0  # time of the last heartbeat
    folder: str = ""
    result: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Status:
        """From a status file, perhaps of another version: unknown fields are ignored."""
        return cls(**{name: value for name, value in found.items() if name in cls.__dataclass_fields__})

    def note(self, what: str, platform: str = "", why: str = "") -> None:
        """Adds an event of now."""
        note(self.events, time.time(), self.round, what, platform, why)


def status_file(runs: Path, run: str) -> Path:
    """The path of a run's status file."""
    return runs / f"{run}{_SUFFIX}"


def status_files(runs: Path) -> list[Path]:
    """The paths of all status files, sorted."""
    return sorted(runs.glob(f"*{_SUFFIX}"))


def read_status(path: Path) -> dict[str, Any]:
    """The fields of a Status; empty if the file is missing, damaged or not a valid status: a tampered file must not
    crash a node.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        named = isinstance(found, dict) and "state" in found and f"{found.get('run')}{_SUFFIX}" == path.name
        return {**asdict(Status(run_name(found["run"]))), **found} if named and _sound(found) else {}
    except (OSError, ValueError, RecursionError, UserError):
        return {}


def _sound(found: dict[str, Any]) -> bool:
    """Whether every field has its type, including those of the platforms."""
    return (
        _alike(found, asdict(Status("")))
        and all(isinstance(it, dict) and _alike(it, PLATFORM) for it in found.get("platforms", {}).values())
        and all(isinstance(it, dict) and is_number(it.get("round")) for it in found.get("history", []))
        and all(isinstance(it, dict) and _alike(it, {"times": 1}) for it in found.get("events", []))
    )


def _alike(found: dict[str, Any], defaults: Mapping[str, Any]) -> bool:
    def kinds(default: object) -> tuple[type, ...]:
        return (
            (float, int, type(None))
            if default is None
            else (float, int)
            if type(default) is float
            else (type(default),)
        )

    return all(type(found.get(name, default)) in kinds(default) for name, default in defaults.items())


def write_status(path: Path, status: Mapping[str, Any]) -> None:
    """Replaces a status file, completely or not at all."""
    write_atomic(path, json.dumps(status, indent=1), private=True)
