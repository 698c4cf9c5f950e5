"""Charts of a run that goes on, as numbers for SVG: fast enough to be drawn anew every second."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedrel.util.units import format_bytes
from fedrel.watch.history import numbers, thinned
from fedrel.watch.view import Run

WIDTH, HEIGHT = 440, 200
LEFT, RIGHT, TOP, BOTTOM = 56, 10, 12, 34
_STEPS = (1, 2, 2.5, 5, 10)
_DOTS = 40  # with more rounds, dots would hide the line


@dataclass(frozen=True)
class Curve:
    """One line of a chart: the stretches of rounds that have a value, as "x,y x,y …"."""

    name: str
    kind: str  # its style: first or second
    stretches: list[str]
    dots: list[tuple[float, float, str]]  # with what a pointer on it is told


@dataclass(frozen=True)
class Chart:
    """A chart with its axes."""

    id: str
    title: str
    said: str  # for those who do not see it
    curves: list[Curve]
    across: list[tuple[float, str]]  # where rounds are marked
    up: list[tuple[float, str]]
    best: float | None  # where the best round is


def charts(run: Run) -> list[Chart]:
    """Score, loss, selection and bytes over the rounds of a run, as far as it has any."""
    points = thinned(run.history)
    rounds = [int(it["round"]) for it in points]
    if not rounds:
        return []
    best = run.best_round
    drawn = [("score", f"dev {run.metric}", [("score", "")], best)]
    if any(it is not None for it in numbers(points, "trusted")):
        drawn.append(("trusted", "score on sentences that people judged", [("trusted", "")], best))
    drawn.append(("loss", "training loss", [("loss", "")], 0))
    drawn.append(
        ("selection", "selected sentences that are right", [("selection", "selected"), ("base_rate", "all")], 0)
    )
    drawn.append(("bytes", "bytes a round", [("up", "up"), ("down", "down")], 0))
    found = []
    for id_, title, names, marked in drawn:
        lines = [(label, numbers(points, name)) for name, label in names]
        if any(value is not None for _, values in lines for value in values):
            found.append(_chart(id_, title, rounds, lines, marked, as_bytes=id_ == "bytes"))
    return found


def _chart(
    id_: str,
    title: str,
    rounds: Sequence[int],
    lines: Sequence[tuple[str, Sequence[float | None]]],
    best: int,
    *,
    as_bytes: bool,
) -> Chart:
    top = max((value for _, values in lines for value in values if value is not None), default=0.0)
    step = _step(top / 4) if top > 0 else 0.25
    high = step * max(1, math.ceil(top / step - 1e-9))
    first, last = rounds[0], max(rounds[-1], rounds[0] + 1)

    def x(round_: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (round_ - first) / (last - first), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(value, 0.0) / high, 1)

    def words(value: float) -> str:
        return format_bytes(value) if as_bytes else f"{value:.3f}"

    curves = []
    for (label, values), kind in zip(lines, ("first", "second"), strict=False):
        there = [(round_, value) for round_, value in zip(rounds, values, strict=True) if value is not None]
        dots = [(x(at), y(value), f"round {at}: {label} {words(value)}") for at, value in there]
        stretches = _stretches([(x(at), None if it is None else y(it)) for at, it in zip(rounds, values, strict=True)])
        curves.append(Curve(label, kind, stretches, dots if len(there) <= _DOTS else dots[-1:]))
    return Chart(
        id=id_,
        title=title,
        said=_said(title, rounds, lines, words),
        curves=curves,
        across=[(x(at), f"{at:g}") for at in _whole(first, rounds[-1])],
        up=[(y(step * n), _bytes(step * n) if as_bytes else f"{step * n:g}") for n in range(round(high / step) + 1)],
        best=x(best) if first <= best <= rounds[-1] else None,
    )


def _bytes(count: float) -> str:
    """As briefly as an axis has room for: "250 KB", "1.5 MB"."""
    return format_bytes(count).replace(".0 ", " ")


def _stretches(points: Sequence[tuple[float, float | None]]) -> list[str]:
    """Runs of points that have a value; a single one is no line."""
    found: list[list[str]] = [[]]
    for x, y in points:
        if y is None:
            found.append([])
        else:
            found[-1].append(f"{x:g},{y:g}")
    return [" ".join(it) for it in found if len(it) > 1]


def _said(
    title: str,
    rounds: Sequence[int],
    lines: Sequence[tuple[str, Sequence[float | None]]],
    words: Callable[[float], str],
) -> str:
    latest = []
    for label, values in lines:
        value = next((it for it in reversed(values) if it is not None), None)
        latest += [f"{label} {words(value)}".strip()] if value is not None else []
    return f"{title}, rounds {rounds[0]} to {rounds[-1]}; latest: {', '.join(latest)}"


def _step(least: float) -> float:
    """A round number that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(it * power for it in _STEPS if it * power >= least * (1 - 1e-9))


def _whole(first: int, last: int, most: int = 6) -> list[int]:
    """Whole rounds to mark, at most so many."""
    step = max(1, math.ceil(_step((last - first) / most))) if last > first else 1
    begin = first if step == 1 else math.ceil(first / step) * step
    return list(range(begin, last + 1, step))
