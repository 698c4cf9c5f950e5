"""What to do with verdicts: the commands that a reviewer is shown."""

from __future__ import annotations

import shlex
from pathlib import Path


def improving(model: Path | None, store: Path, data: Path) -> str:
    """The command that improves the reviewed model, which works from any folder and as often as one likes. Where it is
    not known which model that is, the answers are written beside the sentences of the facts.
    """
    store, data = store.absolute(), data.absolute()
    if model is None:
        return _line("feedback", "judged", store, data, store.with_suffix(".judged.jsonl"))
    return _line("improve", model.absolute(), "--verdicts", store, "--data", data)


def trusting(store: Path, data: Path) -> str:
    """The commands that choose rounds by the verdicts on held-out sentences."""
    written = _line("feedback", "judged", store, data, "trusted.jsonl")
    return f"{written}\nfedrel run … --set data.trusted=trusted.jsonl"


def _line(*words: object) -> str:
    return shlex.join(["fedrel", *map(str, words)])
