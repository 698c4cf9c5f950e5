"""Charts of the report page as SVG text: curves, scores over rounds, traffic and participation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrel.evaluation.context import share_interval
from fedrel.report.drawing import FIRST, GRID, INK, MUTED, SECOND, drawing, printable, shortened, svg_element

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED_PLATFORMS = 24  # with more platforms than this, bars with names would be too small to read
_MARKED_ROUNDS = 30  # with more rounds than this, markers would hide the line
_DASHED = (0, (5, 2.5))


def pr_chart(precision: Sequence[float], recall: Sequence[float]) -> str:
    """Precision over recall, (N,) each, with the point of the highest F1 marked."""
    label = "Precision over recall on the test split."
    with drawing(265) as figure:
        axes = figure.add_subplot()
        axes.plot(recall, precision, color=FIRST)
        if precision:
            y, x = max(zip(precision, recall, strict=True), key=lambda point: point[0] * point[1] / (sum(point) or 1))
            _point(axes, x, y, "max F1", left=x > 0.7)
            label += f" F1 is highest at precision {y:.2f} and recall {x:.2f}."
        axes.set(xlim=(0, 1.01), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
        return svg_element(figure, "pr", label)


def rounds_chart(rounds: Sequence[Mapping[str, Any]], metric: str, best_round: int, shown: str) -> str:
    """The dev score `metric` over rounds (lines of metrics.jsonl), labelled `shown`, with the best round marked; below
    it the training loss, if any round has one.
    """
    numbers = [line["round"] for line in rounds]
    score = [line["dev"][metric] for line in rounds]
    best = score[numbers.index(best_round)]
    loss = [math.nan if line["loss"] is None else line["loss"] for line in rounds]
    with_loss = any(math.isfinite(value) for value in loss)
    with drawing(300 if with_loss else 220) as figure:
        panels = list(
            figure.subplots(1 + with_loss, 1, sharex=True, height_ratios=(2, 1)[: 1 + with_loss], squeeze=False)
        )
        upper, lower = panels[0][0], panels[-1][0]
        _line(upper, numbers, score, FIRST)
        upper.set_ylabel(f"dev {shown}")
        if with_loss:
            _line(lower, numbers, loss, SECOND)
            lower.set_ylabel("loss")
        for (axes,) in panels:
            axes.axvline(best_round, color=MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        _point(upper, best_round, best, f"round {best_round}", left=best_round > (numbers[0] + numbers[-1]) / 2)
        lower.set_xlabel("round")
        _whole_numbers(lower, numbers[0], numbers[-1])
        figure.align_ylabels()
        drawn = f"Dev {shown}{' and training loss' if with_loss else ''} over {len(numbers)} rounds."
        return svg_element(figure, "rounds", f"{drawn} Best: {best:.3f} in round {best_round}.")


def selection_chart(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The share of the selected sentences that express their fact, over rounds (lines of metrics.jsonl), compared with
    that of all sentences.
    """
    known = [line for line in rounds if line["selection"]]
    precision = [line["selection"]["precision"] for line in known]
    base = known[-1]["selection"]["base_rate"]
    with drawing(220) as figure:
        axes = figure.add_subplot()
        _line(axes, [line["round"] for line in known], precision, FIRST, label="selected sentences")
        axes.axhline(base, color=SECOND, linestyle=_DASHED, label="base rate: all sentences")
        axes.set(ylim=(0, 1.02), xlabel="round", ylabel="share that express it")
        _whole_numbers(axes, rounds[0]["round"], rounds[-1]["round"])
        figure.legend(loc="outside upper left", ncols=2)
        label = f"Selection precision over rounds: {precision[-1]:.0%} at the end; base rate {base:.0%}."
        return svg_element(figure, "selection", label)


def bytes_chart(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The bytes sent in each round (lines of metrics.jsonl), up and down."""
    numbers = [line["round"] for line in rounds]
    most = max(max(line["bytes"].values()) for line in rounds)
    unit, size = next((pair for pair in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)) if most >= pair[1]), ("B", 1.0))
    with drawing(220) as figure:
        axes = figure.add_subplot()
        for way, colour, style in (("up", FIRST, "-"), ("down", SECOND, _DASHED)):
            _line(axes, numbers, [line["bytes"][way] / size for line in rounds], colour, linestyle=style, label=way)
        axes.set(xlabel="round", ylabel=f"{unit} per round", ylim=(0, max(most / size * 1.15, 1)))
        _whole_numbers(axes, numbers[0], numbers[-1])
        figure.legend(loc="outside upper left", ncols=2)
        return svg_element(figure, "bytes", f"Traffic of each round, up and down, at most {most / size:.1f} {unit}.")


def reliability_chart(tenths: Sequence[Mapping[str, float]]) -> str:
    """For each tenth of confidences, the share that is right (dots, with 95 % intervals), and how many there are (bars,
    not to scale).
    """
    confidence = [it["confidence"] for it in tenths]
    right = [it["right"] / it["count"] for it in tenths]
    most = max(it["count"] for it in tenths)
    with drawing(265) as figure:
        axes = figure.add_subplot()
        lows = [it["low"] + 0.05 for it in tenths]
        axes.bar(lows, [0.3 * it["count"] / most for it in tenths], width=0.084, color=GRID, zorder=0)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        for x, it in zip(confidence, tenths, strict=True):
            axes.plot([x, x], share_interval(int(it["right"]), int(it["count"])), color=FIRST, linewidth=1.2)
        axes.plot(confidence, right, "o", color=FIRST, markersize=6)
        axes.set(xlim=(0, 1.01), ylim=(0, 1.02), xlabel="confidence", ylabel="share that is right")
        said = "; ".join(f"{x:.2f}: {y:.0%}" for x, y in zip(confidence, right, strict=True))
        return svg_element(figure, "reliability", f"Share of predictions that are right, by confidence. {said}.")


def participation_chart(participation: Mapping[str, int], held: Mapping[str, int]) -> str:
    """Rounds taken part in and sentences held, by platform: a bar for each, or histograms if there are many."""
    few = len(held) <= NAMED_PLATFORMS
    panels = ((participation, "rounds taken part in", FIRST), (held, "sentences held", SECOND))
    with drawing(60 + 14 * len(held) if few else 210) as figure:
        both = figure.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.1})
        for axes, (counts, title, colour) in zip(both, panels, strict=True):
            values = [counts.get(name, 0) for name in held]
            axes.set_xlabel(title)
            if few:
                axes.barh(range(len(held)), values, height=0.5, color=colour)
                axes.set_xlim(0, max([*values, 1]))
                axes.grid(visible=False)
                axes.locator_params(axis="x", nbins=4, integer=True)
            else:
                _histogram(axes, values, colour)
        if few:
            both[0].set_yticks(range(len(held)), [shortened(printable(name), 16) for name in held], size=9.5)
            both[0].set_ylim(len(held) - 0.4, -0.6)
        else:
            both[0].set_ylabel("platforms")
        return svg_element(figure, "platforms", f"Rounds taken part in and sentences held, over {len(held)} platforms.")


def _line(axes: Axes, x: Sequence[int], y: Sequence[float], colour: str, **more: Any) -> None:
    axes.plot(x, y, color=colour, marker="o" if len(x) <= _MARKED_ROUNDS else "", markersize=4, **more)
    axes.set_ylim(0, max((value for value in y if math.isfinite(value)), default=0.0) * 1.18 or 1)
    axes.locator_params(axis="y", nbins=5)


def _point(axes: Axes, x: float, y: float, text: str, *, left: bool) -> None:
    axes.plot([x], [y], "o", color=INK, markersize=6)
    offset, side = ((-6, 7), "right") if left else ((6, 7), "left")
    axes.annotate(text, (x, y), offset, textcoords="offset points", ha=side, color=INK)


def _whole_numbers(axes: Axes, low: float, high: float, ticks: int = 8) -> None:
    """Limits with a small margin, and ticks at integers: there is no round 2.5."""
    margin = max((high - low) * 0.03, 0.1) if high > low else 0.6
    axes.set_xlim(low - margin, high + margin)
    axes.locator_params(axis="x", nbins=ticks, integer=True)


def _histogram(axes: Axes, values: Sequence[int], colour: str) -> None:
    """A histogram over up to twelve ranges of integers."""
    low, high = min(values), max(values)
    step = math.ceil((high - low + 1) / 12)
    count, edges = np.histogram(values, np.arange(low, high + step + 1, step))
    axes.bar(edges[:-1] + (step - 1) / 2, count, width=step * 0.86, color=colour)
    aside = max(5 * step - (high - low), 0) / 2  # so that a single bar does not fill the chart
    _whole_numbers(axes, max(low - 0.6 * step - aside, -0.6 * step), edges[-1] - 1 + 0.6 + aside, ticks=4)
