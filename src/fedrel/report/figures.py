"""Figures of a comparison beside its precision-recall curves: scores over rounds, bars, and FedCMC's similarities.

Each is written as PNG and SVG, in the look of the precision-recall figure.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrel.report.charts import _COLOURS, _ON_WHITE, _STYLES, _drawing, clean
from fedrel.util.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 331
_NAME_TURNED = 60  # letters below a chart, all names together, beyond which they would touch
_GAP = 0.2  # between groups of bars


Lines = Mapping[str, Sequence[Sequence[float]]]  # of each method, for each seed: a value a round; nan: none is known


def rounds_figure(lines: Lines, path: Path, *, title: str, metric: str, selection: Lines, base_rate: float) -> None:
    """A score over rounds and, where methods select sentences whose truth is known, below it how many of those they
    select express their fact, beside the share among all sentences.
    """
    selects = {method: seeds for method, seeds in selection.items() if np.isfinite(np.concatenate(list(seeds))).any()}
    heights = [1.0, 0.6] if selects else [1.0]
    with _drawing(round(_HEIGHT * sum(heights)), width=500, theme=_ON_WHITE) as figure:
        panels: Any = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        looks = dict(zip(lines, zip(cycle(_COLOURS), cycle(_STYLES), strict=False), strict=False))
        _over_rounds(panels[0], lines, looks)
        panels[0].set(ylabel=metric, title=clean(title))
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
    """One line per method, the mean over seeds and a band of one standard deviation, as long as half of them go on:
    runs stop at different rounds.
    """
    for method, seeds in lines.items():
        padded = np.full((len(seeds), max(map(len, seeds))), math.nan)
        for row, scores in zip(padded, seeds, strict=True):
            row[: len(scores)] = scores
        x = np.arange(1, padded.shape[1] + 1)[known := (~np.isnan(padded)).sum(axis=0) * 2 >= len(seeds)]
        mean, spread = np.nanmean(padded[:, known], axis=0), np.nanstd(padded[:, known], axis=0)
        colour, style = looks[method]
        axes.plot(x, mean, color=colour, linestyle=style, linewidth=1.7, label=clean(method))
        if len(seeds) > 1:
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.14, linewidth=0)


def bars_figure(report: Mapping[str, Any], path: Path) -> None:
    """A group of bars for each column, a bar for each row, whiskers of one standard deviation; the paper's number as
    a diamond, unless the scale is the quick one.
    """
    columns = list(dict.fromkeys(entry["column"] for entry in report["summary"]))
    rows = list(dict.fromkeys(entry["row"] for entry in report["summary"]))
    width = (1 - _GAP) / len(rows)
    of_score = ":" in report["metric"] or any(report["metric"] in (cell["test"] or ()) for cell in report["cells"])
    scale = report["scale"] if of_score else 1.0
    with _drawing(_HEIGHT, width=min(max(500, 22 * len(columns) * len(rows)), 1000), theme=_ON_WHITE) as figure:
        axes = figure.add_subplot()
        for entry in report["summary"]:
            row = rows.index(entry["row"])
            x = columns.index(entry["column"]) + (row - (len(rows) - 1) / 2) * width
            value = entry[report["statistic"]]
            if value is not None:
                error = None if entry["std"] is None else entry["std"] * scale
                whisker = {"elinewidth": 1.2, "ecolor": "#808080", "capsize": 2}
                colour = _COLOURS[row % len(_COLOURS)]
                axes.bar(x, value * scale, width * 0.92, color=colour, yerr=error, error_kw=whisker)
            published = entry["paper"].get(report["metric"])
            if published and not report["quick"]:
                axes.plot(x, published["value"], "D", markersize=4, color="white", markeredgecolor="black")
        for row, name in enumerate(rows):
            axes.bar(math.nan, math.nan, color=_COLOURS[row % len(_COLOURS)], label=clean(name))
        if any(entry["paper"] for entry in report["summary"]) and not report["quick"]:
            axes.plot([], [], "D", markersize=4, color="white", markeredgecolor="black", label="paper")
        turned = sum(map(len, columns)) > _NAME_TURNED
        axes.set_xticks(
            range(len(columns)), map(clean, columns), rotation=30 if turned else 0, ha="right" if turned else "center"
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
    """Figure 1 of the FedCMC paper: sentences of each label on each platform, beside how alike the platform's
    classifier vector of that class is to its others, in each of the given rounds. No vector: an empty cell.
    """
    panels: list[tuple[str, np.ndarray[Any, Any], bool]] = [
        ("sentences", np.array(list(counts.values()), dtype=float), True)
    ]
    for round_, by_platform in similarity.items():
        empty = [math.nan] * len(relations)
        rows = [by_platform.get(name) or empty for name in counts]
        panels.append((f"mean cosine, round {round_}", np.array(rows, dtype=float), False))
    width = 110 + len(panels) * max(150, 34 * len(relations))
    with _drawing(120 + 20 * len(counts), width=width, theme=_ON_WHITE) as figure:
        for axes, (title, values, is_count) in zip(
            figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True
        ):
            _heat(axes, values, is_count=is_count)
            axes.set_title(title, fontsize=10)
            axes.set_xticks(range(len(relations)), map(clean, relations), rotation=45, ha="right", fontsize=8)
            axes.set_yticks(range(len(counts)), map(clean, counts), fontsize=8)
        _save(figure, path)


def _heat(axes: Axes, values: np.ndarray[Any, Any], *, is_count: bool) -> None:
    """Dark is what makes a class major: many sentences, or a vector unlike the others."""
    shade = np.sqrt(values) if is_count else -values  # the root, since one class often outnumbers all others
    known = shade[np.isfinite(shade)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    axes.imshow(np.ma.masked_invalid(shade), cmap="viridis_r", vmin=low, vmax=high, aspect="auto")
    axes.grid(visible=False)
    for (row, column), value in np.ndenumerate(values):
        if math.isfinite(value) and not (is_count and not value):
            text = f"{value:.0f}" if is_count else f"{value:.2f}"
            colour = "white" if shade[row, column] > (low + high) / 2 else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=6.5, color=colour)


def _save(figure: Figure, path: Path) -> None:
    """Without dates and versions, so that the same numbers give the same bytes."""
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        content = io.BytesIO()
        figure.savefig(content, format=kind, dpi=200, metadata=metadata)
        write_whole(path.with_suffix(f".{kind}"), content.getvalue())
