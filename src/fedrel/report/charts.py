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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrel.util.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED_PLATFORMS = 24  # with more platforms than this, bars with names would be too small to read
NUMBERED_CELLS = 25  # with more rows or columns than this, the numbers of a heat map would be too small to read
_MARKED_ROUNDS = 30  # with more rounds than this, markers would hide the line
_WIDTH, _FULL_WIDTH = 400, 735  # units of a drawing beside its text, and of one that takes the whole page

# Drawn in stand-in colours, which the finished SVG swaps for variables of the page: so it follows dark mode.
_INK, _MUTED, _GRID, _FIRST, _SECOND, _PAGE = "#010203", "#040506", "#070809", "#0a0b0c", "#0d0e0f", "#101112"
_VARIABLES = {_INK: "--ink", _MUTED: "--muted", _GRID: "--line", _FIRST: "--first", _SECOND: "--second"}
_DARK = "#131415"
_VARIABLES |= {_PAGE: "--page", _DARK: "--dark"}
_DASHED = (0, (5, 2.5))

# Okabe and Ito's colours, told apart with any kind of colour vision, and a grey. Eight colours and five styles share
# no divisor: 40 lines before one looks like another.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#8c8c8c")
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


def rounds_chart(rounds: Sequence[Mapping[str, Any]], metric: str, best_round: int, shown: str) -> str:
    """The dev score over rounds, under the name `shown`, the best round marked; the training loss below it, if any
    round has one.
    """
    numbers = [line["round"] for line in rounds]
    score = [line["dev"][metric] for line in rounds]
    best = score[numbers.index(best_round)]
    loss = [math.nan if line["loss"] is None else line["loss"] for line in rounds]
    with_loss = any(math.isfinite(value) for value in loss)
    with _drawing(300 if with_loss else 220) as figure:
        panels = list(
            figure.subplots(1 + with_loss, 1, sharex=True, height_ratios=(2, 1)[: 1 + with_loss], squeeze=False)
        )
        upper, lower = panels[0][0], panels[-1][0]
        _line(upper, numbers, score, _FIRST)
        upper.set_ylabel(f"dev {shown}")
        if with_loss:
            _line(lower, numbers, loss, _SECOND)
            lower.set_ylabel("loss")
        for (axes,) in panels:
            axes.axvline(best_round, color=_MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        _point(upper, best_round, best, f"round {best_round}", left=best_round > (numbers[0] + numbers[-1]) / 2)
        lower.set_xlabel("round")
        _whole_numbers(lower, numbers[0], numbers[-1])
        figure.align_ylabels()
        drawn = f"Dev {shown}{' and training loss' if with_loss else ''} over {len(numbers)} rounds."
        return _svg(figure, "rounds", f"{drawn} Best: {best:.3f} in round {best_round}.")


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


def confusion_chart(relations: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Which label was taken for which: a row for each truth, shaded by its share of the row, so that a rare label
    shows as well as a common one. What is right lies on the diagonal, in the other colour.
    """
    cells = [
        _Cell(row, column, count, count / sum(line), _FIRST if row == column else _SECOND)
        for row, line in enumerate(counts)
        for column, count in enumerate(line)
        if count
    ]
    right, all_ = sum(cell.count for cell in cells if cell.row == cell.column), sum(cell.count for cell in cells)
    label = f"Confusion matrix of {len(relations)} labels on test: {right:,} of {all_:,} sentences are right."
    return _heat_map("confusion", label, "truth", "prediction", relations, relations, cells)


def labels_chart(labels: Mapping[str, Mapping[str, int]], relations: Sequence[str]) -> str:
    """Which platform holds how many sentences of which label; every label is shaded against the platform that holds
    most of it, since one of them, often NA, outnumbers all others.
    """
    most = {name: max(held.get(name, 0) for held in labels.values()) for name in relations}
    cells = [
        _Cell(row, column, held[name], held[name] / most[name], _FIRST)
        for row, held in enumerate(labels.values())
        for column, name in enumerate(relations)
        if held.get(name)
    ]
    label = f"Sentences of each of {len(relations)} labels that each of {len(labels)} platforms holds."
    return _heat_map("labels", label, "platform", "label", list(labels), relations, cells)


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
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision", title=clean(title))
        handles, names = [line for _, line, _ in drawn], [clean(method) for _, _, method in drawn]
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


def clean(name: str) -> str:
    """Names come from data: no control characters, which XML cannot hold."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)


def _short(name: str) -> str:
    """No more than fits."""
    whole = clean(name)
    return whole if len(whole) <= 16 else f"{whole[:15]}…"


@dataclass(frozen=True)
class _Cell:
    row: int
    column: int
    count: int
    share: float  # how strong its colour is, from 0 to 1
    colour: str


_TEXT = 9.5  # size of a name in a heat map
_LETTER = 0.6  # of the size: about as wide as a letter gets in the fonts of the page
_LINE = 1.15  # of the size: from one line of a name to the next
# What can be read on a cell, up to which strength of its colour: ink; what is dark on any page; the page's own colour.
_ON_CELL = ((0.6, _INK), (0.8, _DARK), (1.0, _PAGE))


def _heat_map(
    name: str,
    label: str,
    row_title: str,
    column_title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[_Cell],
) -> str:
    """Cells with their counts, or smaller ones without where there are many. Every cell has a tooltip, so that no
    number and no name is lost. Drawn by hand: matplotlib would write ten times as much for it.
    """
    numbered = max(len(rows), len(columns)) <= NUMBERED_CELLS
    letters, lines = (17, 2) if numbered else (20, 1)
    beside = [_folded(row, letters, lines) for row in rows]
    left = max(_room(beside), _room([[f"{row_title} ↓"]])) + 6
    for full in (_WIDTH, _FULL_WIDTH):
        width = min((full - left - 2) / len(columns), 52 if numbered else 40)
        if width >= (26 if numbered else 8):
            break
    flat = [_folded(column, int((width - 3) / _LETTER / _TEXT), lines) for column in columns]
    turned = any("…" in line for folded in flat for line in folded)
    above = [_folded(column, letters, lines) for column in columns] if turned else flat
    top = 1.6 * _TEXT + 5 + (_room(above) if turned else _LINE * _TEXT * max(map(len, above)))
    height = min(width, 34) if numbered else max(min(width, 12, 560 / len(rows)), 5)
    root = ET.Element("svg", {"viewBox": f"0 0 {full} {top + height * len(rows) + 1:.1f}", "role": "img"})
    root.attrib |= {"aria-label": label, "class": "wide" if full == _FULL_WIDTH else "beside"}
    root.set("style", f"font-size: {_TEXT}px")
    _grid(root, left, top, width, height, len(columns), len(rows))
    names = ET.SubElement(root, "g", {"style": f"fill: {_MUTED}"})
    _write(names, left - 6, top - 7, [f"{row_title} ↓"], "end")
    _write(names, left, 0.6 * _TEXT, [f"{column_title} →"], "start")
    names = ET.SubElement(root, "g", {"style": f"fill: {_INK}"})
    size, step = _named(height)
    for place in range(0, len(rows), step):
        y = top + height * (place + 0.5)
        _write(names, left - 6, y, beside[place], "end", size=size, title=rows[place])
    size, step = _named(width)
    for place in range(0, len(columns), step):
        x, words = left + width * (place + 0.5), above[place]
        if turned:
            _write(names, x, top - 5, words, "start", size=size, title=columns[place], turned=True)
        else:
            _write(names, x, top - 4 - _LINE * size * len(words) / 2, words, "middle", size=size, title=columns[place])
    groups = {colour: ET.SubElement(root, "g", {"style": f"fill: {colour}"}) for colour in (_FIRST, _SECOND)}
    counts = {
        colour: ET.SubElement(root, "g", {"style": f"fill: {colour}; pointer-events: none"}) for _, colour in _ON_CELL
    }
    for cell in cells:
        x, y, shade = left + width * cell.column, top + height * cell.row, 0.07 + 0.93 * cell.share
        box = {"x": x + 0.3, "y": y + 0.3, "width": width - 0.6, "height": height - 0.6}
        drawn = ET.SubElement(groups[cell.colour], "rect", {key: f"{value:.1f}" for key, value in box.items()})
        drawn.set("fill-opacity", f"{shade:.2f}")
        ET.SubElement(drawn, "title").text = f"{clean(rows[cell.row])}, {clean(columns[cell.column])}: {cell.count:,}"
        if numbered:
            size = min(_TEXT, (width - 3) / len(str(cell.count)) / 0.64)
            group = counts[next(colour for strength, colour in _ON_CELL if round(shade, 6) <= strength)]
            _write(group, x + width / 2, y + height / 2, [str(cell.count)], "middle", size=size)
    for element in root.iter():
        element.attrib = dict(_of_page(*pair, name) for pair in element.attrib.items())
    return ET.tostring(root, encoding="unicode")


def _grid(root: ET.Element, left: float, top: float, width: float, height: float, columns: int, rows: int) -> None:
    """Thin lines along which the eye finds the name of a cell's row and column."""
    across, down = left + width * columns, top + height * rows
    path = [f"M{left:.1f} {top + height * row:.1f}H{across:.1f}" for row in range(rows + 1)]
    path += [f"M{left + width * column:.1f} {top:.1f}V{down:.1f}" for column in range(columns + 1)]
    ET.SubElement(root, "path", {"d": "".join(path), "style": f"fill: none; stroke: {_GRID}; stroke-width: 0.6"})


def _named(room: float) -> tuple[float, int]:
    """The size of names that have so much room each, and how many steps it is from one that is written to the next."""
    size = min(_TEXT, max(0.9 * room, 7.5))
    return size, math.ceil(size / room)


def _write(
    parent: ET.Element,
    x: float,
    y: float,
    lines: Sequence[str],
    anchor: str,
    *,
    size: float = _TEXT,
    title: str = "",
    turned: bool = False,
) -> None:
    """Lines of text, the middle of them at the height y; turned ones run upwards from there, their middle at x."""
    element = ET.SubElement(parent, "text", {"text-anchor": anchor})
    if size < _TEXT:
        element.set("style", f"font-size: {size:.1f}px")
    if turned:
        element.set("transform", f"translate({x:.1f} {y:.1f}) rotate(-90)")
        x = y = 0.0
    if title and [clean(title)] != list(lines):  # what was folded or cut can still be read in full
        ET.SubElement(element, "title").text = clean(title)
    for number, line in enumerate(lines):
        baseline = y + 0.35 * size + (number - (len(lines) - 1) / 2) * _LINE * size
        ET.SubElement(element, "tspan", {"x": f"{x:.1f}", "y": f"{baseline:.1f}"}).text = line


def _folded(name: str, letters: int, lines: int) -> list[str]:
    """A name in one line or two, broken after the mark that leaves them most alike, and without its middle where
    it still does not fit: the ends of relation names tell more.
    """
    whole = clean(name)
    if len(whole) > letters and lines == 2:
        breaks = [
            match.end() for match in re.finditer(r"[\W_]+|(?<=[a-z])(?=[A-Z])", whole) if 0 < match.end() < len(whole)
        ]
        at = min(breaks, key=lambda end: abs(2 * end - len(whole)), default=min(letters, len(whole) // 2))
        return [_cut(whole[:at].strip(), letters), _cut(whole[at:].strip(), letters)]
    return [_cut(whole, letters)]


def _cut(line: str, letters: int) -> str:
    kept = max(letters - 1, 1)
    return line if len(line) <= letters else f"{line[: kept - kept // 2]}…{line[len(line) - kept // 2 :]}"


def _room(names: Sequence[Sequence[str]]) -> float:
    """What the longest line of these names takes; letters of other scripts are up to twice as wide."""
    return max(
        sum(_TEXT * _LETTER * (1 if letter < "\u1100" else 1.8) for letter in line) for name in names for line in name
    )


@contextmanager
def _drawing(height: int, width: int = _WIDTH, theme: Mapping[Any, Any] = _OF_PAGE) -> Iterator[Figure]:
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
