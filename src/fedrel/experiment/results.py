"""What a run has written to its folder, read again: its result, its rounds, its experiment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedrel.config import Experiment
from fedrel.errors import UserError
from fedrel.experiment.assembly import read_experiment


def experiment_of(folder: Path) -> Experiment:
    """The experiment of a run, for going on with it. Raises UserError if there is no run in the folder."""
    path = folder / "experiment.toml"
    if not path.is_file():
        raise UserError(f"{folder}: no run to go on with (it has no experiment.toml)")
    return read_experiment(path, as_it_was(path.read_text(encoding="utf-8")))


def as_it_was(experiment: str) -> list[str]:
    """What held for a run whose experiment, as TOML, says nothing of it: it was begun before that could be set."""
    settings = [] if "hide_names" in experiment else ["extractor.hide_names=0"]
    return settings if "[privacy]" in experiment else [*settings, "privacy.sums=off"]


def read_result(folder: Path) -> dict[str, Any]:
    """The result.json of a run. Raises UserError if the run is not finished, or there is none."""
    if not (folder / "result.json").exists():
        if (folder / "experiment.toml").is_file():
            raise UserError(f"{folder}: not finished; resume it with: fedrel run --resume {folder}")
        raise UserError(f"{folder}: no run in this folder")
    return read_json(folder / "result.json", _RESULT)


_RESULT = ("method", "seed", "rounds", "best_round", "dev", "test", "selection", "bytes", "seconds")


def read_json(path: Path, keys: Iterable[str]) -> dict[str, Any]:
    """The object in a JSON file that fedrel wrote. Raises UserError if it cannot be read or lacks one of the keys."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not content.keys() >= set(keys):
            raise ValueError("not written by fedrel")
        return content
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: unreadable ({error})") from None


def read_rounds(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl. Raises UserError if one is not a round with scores and bytes."""
    path = folder / "metrics.jsonl"
    rounds = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                rounds.append(_round(json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise UserError(f"{path}:{number}: unreadable ({error})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: unreadable ({error})") from None
    return rounds


def _round(line: Any) -> dict[str, Any]:
    match line:
        case {"round": int(), "dev": dict(), "bytes": {"up": int(), "down": int()}, "cohort": list()}:
            return dict(line)
    raise ValueError("not written by fedrel")
