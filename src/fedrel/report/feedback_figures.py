"""Figures of how reliably users judge, after figures 1 and 5 of Sharma et al., NAACL 2022."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedrel.feedback.estimates import Estimate, Estimates
from fedrel.report.drawing import COLOURS, ON_WHITE, drawing, printable, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIDE = 300
_SMALLEST, _LARGEST = 10.0, 120.0  # area of a user's dot
_ANSWERS = (("right", "n1", "n2", "#009e73"), ("wrong", "n3", "n4", "#d55e00"), ("don't know", "n5", "n6", "#b0b0b0"))


def users_figure(groups: Mapping[str, Estimates], path: Path) -> None:
    """Writes a PNG with a row of three charts for each group of users: γ̂ and δ̂ of each user, with a larger dot for
    more judgments; how often each is mistaken; and how often each gives which verdict.
    """
    with drawing(_SIDE * len(groups), width=3 * _SIDE, theme=ON_WHITE) as figure:
        rows = figure.subplots(len(groups), 3, squeeze=False)
        for number, ((name, found), row) in enumerate(zip(groups.items(), rows, strict=True)):
            colour = COLOURS[number % len(COLOURS)]
            _spread(row[0], found, colour, name)
            _mistakes(row[1], found, colour)
            _answers(row[2], found)
        save(figure, path, ".png")


def _spread(axes: Axes, found: Estimates, colour: str, name: str) -> None:
    """γ̂ and δ̂ of the users who have judged both correct and incorrect predictions."""
    places = [
        (gamma, delta, it.judgments)
        for it in found.users
        if (gamma := it.gamma.value) is not None and (delta := it.delta.value) is not None
    ]
    most = max((judgments for _, _, judgments in places), default=1)
    axes.scatter(
        [gamma for gamma, _, _ in places],
        [delta for _, delta, _ in places],
        s=[_SMALLEST + (_LARGEST - _SMALLEST) * judgments / most for _, _, judgments in places],
        color=colour,
        alpha=0.4,
        linewidths=0,
    )
    if found.pooled.gamma.value is not None and found.pooled.delta.value is not None:
        axes.plot(found.pooled.gamma.value, found.pooled.delta.value, "P", color="black", markersize=9, label="all")
        axes.legend(loc="lower left")
    axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), xlabel="γ̂: says right if correct")
    axes.set(ylabel="δ̂: says wrong if incorrect", title=f"{printable(name)}: {len(places)} users" if name else "")
    axes.grid(axis="x")


def _mistakes(axes: Axes, found: Estimates, colour: str) -> None:
    shares = sorted((it.errors for it in found.users if it.errors is not None), reverse=True)
    axes.bar(range(1, len(shares) + 1), [100 * share for share in shares], width=1.0, color=colour)
    axes.set(ylim=(0, 100), xlabel="users, most mistaken first", ylabel="mistaken verdicts (%)")
    axes.locator_params(axis="x", integer=True)


def _answers(axes: Axes, found: Estimates) -> None:
    ordered = sorted(found.users, key=_says_right, reverse=True)
    below = [0.0] * len(ordered)
    for name, correct, incorrect, colour in _ANSWERS:
        shares = [100 * (it.counts[correct] + it.counts[incorrect]) / it.judgments for it in ordered]
        if any(shares):
            axes.bar(range(1, len(ordered) + 1), shares, width=1.0, bottom=below, color=colour, label=name)
        below = [low + share for low, share in zip(below, shares, strict=True)]
    axes.set(ylim=(0, 100), xlabel="users, most approving first", ylabel="verdicts (%)")
    axes.locator_params(axis="x", integer=True)
    axes.legend(loc="lower left", frameon=True, framealpha=0.8)


def _says_right(it: Estimate) -> float:
    return (it.counts["n1"] + it.counts["n2"]) / it.judgments
