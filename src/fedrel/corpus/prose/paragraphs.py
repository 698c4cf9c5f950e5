"""The text of a document with markup, collected as its parser goes through it."""

from __future__ import annotations

import re

LONGEST = 1_000_000  # characters of a paragraph; one that is longer is cut
_SPACE = re.compile(r"\s+")
_AROUND_BREAK = re.compile(r" *\n *")
_BLANKS = re.compile(r"  +")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_INVISIBLE = {0xAD: None, 0x200B: None, 0x2060: None, 0xFEFF: None}  # soft hyphen and the like, inside of words
_CELL = "\x1f"  # `clean` leaves none in the text


def clean(text: str) -> str:
    """Text without control characters, invisible characters and halves of characters, which UTF-8 does not have."""
    text = _CONTROL.sub("", text).translate(_INVISIBLE)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Paragraphs:
    """Paragraphs as they are completed. White space within one is a single blank, but for line breaks. A paragraph that
    lies in another, such as a footnote, comes before it.
    """

    def __init__(self) -> None:
        self._open: list[list[str]] = [[]]  # the parts of each paragraph that is not complete, the innermost last
        self._size = 0
        self._rows = 0
        self._done: list[str] = []

    def add(self, text: str, *, keep_lines: bool = False) -> None:
        """Adds text to the paragraph."""
        text = clean(text)
        self._append(text if keep_lines else _SPACE.sub(" ", text))

    def break_line(self) -> None:
        self._append("\n")

    def _append(self, text: str) -> None:
        self._open[-1].append(text)
        self._size += len(text)
        if self._size > LONGEST:
            for place in range(len(self._open)):
                self._complete(place)

    def begin(self) -> None:
        """Begins a paragraph, perhaps within another."""
        self._open.append([])

    def finish(self) -> None:
        """Completes the paragraph that began last; in a row of a table, it is a part of the cell instead."""
        if len(self._open) == 1:
            self._complete(-1)
        elif self._rows:
            inner = self._open.pop()
            self._open[-1] += inner
            self._append(" ")
        else:
            self._complete(-1)
            self._open.pop()

    def end(self) -> None:
        """Completes the paragraph, if there is anything in it; what follows is a new one."""
        self._complete(-1)

    def begin_row(self) -> None:
        self._rows += 1

    def end_cell(self) -> None:
        self._append(_CELL)

    def end_row(self) -> None:
        """Completes the row of a table, a paragraph; one in a cell of another table is a part of that cell."""
        self._rows = max(0, self._rows - 1)
        if self._rows:
            self._append(" ")
        else:
            self._complete(-1)

    def _complete(self, place: int) -> None:
        whole = "".join(self._open[place])
        self._open[place].clear()
        self._size -= len(whole)
        cells = (_BLANKS.sub(" ", _AROUND_BREAK.sub("\n", cell)).strip() for cell in whole.split(_CELL))
        if text := " | ".join(cell for cell in cells if cell):
            self._done.append(text + "\n\n")

    def take(self) -> str:
        """The paragraphs that were completed since the last call, each with a blank line after it."""
        text = "".join(self._done)
        self._done.clear()
        return text
