"""Heat maps of the report page: the confusion matrix, and who holds which labels.

They are written as SVG by hand: matplotlib would write ten times as much, and cells have tooltips.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedrel.report.drawing import (
    DARK,
    FIRST,
    FULL_WIDTH,
    GRID,
    INK,
    MUTED,
    PAGE,
    SECOND,
    WIDTH,
    for_page,
    printable,
    shortened,
)

NUMBERED_CELLS = 25  # with more rows or columns than this, the numbers would be too small to read


def confusion_chart(relations: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The confusion matrix `counts` (R, R) by label and prediction. Cells are shaded by their share of the row, so that
    rare labels show as well as common ones; the diagonal has a colour of its own.
    """
    cells = [
        _Cell(row, column, count, count / sum(line), FIRST if row == column else SECOND)
        for row, line in enumerate(counts)
        for column, count in enumerate(line)
        if count
    ]
    right, all_ = sum(cell.count for cell in cells if cell.row == cell.column), sum(cell.count for cell in cells)
    label = f"Confusion matrix of {len(relations)} labels on test: {right:,} of {all_:,} sentences are right."
    return _heat_map("confusion", label, "truth", "prediction", relations, relations, cells)


def labels_chart(labels: Mapping[str, Mapping[str, int]], relations: Sequence[str]) -> str:
    """The number of sentences by platform and label. Each label is shaded relative to the platform that holds most of
    it, since one label, often NA, outnumbers all others.
    """
    most = {name: max(held.get(name, 0) for held in labels.values()) for name in relations}
    cells = [
        _Cell(row, column, held[name], held[name] / most[name], FIRST)
        for row, held in enumerate(labels.values())
        for column, name in enumerate(relations)
        if held.get(name)
    ]
    label = f"Sentences of each of {len(relations)} labels that each of {len(labels)} platforms holds."
    return _heat_map("labels", label, "platform", "label", list(labels), relations, cells)


@dataclass(frozen=True)
class _Cell:
    row: int
    column: int
    count: int
    share: float  # the strength of its colour, from 0 to 1
    colour: str


_TEXT = 9.5  # font size of names
_LETTER = 0.6  # width of a wide letter in the fonts of the page, relative to the font size
_LINE = 1.15  # line height, relative to the font size
# The text colour that is legible on a cell, up to a strength of its colour: ink; dark in either mode; the page's own.
_ON_CELL = ((0.6, INK), (0.8, DARK), (1.0, PAGE))


def _heat_map(
    name: str,
    label: str,
    row_title: str,
    column_title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[_Cell],
) -> str:
    """Cells with their counts, or smaller cells without if there are many. Every cell has a tooltip, so that no number
    and no name is lost.
    """
    numbered = max(len(rows), len(columns)) <= NUMBERED_CELLS
    letters, lines = (17, 2) if numbered else (20, 1)
    beside = [_folded(row, letters, lines) for row in rows]
    left = max(_room(beside), _room([[f"{row_title} ↓"]])) + 6
    for full in (WIDTH, FULL_WIDTH):
        width = min((full - left - 2) / len(columns), 52 if numbered else 40)
        if width >= (26 if numbered else 8):
            break
    flat = [_folded(column, int((width - 3) / _LETTER / _TEXT), lines) for column in columns]
    turned = any("…" in line for folded in flat for line in folded)
    above = [_folded(column, letters, lines) for column in columns] if turned else flat
    top = 1.6 * _TEXT + 5 + (_room(above) if turned else _LINE * _TEXT * max(map(len, above)))
    height = min(width, 34) if numbered else max(min(width, 12, 560 / len(rows)), 5)
    root = ET.Element("svg", {"viewBox": f"0 0 {full} {top + height * len(rows) + 1:.1f}", "role": "img"})
    root.attrib |= {"aria-label": label, "class": "wide" if full == FULL_WIDTH else "beside"}
    root.set("style", f"font-size: {_TEXT}px")
    _grid(root, left, top, width, height, len(columns), len(rows))
    names = ET.SubElement(root, "g", {"style": f"fill: {MUTED}"})
    _write(names, left - 6, top - 7, [f"{row_title} ↓"], "end")
    _write(names, left, 0.6 * _TEXT, [f"{column_title} →"], "start")
    names = ET.SubElement(root, "g", {"style": f"fill: {INK}"})
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
    groups = {colour: ET.SubElement(root, "g", {"style": f"fill: {colour}"}) for colour in (FIRST, SECOND)}
    counts = {
        colour: ET.SubElement(root, "g", {"style": f"fill: {colour}; pointer-events: none"}) for _, colour in _ON_CELL
    }
    for cell in cells:
        x, y, shade = left + width * cell.column, top + height * cell.row, 0.07 + 0.93 * cell.share
        box = {"x": x + 0.3, "y": y + 0.3, "width": width - 0.6, "height": height - 0.6}
        drawn = ET.SubElement(groups[cell.colour], "rect", {key: f"{value:.1f}" for key, value in box.items()})
        drawn.set("fill-opacity", f"{shade:.2f}")
        ET.SubElement(
            drawn, "title"
        ).text = f"{printable(rows[cell.row])}, {printable(columns[cell.column])}: {cell.count:,}"
        if numbered:
            size = min(_TEXT, (width - 3) / len(str(cell.count)) / 0.64)
            group = counts[next(colour for strength, colour in _ON_CELL if round(shade, 6) <= strength)]
            _write(group, x + width / 2, y + height / 2, [str(cell.count)], "middle", size=size)
    for element in root.iter():
        element.attrib = dict(for_page(*pair, name) for pair in element.attrib.items())
    return ET.tostring(root, encoding="unicode")


def _grid(root: ET.Element, left: float, top: float, width: float, height: float, columns: int, rows: int) -> None:
    """Thin lines that lead from a cell to the names of its row and column."""
    across, down = left + width * columns, top + height * rows
    path = [f"M{left:.1f} {top + height * row:.1f}H{across:.1f}" for row in range(rows + 1)]
    path += [f"M{left + width * column:.1f} {top:.1f}V{down:.1f}" for column in range(columns + 1)]
    ET.SubElement(root, "path", {"d": "".join(path), "style": f"fill: none; stroke: {GRID}; stroke-width: 0.6"})


def _named(room: float) -> tuple[float, int]:
    """The font size of names at this distance from each other, and which of them fit: every n-th."""
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
    """Lines of text, vertically centred at y; if `turned`, they run upwards from y, centred at x."""
    element = ET.SubElement(parent, "text", {"text-anchor": anchor})
    if size < _TEXT:
        element.set("style", f"font-size: {size:.1f}px")
    if turned:
        element.set("transform", f"translate({x:.1f} {y:.1f}) rotate(-90)")
        x = y = 0.0
    if title and [printable(title)] != list(lines):  # the full name of one that was folded or shortened
        ET.SubElement(element, "title").text = printable(title)
    for number, line in enumerate(lines):
        baseline = y + 0.35 * size + (number - (len(lines) - 1) / 2) * _LINE * size
        ET.SubElement(element, "tspan", {"x": f"{x:.1f}", "y": f"{baseline:.1f}"}).text = line


def _folded(name: str, letters: int, lines: int) -> list[str]:
    """A name in one line or two. It is broken after the punctuation mark nearest to its middle, and a line that still
    does not fit loses its middle: the ends of relation names say more.
    """
    whole = printable(name)
    if len(whole) > letters and lines == 2:
        breaks = [
            match.end() for match in re.finditer(r"[\W_]+|(?<=[a-z])(?=[A-Z])", whole) if 0 < match.end() < len(whole)
        ]
        at = min(breaks, key=lambda end: abs(2 * end - len(whole)), default=min(letters, len(whole) // 2))
        return [shortened(whole[:at].strip(), letters), shortened(whole[at:].strip(), letters)]
    return [shortened(whole, letters)]


def _room(names: Sequence[Sequence[str]]) -> float:
    """The width of the longest line of these names; letters of East Asian scripts are nearly twice as wide."""
    return max(
        sum(_TEXT * _LETTER * (1 if letter < "\u1100" else 1.8) for letter in line) for name in names for line in name
    )
