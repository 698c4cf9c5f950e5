"""What to do with verdicts: the command that makes the reviewed model learn from them."""

from __future__ import annotations

import shlex
from pathlib import Path

from fedrel.experiment.starting import run_of


def next_step(model: Path, store: Path, data: Path) -> str:
    """The command, which works as it is written; its output is a folder that does not exist yet, beside the model."""
    run = run_of(model) or model
    names = (run.with_name(f"{run.name}-improved{number}") for number in ("", *range(2, 1_000)))
    out = next(path for path in names if not path.exists())
    words = ("fedrel", "improve", model, "--verdicts", store, "--data", data, "--out", out)
    return " ".join(shlex.quote(str(it)) for it in words)
