"""Who holds which labels, as a heat map of platforms × labels: as text for a terminal, or as a picture for a paper.

matplotlib is imported where it is used, so that commands which draw nothing start fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len, chop_cells, set_cell_size

from fedrel.data.store import Ints
from fedrel.errors import UserError
from fedrel.report.drawing import METADATA, heat_map, printable, save, without_glyph_warnings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = "░▒▓█"
ASCII_SHADES = ".:+#"  # for terminals that cannot show the above

_MOST_PLATFORMS = 100
_MOST_LABELS = 100  # in a picture; in text, as many as there are columns
_LONGEST_NAME = 32
_NUMBER_CELL = 4  # a space, a shade, two digits; 100 is alone in its row and may use the space
_NAME_CELL = 9  # in a cell of this width or more, the folded name of a label fits above its column
_NAME_LINES = 4
_WIDE_TERMINAL = 200  # columns; hardly any terminal has more
_PICTURE_NUMBERS = 500  # cells; with more, numbers would be too small to read


@dataclass(frozen=True)
class HeatMap:
    """The number of sentences by row and label: a row for each of K platforms, then some summary rows; R labels."""

    rows: Sequence[str]
    labels: Sequence[str]
    counts: Ints  # (K + summaries, R)
    summaries: int = 0  # rows at the end that are not platforms

    @property
    def sizes(self) -> Ints:
        """(K + summaries,) the sentences of each row."""
        sizes: Ints = self.counts.sum(axis=1)
        return sizes

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """(K + summaries, R) the share of a row's sentences that have the label."""
        return self.counts / np.maximum(self.sizes, 1)[:, None]

    def shortened(self, platforms: int, labels: int) -> tuple[HeatMap, list[str]]:
        """A map of at most this many platforms, the largest, and labels, the rare ones summed in the last column; and a
        sentence about each thing that is left out.
        """
        there = len(self.rows) - self.summaries
        kept_rows, kept_labels = np.arange(len(self.rows)), np.arange(len(self.labels))
        names, counts, missing = list(self.labels), self.counts, []
        if there > platforms:
            largest = np.argsort(-self.sizes[:there], kind="stable")[:platforms]
            kept_rows = np.r_[np.sort(largest), kept_rows[there:]]
            missing.append(f"left out: the {there - platforms:,} platforms with the fewest sentences")
        if len(names) > labels:
            frequent = np.argsort(-self.counts[:there].sum(axis=0), kind="stable")
            kept_labels, rare = np.sort(frequent[: labels - 1]), frequent[labels - 1 :]
            names = [*(names[label] for label in kept_labels), f"{len(rare):,} rare labels"]
            counts = np.column_stack([counts[:, kept_labels], counts[:, rare].sum(axis=1)])
            missing.append(f"the last column is the sum of the {len(rare):,} rarest labels")
        return HeatMap(
            [self.rows[row] for row in kept_rows.tolist()], names, counts[kept_rows], self.summaries
        ), missing


def text_of(whole: HeatMap, *, width: int = 80, shades: str = SHADES) -> Iterator[str]:
    """The map as lines of at most `width` columns: shades for the share of each label, with percentages if they fit."""
    named = max(8, *(min(len(name), 20) for name in whole.rows))
    sized = max(9, *(len(f"{size:,}") for size in whole.sizes))
    margin = named + sized + 2
    available = max(width - margin, 2 * _NUMBER_CELL)
    cell = min(available // len(whole.labels), 2 * _NAME_CELL)
    numbered = cell >= _NUMBER_CELL
    if not numbered:
        cell = min(max(cell, 1), 2)
    shown, missing = whole.shortened(_MOST_PLATFORMS, available // cell)
    labels = [printable(label) for label in shown.labels]

    heads = [_fold(label, cell - 1) for label in labels]
    keyed = cell < _NAME_CELL or max(map(len, heads)) > _NAME_LINES
    if keyed:
        heads = [_key(number, cell) for number in range(1, len(labels) + 1)]
    height = max(map(len, heads))
    for line in range(height):
        words = [head[line - height + len(head)] if line >= height - len(head) else "" for head in heads]
        title = f"{'platform':<{named}} {'sentences':>{sized}}" if line == height - 1 else ""
        yield f"{title:<{margin}}{''.join(_right(word, cell) for word in words)}".rstrip()
    for row, (name, size, shares) in enumerate(zip(shown.rows, shown.sizes, shown.shares, strict=True)):
        if row == len(shown.rows) - shown.summaries:
            yield ""
        cells = "".join(_cell(share, cell, shades) for share in shares)
        yield f"{_cut(name, named):<{named}} {size:>{sized},} {cells}".rstrip()
    yield ""
    if keyed:
        yield from _legend(labels, width)
        yield ""
    first, second, third, fourth = list(shades)
    yield f"share of the row's sentences: {first} up to 25 %, {second} up to 50 %, {third} up to 75 %, {fourth} more"
    if not numbered:
        needed = margin + _NUMBER_CELL * len(whole.labels)
        there = f"percentages: in a terminal of {needed} columns; " if needed <= _WIDE_TERMINAL else ""
        yield f"{there}all counts: --json"
    yield from missing


def _cell(share: float, width: int, shades: str) -> str:
    """A shade, with the percentage if it fits; blank for 0."""
    if not share:
        return " " * width
    shade = shades[min(int(np.ceil(share * 4)), 4) - 1]
    return (f"{shade}{_percent(share):>2}" if width >= _NUMBER_CELL else shade).rjust(width)


def _percent(share: float) -> str:
    """A percentage above 0 in at most three characters; "100" means all, never a rounded 99.9."""
    return "<1" if share < 0.005 else "100" if share == 1 else str(min(round(share * 100), 99))


def _key(number: int, width: int) -> list[str]:
    """The number of a column as lines: its digits below each other if they do not fit side by side."""
    return [str(number)] if len(str(number)) < width else list(str(number))


def _legend(labels: Sequence[str], width: int) -> Iterator[str]:
    """The labels by column number, in as many columns as fit, top to bottom."""
    digits = len(str(len(labels)))
    entries = [f"{number:>{digits}} {_cut(label, _LONGEST_NAME)}" for number, label in enumerate(labels, 1)]
    each = max(map(cell_len, entries)) + 2
    height = -(-len(entries) // max(width // each, 1))
    for line in range(height):
        yield "".join(set_cell_size(entry, each) for entry in entries[line::height]).rstrip()


def _fold(label: str, width: int) -> list[str]:
    """The label as lines of at most this width, broken after separators where possible."""
    lines = [""]
    for part in re.findall(r"[^/_\-.: ]*[/_\-.: ]+|[^/_\-.: ]+", label):
        if cell_len((lines[-1] + part).rstrip()) <= width:
            lines[-1] += part
        else:
            lines += chop_cells(part, max(width, 1))
    return [line.rstrip() for line in lines if line.strip()] or [""]


def _right(text: str, width: int) -> str:
    return " " * max(width - cell_len(text), 0) + text


def _cut(text: str, width: int) -> str:
    """The text in at most this many terminal columns, without its middle if need be: names often begin alike."""
    if cell_len(text) <= width:
        return text
    tail = width * 2 // 3
    while cell_len(text[-tail:]) > width * 2 // 3:  # some letters are two columns wide
        tail -= 1
    return f"{set_cell_size(text, width - cell_len(text[-tail:]) - 1)}…{text[-tail:]}"


def require_picture(path: Path) -> None:
    """Raises UserError for a path that no picture can be written to; call it before doing any work for the picture."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it, for example {path / 'partition.png'}")
    if path.suffix.lower() not in METADATA:
        raise UserError(f"{path}: a picture's name must end in {', '.join(METADATA)}")


def write_picture(whole: HeatMap, path: Path, title: str = "") -> None:
    """Writes the map as PNG, SVG or PDF, by the suffix of the path: with a colour bar, and with percentages in the
    cells if they are legible. Raises UserError for another suffix.
    """
    import matplotlib as mpl

    require_picture(path)
    shown, missing = whole.shortened(_MOST_PLATFORMS, _MOST_LABELS)
    settings: dict[Any, Any] = {
        "svg.hashsalt": "fedrel",
        "text.parse_math": False,  # a name may contain a dollar sign
        "font.size": 9,
        "figure.facecolor": "white",
    }
    with mpl.rc_context(settings), without_glyph_warnings():
        save(_draw(shown, "\n".join([title, *missing])), path, dpi=150)


def _draw(shown: HeatMap, title: str) -> Figure:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    platforms = len(shown.rows) - shown.summaries
    numbers = shown.counts.size <= _PICTURE_NUMBERS
    cell = 0.36 if numbers else 0.2  # inches
    labels = [_cut(printable(label), _LONGEST_NAME) for label in shown.labels]
    rows = [
        f"{_cut(printable(name), _LONGEST_NAME)}  {size:,}" for name, size in zip(shown.rows, shown.sizes, strict=True)
    ]
    size = (cell * len(labels) + 0.08 * max(map(len, rows)) + 1.6, 0.8 * cell * len(rows) + 2.8)
    figure = Figure(figsize=(max(size[0], 5), max(size[1], 3.6)), layout="constrained")
    axes = figure.add_subplot()
    shares = np.where(shown.shares == 0, np.nan, shown.shares)  # 0 is blank
    colours = ListedColormap(colormaps["YlGnBu"](np.linspace(0.12, 1, 256)))  # a small share must not look like 0
    texts = np.array([[_percent(share) if numbers and share else "" for share in row] for row in shown.shares])
    image = heat_map(axes, shares, texts, low=0, high=1, colours=colours, size=7.5)
    axes.set_xticks(range(len(labels)), labels, rotation=45 if numbers else 90, ha="right" if numbers else "center")
    if numbers:
        for label in axes.get_xticklabels():
            label.set_rotation_mode("anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("label")
    axes.set_ylabel("platform and its sentences")
    figure.suptitle(title.strip(), x=0.01, ha="left", fontsize=10)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(len(labels) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#e4e4e4", linewidth=0.6)
    axes.tick_params(which="minor", length=0)
    if shown.summaries:
        axes.axhline(platforms - 0.5, color="black", linewidth=1.2)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, aspect=25)
    bar.set_label("share of the row")
    bar.ax.yaxis.set_major_formatter(lambda value, position: f"{value:.0%}")
    bar.outline.set_visible(False)
    return figure
