"""What the processes of a node leave for each other, and for people: where a run stands, and how the node was started.

    RUNS/NAME.status.json   beside the folder of the run; its process writes it every second
    KIT/local/start.json    what `fedrel coordinator start` or `fedrel platform start` was told

Whoever only looks needs neither NVFlare nor torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrel.files import write_whole

START = "local/start.json"
COMMAND = "fedrel"  # the app command to which a run's job answers with its Status
ALIVE = ("starting", "running", "waiting", "restarting")
ENDED = ("done", "failed", "stopped")
_SUFFIX = ".status.json"


@dataclass
class Status:
    """Where a run stands, for `fedrel status` and for whoever must start it again."""

    run: str
    state: str = "starting"  # one of ALIVE or ENDED
    why: str = ""
    job: str = ""
    experiment: str = ""  # as submitted
    attempt: int = 0
    round: int = 0
    rounds: int = 0
    doing: str = ""
    score: float | None = None
    metric: str = ""
    best_round: int = 0
    platforms: dict[str, dict[str, Any]] = field(default_factory=dict)
    beat: float = 0.0
    pid: int = 0
    folder: str = ""
    result: dict[str, Any] = field(default_factory=dict)


def status_file(runs: Path, run: str) -> Path:
    return runs / f"{run}{_SUFFIX}"


def status_files(runs: Path) -> list[Path]:
    return sorted(runs.glob(f"*{_SUFFIX}"))


def read_status(path: Path) -> dict[str, Any]:
    """The fields of a Status; nothing, if there is none that can be read."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except (OSError, ValueError):
        return {}


def write_status(path: Path, status: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(status, indent=1))


def read_start(kit: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((kit / START).read_text(encoding="utf-8"))
    return found


def write_start(kit: Path, settings: Mapping[str, Any]) -> None:
    write_whole(kit / START, json.dumps(settings, indent=1))
