"""Figures of a comparison: precision-recall curves, scores over rounds, bars, and FedCMC's similarities.

Each is written as PNG and SVG.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrel.report.drawing import COLOURS, ON_WHITE, STYLES, drawing, heat_map, printable, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 331
_NAME_TURNED = 60  # letters of all names below a chart, beyond which they are rotated so as not to touch
_GAP = 0.2  # between groups of bars


Lines = Mapping[str, Sequence[Sequence[float]]]  # by method and seed, a value per round; NaN: unknown


def pr_figure(curves: dict[str, list[tuple[list[float], list[float]]]], path: Path, title: str = "") -> None:
    """Precision over recall: one line per method, from the (precision, recall) curve of every seed. The line is the
    mean over seeds, as far as all of them reach; the band is one standard deviation.
    """
    grid = np.linspace(0, 1, 501)
    drawn = []
    with drawing(331, width=500, theme=ON_WHITE) as figure:
        axes = figure.add_subplot()
        for number, (method, seeds) in enumerate(curves.items()):
            lines = [np.interp(grid, recall, precision, right=math.nan) for precision, recall in seeds if precision]
            if not lines:
                continue
            mean, spread = np.mean(lines, axis=0), np.std(lines, axis=0, ddof=min(len(lines) - 1, 1))
            colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
            (line,) = axes.plot(grid, mean, color=colour, linestyle=style, linewidth=1.7)
            if len(lines) > 1:
                low, high = np.clip(mean - spread, 0, 1), np.clip(mean + spread, 0, 1)
                axes.fill_between(grid, low, high, color=colour, alpha=0.14, linewidth=0)
            drawn.append((float(np.nansum(mean)), line, method))
        drawn.sort(key=lambda entry: -entry[0])  # the legend lists the largest area first
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision", title=printable(title))
        handles, names = [line for _, line, _ in drawn], [printable(method) for _, _, method in drawn]
        figure.legend(handles, names, loc="outside right upper", handlelength=3.2)
        _save(figure, path)


def rounds_figure(lines: Lines, path: Path, *, title: str, metric: str, selection: Lines, base_rate: float) -> None:
    """A score over rounds. If methods select sentences whose truth is known, a second panel shows the share of the
    selected ones that express their fact, with the share among all sentences for comparison.
    """
    selects = {method: seeds for method, seeds in selection.items() if np.isfinite(np.concatenate(list(seeds))).any()}
    heights = [1.0, 0.6] if selects else [1.0]
    with drawing(round(_HEIGHT * sum(heights)), width=500, theme=ON_WHITE) as figure:
        panels: Any = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        looks = dict(zip(lines, zip(cycle(COLOURS), cycle(STYLES), strict=False), strict=False))
        _over_rounds(panels[0], lines, looks)
        panels[0].set(ylabel=metric, title=printable(title))
        if selects:
            _over_rounds(panels[1], selects, looks)
            panels[1].axhline(base_rate, color="0.45", linewidth=1, linestyle=(0, (2, 2)), zorder=0)
            panels[1].text(
                0.99, base_rate, "all sentences", transform=panels[1].get_yaxis_transform(), ha="right", va="top"
            )
            panels[1].set(ylabel="share of the selected\nthat express their fact", ylim=(base_rate - 0.1, 1.0))
        panels[-1].set_xlabel("round")
        panels[-1].locator_params(axis="x", integer=True)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", handlelength=3.2)
        _save(figure, path)


def _over_rounds(axes: Axes, lines: Lines, looks: Mapping[str, tuple[Any, Any]]) -> None:
    """One line per method, the mean over seeds, with a band of one standard deviation. Runs stop at different rounds: a
    line goes as far as half of them do.
    """
    for method, seeds in lines.items():
        padded = np.full((len(seeds), max(map(len, seeds))), math.nan)
        for row, scores in zip(padded, seeds, strict=True):
            row[: len(scores)] = scores
        x = np.arange(1, padded.shape[1] + 1)[known := (~np.isnan(padded)).sum(axis=0) * 2 >= len(seeds)]
        mean, spread = np.nanmean(padded[:, known], axis=0), np.nanstd(padded[:, known], axis=0)
        colour, style = looks[method]
        axes.plot(x, mean, color=colour, linestyle=style, linewidth=1.7, label=printable(method))
        if len(seeds) > 1:
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.14, linewidth=0)


def bars_figure(report: Mapping[str, Any], path: Path) -> None:
    """A group of bars for each column of a comparison (`compare.json`), a bar for each row, with whiskers of one
    standard deviation; the paper's number is a diamond, except on the quick scale.
    """
    columns = list(dict.fromkeys(entry["column"] for entry in report["summary"]))
    rows = list(dict.fromkeys(entry["row"] for entry in report["summary"]))
    width = (1 - _GAP) / len(rows)
    of_score = ":" in report["metric"] or any(report["metric"] in (cell["test"] or ()) for cell in report["cells"])
    scale = report["scale"] if of_score else 1.0
    with drawing(_HEIGHT, width=min(max(500, 22 * len(columns) * len(rows)), 1000), theme=ON_WHITE) as figure:
        axes = figure.add_subplot()
        for entry in report["summary"]:
            row = rows.index(entry["row"])
            x = columns.index(entry["column"]) + (row - (len(rows) - 1) / 2) * width
            value = entry[report["statistic"]]
            if value is not None:
                error = None if entry["std"] is None else entry["std"] * scale
                whisker = {"elinewidth": 1.2, "ecolor": "#808080", "capsize": 2}
                colour = COLOURS[row % len(COLOURS)]
                axes.bar(x, value * scale, width * 0.92, color=colour, yerr=error, error_kw=whisker)
            published = entry["paper"].get(report["metric"])
            if published and not report["quick"]:
                axes.plot(x, published["value"], "D", markersize=4, color="white", markeredgecolor="black")
        for row, name in enumerate(rows):
            axes.bar(math.nan, math.nan, color=COLOURS[row % len(COLOURS)], label=printable(name))
        if any(entry["paper"] for entry in report["summary"]) and not report["quick"]:
            axes.plot([], [], "D", markersize=4, color="white", markeredgecolor="black", label="paper")
        turned = sum(map(len, columns)) > _NAME_TURNED
        axes.set_xticks(
            range(len(columns)),
            map(printable, columns),
            rotation=30 if turned else 0,
            ha="right" if turned else "center",
        )
        axes.set(ylabel=report["metric"] + (f" × {scale:g}" if scale != 1 else ""))
        figure.legend(loc="outside right upper")
        _save(figure, path)


def similarity_figure(
    relations: Sequence[str],
    counts: Mapping[str, Sequence[int]],
    similarity: Mapping[int, Mapping[str, Sequence[float] | None]],
    path: Path,
) -> None:
    """Figure 1 of the FedCMC paper: the sentences of each label on each platform, next to the mean cosine between the
    platform's classifier vector of that class and its other ones, in each of the given rounds. A cell without a vector
    is blank. `counts` are by platform, `similarity` by round and platform, each with a value per relation.

    Dark marks what makes a class major: many sentences, or a vector unlike the others.
    """
    held = np.array(list(counts.values()), dtype=float)
    texts = np.array([[f"{value:.0f}" if value else "" for value in row] for row in held])
    panels = [("sentences", np.sqrt(held), texts)]  # the root, since one class often outnumbers all others
    for round_, by_platform in similarity.items():
        empty = [math.nan] * len(relations)
        cosines = np.array([by_platform.get(name) or empty for name in counts], dtype=float)
        texts = np.array([[f"{value:.2f}" if math.isfinite(value) else "" for value in row] for row in cosines])
        panels.append((f"mean cosine, round {round_}", -cosines, texts))
    width = 110 + len(panels) * max(150, 34 * len(relations))
    with drawing(120 + 20 * len(counts), width=width, theme=ON_WHITE) as figure:
        for axes, (title, shades, texts) in zip(
            figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True
        ):
            known = shades[np.isfinite(shades)]
            low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
            heat_map(axes, shades, texts, low=low, high=high, colours="viridis_r", size=6.5)
            axes.set_title(title, fontsize=10)
            axes.set_xticks(range(len(relations)), map(printable, relations), rotation=45, ha="right", fontsize=8)
            axes.set_yticks(range(len(counts)), map(printable, counts), fontsize=8)
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Writes the figure as PNG and as SVG."""
    for kind in (".png", ".svg"):
        save(figure, path.with_suffix(kind))
