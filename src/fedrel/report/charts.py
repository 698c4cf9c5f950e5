"""Charts as SVG text for the report page, and the precision-recall figure of a comparison as files.

matplotlib is imported where it is used, so that commands which draw nothing start fast.
"""

from __future__ import annotations

import io
import math
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrel.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED_PLATFORMS = 24  # with more platforms than this, bars with names would be too small to read
_MARKED_ROUNDS = 30  # with more rounds than this, markers would hide the line

# Drawn in stand-in colours, which the finished SVG swaps for variables of the page: so it follows dark mode.
_INK, _MUTED, _GRID, _FIRST, _SECOND = "#010203", "#040506", "#070809", "#0a0b0c", "#0d0e0f"
_VARIABLES = {_INK: "--ink", _MUTED: "--muted", _GRID: "--line", _FIRST: "--first", _SECOND: "--second"}
_DASHED = (0, (5, 2.5))

# Okabe and Ito's colours, told apart with any kind of colour vision. Seven colours and five styles share no
# divisor: 35 lines before one looks like another.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
_STYLES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (1, 1.3)), (0, (7, 2, 1, 2)), (0, (3, 1.5)))

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fedrel",
    "text.parse_math": False,  # a name may hold a dollar sign
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "xtick.major.size": 0,
    "xtick.major.pad": 6,
    "ytick.major.size": 0,
    "ytick.major.pad": 6,
    "legend.frameon": False,
    "lines.linewidth": 2,
}
_OF_PAGE: dict[Any, Any] = {"text.color": _INK, "grid.color": _GRID}
_OF_PAGE |= dict.fromkeys(("axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _MUTED)
_ON_WHITE: dict[Any, Any] = {"figure.facecolor": "white", "axes.facecolor": "white", "grid.color": "#e4e4e4"}


def pr_chart(precision: Sequence[float], recall: Sequence[float]) -> str:
    """Precision over recall, with the point where F1 is highest."""
    label = "Precision over recall on the test split."
    with _drawing(265) as figure:
        axes = figure.add_subplot()
        axes.plot(recall, precision, color=_FIRST)
        if precision:
            y, x = max(zip(precision, recall, strict=True), key=lambda point: point[0] * point[1] / (sum(point) or 1))
            _point(axes, x, y, "max F1", left=x > 0.7)
            label += f" F1 is highest at precision {y:.2f} and recall {x:.2f}."
        axes.set(xlim=(0, 1.01), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
        return _svg(figure, "pr", label)


def rounds_chart(rounds: Sequence[Mapping[str, Any]], metric: str, best_round: int) -> str:
    """The dev score over rounds, the best round marked; the training loss below it."""
    numbers = [line["round"] for line in rounds]
    score = [line["dev"][metric] for line in rounds]
    best = score[numbers.index(best_round)]
    with _drawing(300) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        _line(upper, numbers, score, _FIRST)
        _line(lower, numbers, [math.nan if line["loss"] is None else line["loss"] for line in rounds], _SECOND)
        for axes in (upper, lower):
            axes.axvline(best_round, color=_MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        _point(upper, best_round, best, f"round {best_round}", left=best_round > (numbers[0] + numbers[-1]) / 2)
        upper.set_ylabel(f"dev {metric}")
        lower.set(xlabel="round", ylabel="loss")
        _whole_numbers(lower, numbers[0], numbers[-1])
        figure.align_ylabels()
        label = f"Dev {metric} and training loss over {len(numbers)} rounds. Best: {best:.3f} in round {best_round}."
        return _svg(figure, "rounds", label)


def selection_chart(rounds: Sequence[Mapping[str, Any]]) -> str:
    """How many of the selected sentences express their fact, over rounds, against taking all sentences."""
    known = [line for line in rounds if line["selection"]]
    precision = [line["selection"]["precision"] for line in known]
    base = known[-1]["selection"]["base_rate"]
    with _drawing(220) as figure:
        axes = figure.add_subplot()
        _line(axes, [line["round"] for line in known], precision, _FIRST, label="selected sentences")
        axes.axhline(base, color=_SECOND, linestyle=_DASHED, label="base rate: all sentences")
        axes.set(ylim=(0, 1.02), xlabel="round", ylabel="share that express it")
        _whole_numbers(axes, rounds[0]["round"], rounds[-1]["round"])
        figure.legend(loc="outside upper left", ncols=2)
        label = f"Selection precision over rounds: {precision[-1]:.0%} at the end; base rate {base:.0%}."
        return _svg(figure, "selection", label)


def bytes_chart(rounds: Sequence[Mapping[str, Any]]) -> str:
    """What travels each round, in both directions."""
    numbers = [line["round"] for line in rounds]
    most = max(max(line["bytes"].values()) for line in rounds)
    unit, size = next((pair for pair in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)) if most >= pair[1]), ("B", 1.0))
    with _drawing(220) as figure:
        axes = figure.add_subplot()
        for way, colour, style in (("up", _FIRST, "-"), ("down", _SECOND, _DASHED)):
            _line(axes, numbers, [line["bytes"][way] / size for line in rounds], colour, linestyle=style, label=way)
        axes.set(xlabel="round", ylabel=f"{unit} a round", ylim=(0, max(most / size * 1.15, 1)))
        _whole_numbers(axes, numbers[0], numbers[-1])
        figure.legend(loc="outside upper left", ncols=2)
        return _svg(figure, "bytes", f"Traffic of each round, up and down, at most {most / size:.1f} {unit}.")


def participation_chart(participation: Mapping[str, int], held: Mapping[str, int]) -> str:
    """Rounds taken part and sentences held: a bar for each platform, or how many platforms where they are many."""
    few = len(held) <= NAMED_PLATFORMS
    panels = ((participation, "rounds taken part", _FIRST), (held, "sentences held", _SECOND))
    with _drawing(60 + 14 * len(held) if few else 210) as figure:
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
                _counted(axes, values, colour)
        if few:
            both[0].set_yticks(range(len(held)), [_short(name) for name in held], size=9.5)
            both[0].set_ylim(len(held) - 0.4, -0.6)
        else:
            both[0].set_ylabel("platforms")
        return _svg(figure, "platforms", f"Rounds taken part and sentences held, over {len(held)} platforms.")


def pr_figure(curves: dict[str, list[tuple[list[float], list[float]]]], path: Path, title: str = "") -> None:
    """Precision over recall as PNG and SVG: one line per method, from the (precision, recall) of every seed.
    The line is the mean over seeds, as far as all of them reach; the band is one standard deviation.
    """
    grid = np.linspace(0, 1, 501)
    drawn = []
    with _drawing(331, width=500, theme=_ON_WHITE) as figure:
        axes = figure.add_subplot()
        for number, (method, seeds) in enumerate(curves.items()):
            lines = [np.interp(grid, recall, precision, right=math.nan) for precision, recall in seeds if precision]
            if not lines:
                continue
            mean, spread = np.mean(lines, axis=0), np.std(lines, axis=0, ddof=min(len(lines) - 1, 1))
            colour, style = _COLOURS[number % len(_COLOURS)], _STYLES[number % len(_STYLES)]
            (line,) = axes.plot(grid, mean, color=colour, linestyle=style, linewidth=1.7)
            if len(lines) > 1:
                low, high = np.clip(mean - spread, 0, 1), np.clip(mean + spread, 0, 1)
                axes.fill_between(grid, low, high, color=colour, alpha=0.14, linewidth=0)
            drawn.append((float(np.nansum(mean)), line, method))
        drawn.sort(key=lambda entry: -entry[0])  # the legend reads from the largest area to the smallest
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision", title=title)
        handles, names = [line for _, line, _ in drawn], [method for _, _, method in drawn]
        figure.legend(handles, names, loc="outside right upper", handlelength=3.2)
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=200, metadata=metadata)
            write_whole(path.with_suffix(f".{kind}"), content.getvalue())


def _line(axes: Axes, x: Sequence[int], y: Sequence[float], colour: str, **more: Any) -> None:
    axes.plot(x, y, color=colour, marker="o" if len(x) <= _MARKED_ROUNDS else "", markersize=4, **more)
    axes.set_ylim(0, max((value for value in y if math.isfinite(value)), default=0.0) * 1.18 or 1)
    axes.locator_params(axis="y", nbins=5)


def _point(axes: Axes, x: float, y: float, text: str, *, left: bool) -> None:
    axes.plot([x], [y], "o", color=_INK, markersize=6)
    offset, side = ((-6, 7), "right") if left else ((6, 7), "left")
    axes.annotate(text, (x, y), offset, textcoords="offset points", ha=side, color=_INK)


def _whole_numbers(axes: Axes, low: float, high: float, ticks: int = 8) -> None:
    """A little room left and right, ticks at whole numbers: there is no round 2.5."""
    room = max((high - low) * 0.03, 0.1) if high > low else 0.6
    axes.set_xlim(low - room, high + room)
    axes.locator_params(axis="x", nbins=ticks, integer=True)


def _counted(axes: Axes, values: Sequence[int], colour: str) -> None:
    """How many of the values fall in each range of whole numbers."""
    low, high = min(values), max(values)
    step = math.ceil((high - low + 1) / 12)
    count, edges = np.histogram(values, np.arange(low, high + step + 1, step))
    axes.bar(edges[:-1] + (step - 1) / 2, count, width=step * 0.86, color=colour)
    aside = max(5 * step - (high - low), 0) / 2  # a single bar should not fill the chart
    _whole_numbers(axes, max(low - 0.6 * step - aside, -0.6 * step), edges[-1] - 1 + 0.6 + aside, ticks=4)


def _short(name: str) -> str:
    """Names come from data: no control characters, which XML cannot hold, and no more than fits."""
    clean = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return clean if len(clean) <= 16 else f"{clean[:15]}…"


@contextmanager
def _drawing(height: int, width: int = 400, theme: Mapping[Any, Any] = _OF_PAGE) -> Iterator[Figure]:
    """A figure in its own units, 72 to matplotlib's inch: narrow, so that its text is legible on a telephone."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**_SETTINGS, **theme}), warnings.catch_warnings():
        # Names in other scripts: the reader's browser has letters that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield Figure(figsize=(width / 72, height / 72), layout="constrained")


def _svg(figure: Figure, name: str, label: str) -> str:
    """The figure as an element to set into a page: the page's colours and font, and ids that no other chart has."""
    content = io.BytesIO()
    figure.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(content.getvalue())
    for child in list(root):  # metadata, and a style sheet that would reach beyond the chart
        if not child.tag.endswith("}g") and child.find("{*}clipPath") is None:
            root.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = dict(_of_page(*pair, name) for pair in element.attrib.items())
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return ET.tostring(root, encoding="unicode")


def _of_page(key: str, value: str, name: str) -> tuple[str, str]:
    key = key.rpartition("}")[2]
    if key == "id":
        value = f"{name}-{value}"
    elif key in ("href", "clip-path"):
        value = value.replace("#", f"#{name}-")
    elif key == "style":
        # The family is the page's. Releases of matplotlib differ in how they write it.
        value = re.sub(r"\bfont: ([\d.]+px)[^;]*", r"font-size: \1", re.sub(r"font-family: [^;]*; ", "", value))
        value = re.sub("|".join(_VARIABLES), lambda colour: f"var({_VARIABLES[colour[0]]})", value)
    return key, value
