"""Training that diverges is noticed by its loss, told in a sentence, and begun again with a smaller learning rate.

What the attempt had logged stays in a folder of its own within that of the run, `diverged-1` and so on: what left a
platform must not be forgotten.
"""

from __future__ import annotations

import json
import math
import shutil
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedrel.config import Experiment
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.loggers import MLFLOW, TENSORBOARD
from fedrel.experiment.sign_of_life import FILE as PROGRESS

SMALLER = 0.3  # times the learning rate, for the next attempt
_FOLDER = "diverged-"
_KEPT = ("experiment.toml", "metrics.jsonl", "ledger.jsonl", TENSORBOARD, MLFLOW)
_ROUNDS = 3  # in a row with a loss beyond the limit; a single one may be chance, where few platforms take part


@dataclass(frozen=True)
class LossLimit:
    """A loss beyond which a model is worse than one that guesses, by far: five times its cross-entropy, and more."""

    labels: int

    @property
    def guessing(self) -> float:
        return math.log(max(2, self.labels))

    def exceeded(self, loss: float | None) -> bool:
        """Whether a round's mean loss shows that training diverges."""
        return loss is not None and not loss <= 5 * (self.guessing + 1)

    def require(self, loss: float | None, in_a_row: int, number: int, lr: float) -> None:
        """Raises DivergedError after too many such rounds in a row, this being the latest."""
        if in_a_row >= _ROUNDS:
            raise DivergedError(
                f"training diverges: a loss of {loss:.3g} in round {number}, where guessing has {self.guessing:.2g}; "
                f"lower training.lr, which is {lr:g}"
            )


def begin_again(experiment: Experiment, folder: Path, error: DivergedError) -> Experiment:
    """The experiment with a smaller learning rate, for a run that diverged; what it had written is put aside. Raises
    the error itself if it has begun again as often as training.restarts allows.
    """
    attempts = past_attempts(folder)
    if len(attempts) >= experiment.training.restarts:
        raise error
    lr = _rate_of(experiment, folder)
    aside = folder / f"{_FOLDER}{len(attempts) + 1}"
    try:
        aside.mkdir(parents=True)
        for name in _KEPT:
            if (folder / name).exists():
                (folder / name).rename(aside / name)
        (aside / "why.json").write_text(json.dumps({"lr": lr, "why": str(error)}))
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        (folder / PROGRESS).unlink(missing_ok=True)
    except OSError as problem:
        raise UserError(f"{problem.filename}: {problem.strerror or problem}") from None
    return replace(experiment, training=replace(experiment.training, lr=lr * SMALLER, lr_auto=False))


def _rate_of(experiment: Experiment, folder: Path) -> float:
    """The learning rate of the run in the folder, which may have chosen it by itself."""
    try:
        return float(tomllib.loads((folder / "experiment.toml").read_text(encoding="utf-8"))["training"]["lr"])
    except (OSError, ValueError, KeyError):
        return experiment.training.lr


def past_attempts(folder: Path) -> list[dict[str, Any]]:
    """`lr` and `why` of each attempt of a run that diverged, in their order."""
    found = sorted(it for it in folder.glob(f"{_FOLDER}*/why.json")) if folder.is_dir() else []
    return [json.loads(it.read_text()) for it in found]


def is_of_past_attempt(path: Path) -> bool:
    """Whether a path in the folder of a run belongs to an attempt that diverged."""
    return path.name.startswith(_FOLDER)


def require_free(folder: Path) -> list[Path]:
    """What a new run finds in its folder: nothing, or what attempts that diverged have left. Raises UserError if
    anything else is there.
    """
    before = list(folder.iterdir()) if folder.is_dir() else []
    if folder.is_file() or not all(is_of_past_attempt(it) for it in before):
        raise UserError(f"{folder} is not empty; go on with --resume {folder}, or choose another --out")
    return before
