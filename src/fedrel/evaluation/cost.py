"""What a score cost: rounds and bytes to a target, and what one platform sends in a round.

Everything is read from the lines of metrics.jsonl, so it is what was measured, not what a formula says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def to_reach(rounds: Sequence[Mapping[str, Any]], metric: str, target: float) -> dict[str, float] | None:
    """The first round whose dev score is the target or better, with the bytes of all rounds up to and including it;
    None where no round got there.
    """
    up = down = 0
    for line in rounds:
        up += line["bytes"]["up"]
        down += line["bytes"]["down"]
        if line["dev"][metric] >= target:
            return {"round": line["round"], "bytes_up": up, "bytes_down": down}
    return None


def upload_per_platform(rounds: Sequence[Mapping[str, Any]]) -> float:
    """Mean bytes that a platform sends up in a round it takes part in; 0 where none ever did."""
    sent = sum(line["bytes"]["up"] for line in rounds)
    return float(sent / max(sum(len(line["cohort"]) for line in rounds), 1))
