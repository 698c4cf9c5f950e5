"""The text of files that people write for people: Markdown, web pages, PDF, Word and OpenDocument.

A reader is given a file and yields its text in pieces, each with the page it is from (0: the format has no pages).
Joined in their order, the pieces are the text that was read, which every offset counts in: paragraphs are whole, a
blank line is between two of them, and a row of a table is a paragraph with ` | ` between its cells. UserError, in one
sentence that begins with the file, for what cannot be read.

Files may come from strangers. Nothing in them is fetched or run, and memory is bounded: whatever is packed, nested or
repeated in a file, a reader holds a few megabytes of text, or as much as `largest` allows where the parser needs the
file whole.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedrel.corpus.prose import html, markdown, office, pdf
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError

Piece = tuple[str, int]


@dataclass(frozen=True)
class Kind:
    """How files of some extensions are read."""

    what: str
    pieces: Callable[[Path, Skipped], Iterator[Piece]]
    largest: int  # bytes of a file
    needs: str = ""  # a package of the extra "documents"

    @property
    def missing(self) -> bool:
        """Whether the package that reads it is not installed."""
        return bool(self.needs) and importlib.util.find_spec(self.needs) is None


INSTALL = 'pip install "fedrel[documents]"'
_MARKDOWN = Kind("Markdown", markdown.pieces, 64 * 2**20)
_HTML = Kind("a web page", html.pieces, 64 * 2**20)
KINDS = {
    ".md": _MARKDOWN,
    ".markdown": _MARKDOWN,
    ".html": _HTML,
    ".htm": _HTML,
    ".xhtml": _HTML,
    ".pdf": Kind("PDF", pdf.pieces, 256 * 2**20, needs="pypdf"),
    ".docx": Kind("Word", office.docx_pieces, 256 * 2**20),
    ".odt": Kind("OpenDocument text", office.odt_pieces, 256 * 2**20),
}


def pieces_of(path: Path, skip: Skipped) -> Iterator[Piece]:
    """The text of a file in one of KINDS. UserError if it cannot be read."""
    kind = KINDS[path.suffix.lower()]
    if kind.missing:
        raise UserError(f"{path}: {kind.what} needs a package: {INSTALL}")
    try:
        size = path.stat().st_size
        if size > kind.largest:
            most = kind.largest >> 20
            raise UserError(f"{path}: {size >> 20:,} MB; {kind.what} of at most {most} MB is read: cut it into parts")
        if size:
            yield from kind.pieces(path, skip)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
