"""What to do with verdicts: the commands that a reviewer is shown."""

from __future__ import annotations

import shlex
from pathlib import Path


def improving(model: Path | None, store: Path, data: Path, *, facts: bool) -> str:
    """The commands that improve the reviewed model; the sentences of facts are written as data first, which is all
    where it is not known which model has found them.
    """
    lines = []
    if facts:
        judged = store.with_suffix(".judged.jsonl")
        lines.append(_line("feedback", "judged", store, data, judged))
        data = judged
    if model is not None:
        better = model.with_name(f"{model.name}-improved")
        lines.append(_line("improve", model, "--verdicts", store, "--data", data, "--out", better))
    return "\n".join(lines)


def trusting(store: Path, data: Path) -> str:
    """The commands that choose rounds by the verdicts on held-out sentences."""
    written = _line("feedback", "judged", store, data, "trusted.jsonl")
    return f"{written}\nfedrel run … --set data.trusted=trusted.jsonl"


def _line(*words: object) -> str:
    return shlex.join(["fedrel", *map(str, words)])
