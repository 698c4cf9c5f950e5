"""Web pages: the text that a reader of the page would see, without menus, scripts and forms.

The page is parsed as a stream of tags, so that its nesting costs no memory; nothing that it refers to is fetched.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.prose.paragraphs import Paragraphs
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError

_CHUNK = 2**16  # bytes that the parser is given at a time
_NO_TEXT = {
    *("head", "script", "style", "noscript", "template", "nav", "svg", "math", "iframe", "object", "canvas", "audio"),
    *("video", "select", "textarea", "button", "dialog", "rt", "rp"),
}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt"),
    *("fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li"),
    *("main", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "ul"),
}
_DECLARED = re.compile(
    rb"""<(?:meta\b[^>]{0,300}?\bcharset|\?xml\b[^>]{0,100}?\bencoding)\s*=\s*["']?([\w.:-]{1,40})""", re.I
)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LATIN = frozenset(("iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii"))  # windows-1252 on the web


def pieces(path: Path, skip: Skipped) -> Iterator[tuple[str, int]]:
    """The text of a page. UserError if its encoding is unknown."""
    return texts_in(decoded(path.read_bytes(), path))


def texts_in(page: str) -> Iterator[tuple[str, int]]:
    """The text of a page, or of a part of one."""
    from lxml import etree

    target = _Target()
    parser = etree.HTMLParser(target=target, encoding="utf-8")
    raw = page.encode("utf-8", "replace")
    for start in range(0, len(raw), _CHUNK):
        parser.feed(raw[start : start + _CHUNK])
        yield target.text.take(), 0
    try:
        parser.close()
    except etree.XMLSyntaxError:  # a page without a single tag or word
        return
    target.text.end()
    yield target.text.take(), 0


def decoded(raw: bytes, path: Path) -> str:
    """A page as text: by its byte order mark, as UTF-8, or by the encoding that it declares."""
    for mark, name in _MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(name, "replace")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        pass
    declared = _DECLARED.search(raw[:4096])
    name = declared[1].decode("ascii", "replace").lower() if declared else ""
    try:
        return raw.decode("windows-1252" if name in _LATIN else name, "replace") if name else raw.decode()
    except (LookupError, ValueError):
        what = f'declares the encoding "{name}"' if name else "declares no encoding"
        raise UserError(f"{path}: not UTF-8 text, and it {what}; convert the file to UTF-8") from None


class _Target:
    """What the parser calls for each tag and each stretch of text."""

    def __init__(self) -> None:
        self.text = Paragraphs()
        self._hidden = 0  # tags within one that holds no text, itself included
        self._verbatim = 0  # within <pre>

    def start(self, tag: str, attributes: object) -> None:
        if self._hidden or tag in _NO_TEXT:
            self._hidden += 1
        elif tag == "br":
            self.text.break_line()
        elif tag == "tr":
            self.text.end()
        elif tag in _BLOCKS:
            self.text.end()
            self._verbatim += tag == "pre"

    def end(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= 1
        elif tag in ("td", "th"):
            self.text.end_cell()
        elif tag in _BLOCKS or tag == "tr":
            self.text.end()
            self._verbatim -= tag == "pre"

    def data(self, text: str) -> None:
        if not self._hidden:
            self.text.add(text, keep_lines=bool(self._verbatim))

    def comment(self, text: str) -> None:
        """Comments are no text."""

    def pi(self, target: str, data: str) -> None:
        """Processing instructions are no text."""

    def close(self) -> None:
        """The parser wants something to return."""
