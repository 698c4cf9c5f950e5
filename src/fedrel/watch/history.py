"""What is kept of every round of a run to draw it, and of what went wrong and right again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

MOST_ROUNDS = 400  # drawn; of longer runs, as many in equal steps
MOST_EVENTS = 200
Item = TypeVar("Item")


def extended(history: Sequence[dict[str, Any]], line: Mapping[str, Any], metric: str) -> list[dict[str, Any]]:
    """The rounds up to that of this line of metrics.jsonl, which may be a repeated one, with what is drawn of it and
    with sums so far; of very many, every second.
    """
    earlier = [it for it in history if it["round"] < line["round"]]
    last = earlier[-1] if earlier else {}
    found = _point(line, metric)
    for name in ("up", "down", "seconds"):
        before = last.get(f"all_{name}")
        found[f"all_{name}"] = (before if is_number(before) else 0) + found[name]
    return [*(earlier[::2] if len(earlier) > 2 * MOST_ROUNDS else earlier), found]


def _point(line: Mapping[str, Any], metric: str) -> dict[str, Any]:
    selection = line.get("selection") or {}
    return {
        "round": line["round"],
        "score": line["dev"].get(metric),
        "trusted": line.get("trusted"),
        "loss": line.get("loss"),
        "selection": selection.get("precision"),
        "base_rate": selection.get("base_rate"),
        "up": line["bytes"]["up"],
        "down": line["bytes"]["down"],
        "active": len(line["cohort"]),
        "trained": line.get("trained", 0),
        "seconds": line.get("seconds", 0.0),
    }


def thinned(items: Sequence[Item], most: int = MOST_ROUNDS) -> list[Item]:
    """All items, or as many in equal steps; the first and the last always."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def note(events: list[dict[str, Any]], time: float, round_: int, what: str, platform: str = "", why: str = "") -> None:
    """Adds an event, or counts it where the latest of this platform was the same; the oldest go."""
    latest = next((it for it in reversed(events) if it.get("platform") == platform), None)
    if latest is not None and (latest.get("what"), latest.get("why")) == (what, why):
        latest |= {"time": time, "round": round_, "times": latest.get("times", 1) + 1}
        return
    events.append({"time": time, "round": round_, "what": what, "platform": platform, "why": why, "times": 1})
    del events[:-MOST_EVENTS]


def numbers(points: Iterable[Mapping[str, Any]], name: str) -> list[float | None]:
    """A value of every round; None where it has none, or none that can be drawn."""
    found = (it.get(name) for it in points)
    return [float(it) if is_number(it) else None for it in found]


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value, which may come from elsewhere, is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
