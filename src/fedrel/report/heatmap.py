"""Who holds which labels, drawn as platforms x labels: as text for a terminal, as a picture for a paper.

matplotlib is imported where it is used, so that commands which draw nothing start fast.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len, chop_cells, set_cell_size

from fedrel.data.store import Ints
from fedrel.errors import UserError
from fedrel.util.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = "░▒▓█"
ASCII_SHADES = ".:+#"  # for terminals without the above
PICTURES: dict[str, dict[str, Any]] = {  # without dates and versions: the same map gives the same bytes
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

_MOST_PLATFORMS = 100
_MOST_LABELS = 100  # of a picture; of text, as many as there are columns
_LONGEST_NAME = 32
_NUMBER_CELL = 4  # a space, a shade, two digits; 100 is alone in its row and may take the space
_NAME_CELL = 9  # from here on a label's name fits above its column, folded
_NAME_LINES = 4
_WIDE_TERMINAL = 200  # columns; hardly anybody has more
_PICTURE_NUMBERS = 500  # cells; with more, numbers would be too small to read


@dataclass(frozen=True)
class HeatMap:
    """Sentences with each label in every row. R labels; a row for each of K platforms, then some summaries."""

    rows: Sequence[str]
    labels: Sequence[str]
    counts: Ints  # (K + summaries, R)
    summaries: int = 0  # rows at the end that are no platforms

    @property
    def sizes(self) -> Ints:
        sizes: Ints = self.counts.sum(axis=1)
        return sizes

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """What part of a row's sentences has the label, (K + summaries, R)."""
        return self.counts / np.maximum(self.sizes, 1)[:, None]

    def shortened(self, platforms: int, labels: int) -> tuple[HeatMap, list[str]]:
        """With at most so many platforms, those that hold the most, and so many labels, the rare ones added up;
        and a sentence about each thing that is missing.
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
            missing.append(f"the last column adds up the {len(rare):,} rarest labels")
        return HeatMap(
            [self.rows[row] for row in kept_rows.tolist()], names, counts[kept_rows], self.summaries
        ), missing


def text_of(whole: HeatMap, *, width: int = 80, shades: str = SHADES) -> Iterator[str]:
    """Lines to print: shades for the share of each label, and percents where there is room for them."""
    named = max(8, *(min(len(name), 20) for name in whole.rows))
    sized = max(9, *(len(f"{size:,}") for size in whole.sizes))
    margin = named + sized + 2
    room = max(width - margin, 2 * _NUMBER_CELL)
    cell = min(room // len(whole.labels), 2 * _NAME_CELL)
    numbered = cell >= _NUMBER_CELL
    if not numbered:
        cell = min(max(cell, 1), 2)
    shown, missing = whole.shortened(_MOST_PLATFORMS, room // cell)
    labels = [_printable(label) for label in shown.labels]

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
        there = f"percents: in a terminal of {needed} columns; " if needed <= _WIDE_TERMINAL else ""
        yield f"{there}all counts: --json"
    yield from missing


def _cell(share: float, width: int, shades: str) -> str:
    """A shade, and the percent if it fits; blank for nothing at all."""
    if not share:
        return " " * width
    shade = shades[min(int(np.ceil(share * 4)), 4) - 1]
    return (f"{shade}{_percent(share):>2}" if width >= _NUMBER_CELL else shade).rjust(width)


def _percent(share: float) -> str:
    """100 is all, and nothing less than all."""
    return "<1" if share < 0.005 else "100" if share == 1 else str(min(round(share * 100), 99))


def _key(number: int, width: int) -> list[str]:
    """A column's number, its digits below each other where there is no room beside."""
    return [str(number)] if len(str(number)) < width else list(str(number))


def _legend(labels: Sequence[str], width: int) -> Iterator[str]:
    """What the numbers above the columns mean, in as many columns as fit, read downwards."""
    digits = len(str(len(labels)))
    entries = [f"{number:>{digits}} {_cut(label, _LONGEST_NAME)}" for number, label in enumerate(labels, 1)]
    each = max(map(cell_len, entries)) + 2
    height = -(-len(entries) // max(width // each, 1))
    for line in range(height):
        yield "".join(set_cell_size(entry, each) for entry in entries[line::height]).rstrip()


def _fold(label: str, width: int) -> list[str]:
    """Lines of at most this width, broken after a separator where there is one."""
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
    """Both ends stay: names often begin alike."""
    if cell_len(text) <= width:
        return text
    tail = width * 2 // 3
    while cell_len(text[-tail:]) > width * 2 // 3:  # letters of two columns
        tail -= 1
    return f"{set_cell_size(text, width - cell_len(text[-tail:]) - 1)}…{text[-tail:]}"


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)


def require_picture(path: Path) -> None:
    """Refuses what no picture can be written to; to be asked before any work is done for it."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it, for example {path / 'partition.png'}")
    if path.suffix.lower() not in PICTURES:
        raise UserError(f"{path}: a picture's name must end in {', '.join(PICTURES)}")


def write_picture(whole: HeatMap, path: Path, title: str = "") -> None:
    """The map with a colour bar, and percents in the cells where they can be read."""
    import matplotlib as mpl

    require_picture(path)
    kind = path.suffix.lower()
    shown, missing = whole.shortened(_MOST_PLATFORMS, _MOST_LABELS)
    content = io.BytesIO()
    settings: dict[Any, Any] = {
        "svg.hashsalt": "fedrel",
        "text.parse_math": False,  # a name may hold a dollar sign
        "font.size": 9,
        "figure.facecolor": "white",
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = _draw(shown, "\n".join([title, *missing]))
        figure.savefig(content, format=kind[1:], dpi=150, metadata=PICTURES[kind])
    write_whole(path, content.getvalue())


def _draw(shown: HeatMap, title: str) -> Figure:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    platforms = len(shown.rows) - shown.summaries
    numbers = shown.counts.size <= _PICTURE_NUMBERS
    cell = 0.36 if numbers else 0.2  # inches
    labels = [_cut(_printable(label), _LONGEST_NAME) for label in shown.labels]
    rows = [
        f"{_cut(_printable(name), _LONGEST_NAME)}  {size:,}" for name, size in zip(shown.rows, shown.sizes, strict=True)
    ]
    size = (cell * len(labels) + 0.08 * max(map(len, rows)) + 1.6, 0.8 * cell * len(rows) + 2.8)
    figure = Figure(figsize=(max(size[0], 5), max(size[1], 3.6)), layout="constrained")
    axes = figure.add_subplot()
    shares = np.ma.masked_equal(shown.shares, 0)  # nothing at all is white
    colours = ListedColormap(colormaps["YlGnBu"](np.linspace(0.12, 1, 256)))  # little is not to look like nothing
    image = axes.imshow(shares, cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(labels)), labels, rotation=45 if numbers else 90, ha="right" if numbers else "center")
    if numbers:
        for label in axes.get_xticklabels():
            label.set_rotation_mode("anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("label")
    axes.set_ylabel("platform, and its sentences")
    figure.suptitle(title.strip(), x=0.01, ha="left", fontsize=10)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(len(labels) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#e4e4e4", linewidth=0.6)
    axes.tick_params(which="minor", length=0)
    if shown.summaries:
        axes.axhline(platforms - 0.5, color="black", linewidth=1.2)
    if numbers:
        for (row, label), share in np.ndenumerate(shown.shares):
            if share:
                colour = "white" if share > 0.5 else "black"
                axes.text(label, row, _percent(share), ha="center", va="center", color=colour, fontsize=7.5)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, aspect=25)
    bar.set_label("share of the row")
    bar.ax.yaxis.set_major_formatter(lambda value, position: f"{value:.0%}")
    bar.outline.set_visible(False)
    return figure
