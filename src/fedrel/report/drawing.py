"""What all figures share: their look, heat maps, and how they are saved as files or set into the report page.

matplotlib is imported where it is used, so that commands which draw nothing start fast.
"""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedrel.util.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

WIDTH, FULL_WIDTH = 400, 735  # units of a drawing beside its text, and of one that takes the whole page
METADATA: dict[str, dict[str, Any]] = {  # without dates and versions, so that the same figure gives the same bytes
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

# Charts of the page are drawn in placeholder colours, which the finished SVG replaces by CSS variables for dark mode.
INK, MUTED, GRID, FIRST, SECOND, PAGE = "#010203", "#040506", "#070809", "#0a0b0c", "#0d0e0f", "#101112"
DARK = "#131415"
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", FIRST: "--first", SECOND: "--second"}
_VARIABLES |= {PAGE: "--page", DARK: "--dark"}

# The colours of Okabe and Ito, distinct for any kind of colour vision, and a grey. Eight colours and five styles have
# no common divisor: 40 lines before one looks like another.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#8c8c8c")
STYLES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (1, 1.3)), (0, (7, 2, 1, 2)), (0, (3, 1.5)))

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fedrel",
    "text.parse_math": False,  # a name may contain a dollar sign
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
ON_PAGE: dict[Any, Any] = {"text.color": INK, "grid.color": GRID}
ON_PAGE |= dict.fromkeys(("axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), MUTED)
ON_WHITE: dict[Any, Any] = {"figure.facecolor": "white", "axes.facecolor": "white", "grid.color": "#e4e4e4"}


@contextmanager
def drawing(height: int, width: int = WIDTH, theme: Mapping[Any, Any] = ON_PAGE) -> Iterator[Figure]:
    """A figure of this size, 72 units to matplotlib's inch; the default width keeps its text legible on a phone."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**_SETTINGS, **theme}), without_glyph_warnings():
        yield Figure(figsize=(width / 72, height / 72), layout="constrained")


@contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Silences warnings about letters that matplotlib's font lacks: in an SVG, the reader's browser has them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def heat_map(
    axes: Axes,
    shades: npt.NDArray[np.floating],
    texts: npt.NDArray[np.str_],
    *,
    low: float,
    high: float,
    colours: str | Colormap,
    size: float,
) -> AxesImage:
    """Draws cells of `shades` (rows, columns), from `low` to `high` and blank for NaN, with `texts` (rows, columns) of
    this font size on them, white on dark cells.
    """
    image = axes.imshow(
        np.ma.masked_invalid(shades), cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest"
    )
    axes.grid(visible=False)
    for (row, column), text in np.ndenumerate(texts):
        if text:
            colour = "white" if shades[row, column] > (low + high) / 2 else "black"
            axes.text(column, row, str(text), ha="center", va="center", fontsize=size, color=colour)
    return image


def save(figure: Figure, path: Path, kind: str = "", dpi: int = 200) -> None:
    """Writes a figure as `kind` (.png, .svg or .pdf), by default the suffix of the path."""
    kind = kind or path.suffix.lower()
    content = io.BytesIO()
    figure.savefig(content, format=kind[1:], dpi=dpi, metadata=METADATA[kind])
    write_atomic(path, content.getvalue())


def svg_element(figure: Figure, name: str, label: str) -> str:
    """The figure as an SVG element for the page, in its colours and font; `name` makes its ids unique in the page, and
    `label` describes it to screen readers.
    """
    content = io.BytesIO()
    figure.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(content.getvalue())
    for child in list(root):  # metadata, and a style sheet that would affect the whole page
        if not child.tag.endswith("}g") and child.find("{*}clipPath") is None:
            root.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = dict(for_page(*pair, name) for pair in element.attrib.items())
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return ET.tostring(root, encoding="unicode")


def for_page(key: str, value: str, name: str) -> tuple[str, str]:
    """An attribute of an SVG for the page: without namespace, ids prefixed by `name`, CSS variables for colours."""
    key = key.rpartition("}")[2]
    if key == "id":
        value = f"{name}-{value}"
    elif key in ("href", "clip-path"):
        value = value.replace("#", f"#{name}-")
    elif key == "style":
        # The font family is the page's. Releases of matplotlib differ in how they write it.
        value = re.sub(r"\bfont: ([\d.]+px)[^;]*", r"font-size: \1", re.sub(r"font-family: [^;]*; ", "", value))
        value = re.sub("|".join(_VARIABLES), lambda colour: f"var({_VARIABLES[colour[0]]})", value)
    return key, value


def printable(name: str) -> str:
    """A name from data without control characters, which XML cannot hold."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)


def shortened(line: str, letters: int) -> str:
    """The line, or its two ends around "…": names often begin alike."""
    kept = max(letters - 1, 1)
    return line if len(line) <= letters else f"{line[: kept - kept // 2]}…{line[len(line) - kept // 2 :]}"
