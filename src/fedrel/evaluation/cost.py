"""Communication cost: rounds and bytes until a target score, and upload per platform and round.

Everything is computed from the lines of metrics.jsonl, that is from measured bytes, not from a formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def to_reach(rounds: Sequence[Mapping[str, Any]], metric: str, target: float) -> dict[str, float] | None:
    """`round`, the first one whose dev score reaches the target, with `bytes_up` and `bytes_down`, the bytes of all
    rounds up to and including it; None if no round reaches it.
    """
    up = down = 0
    for line in rounds:
        up += line["bytes"]["up"]
        down += line["bytes"]["down"]
        if line["dev"][metric] >= target:
            return {"round": line["round"], "bytes_up": up, "bytes_down": down}
    return None


def upload_per_platform(rounds: Sequence[Mapping[str, Any]]) -> float:
    """The mean bytes that a platform uploads in a round it takes part in; 0 if none ever took part."""
    sent = sum(line["bytes"]["up"] for line in rounds)
    return float(sent / max(sum(len(line["cohort"]) for line in rounds), 1))
