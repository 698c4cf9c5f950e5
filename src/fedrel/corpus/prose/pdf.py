"""PDF: the text layer, page by page. Pages that are pictures have none; no text is recognised in pictures."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fedrel.corpus.prose.lines import Page, joined
from fedrel.corpus.prose.paragraphs import clean
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError

if TYPE_CHECKING:
    from pypdf import PageObject

PICTURE = "the page is a picture without a text layer; text recognition, such as ocrmypdf, adds one"
DAMAGED = "the page is damaged"
TOO_LARGE = "the page unpacks to far more than a page holds; it is refused"
_NOTHING = {  # what is said of a file by its first page, if no page has text
    PICTURE: "no text layer, the pages are pictures; add one with text recognition, such as ocrmypdf",
    DAMAGED: "its pages are damaged; get it again",
    TOO_LARGE: "its pages unpack to far more than pages hold; it is refused",
}
_END = 2_048  # bytes at the end of a file that hold its end mark
_LONGEST = 64 * 2**20  # characters of a file's text, which has to be in memory whole
_WORK, _SMALL = 200, 200 * 2**20  # bytes of content that are gone through: so many times the file, and at least
_BLANK = 16  # bytes that the contents of a blank page may take, packed
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}


def pieces(path: Path, skip: Skipped) -> Iterator[tuple[str, int]]:
    """The text of a file with the page that each piece is on, from 1. Pages that are pictures, and damaged ones, are
    reported to `skip`; UserError if there is no other page, or if the file is encrypted, damaged or cut off.
    """
    pages, lost = [], []
    with path.open("rb") as file:
        try:
            for page, why in _pages(path, file):
                pages.append(page)
                if why:
                    lost.append((page.number, why))
        except (UserError, MemoryError):
            raise
        except Exception:  # whatever the parser raises for damaged and hostile files
            raise UserError(f"{path}: damaged beyond mending; print it to a new PDF, or get it again") from None
    if lost and not any(page.lines for page in pages):
        raise UserError(f"{path}: {_NOTHING[lost[0][1]]}")
    for number, why in lost:
        skip(f"{path}, page {number}", why)
    yield from joined(pages)


def _pages(path: Path, file: BinaryIO) -> Iterator[tuple[Page, str]]:
    """Every page, and why there is no text on it, where that is not because it is blank."""
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it comments on every oddity of a file
    if b"%PDF-" not in file.read(1024):
        raise UserError(f"{path}: not a PDF, whatever its name says; rename it, or get it again")
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END))
    if b"%%EOF" not in file.read():
        raise UserError(f"{path}: cut off, the end of the PDF is missing; get it again")
    reader = PdfReader(file, strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        raise UserError(f"{path}: encrypted; save it without a password")
    if not len(reader.pages):
        raise UserError(f"{path}: damaged, there is no page in it; get it again")
    work, room = max(_SMALL, _WORK * size), _LONGEST
    for number, page in enumerate(reader.pages, 1):
        text, why, done = _text(page)
        work, room = work - done, room - len(text)
        if work < 0 or room < 0:
            raise UserError(f"{path}: far more text than a file of its size holds; cut it into parts")
        lines = [clean(line.translate(_LIGATURES)).strip() for line in text.splitlines()]
        yield Page(number, lines if any(lines) else []), why


def _text(page: PageObject) -> tuple[str, str, int]:
    """The text of a page, or why it has none, and how many bytes that took."""
    from pypdf.errors import LimitReachedError

    try:
        contents = page.get_contents()
        done = len(contents.get_data()) if contents is not None else 0
        text = page.extract_text()
        if text.strip():
            return text, "", done
        return "", PICTURE if _has_picture(page) else DAMAGED if not done and _has_contents(page) else "", done
    except MemoryError:
        raise
    except LimitReachedError:
        return "", TOO_LARGE, 0
    except Exception:  # whatever the parser raises: the other pages may be whole
        return "", DAMAGED, 0


def _has_picture(page: PageObject) -> bool:
    resources = page.get("/Resources")
    objects: Any = resources.get_object().get("/XObject") if resources is not None else None
    found = objects.get_object().values() if objects is not None else ()
    return any(it.get_object().get("/Subtype") in ("/Image", "/Form") for it in found)


def _has_contents(page: PageObject) -> bool:
    """Whether a page holds more, packed, than a blank one does."""
    given: Any = page.get("/Contents")
    whole = given.get_object() if given is not None else []
    parts = whole if isinstance(whole, list) else [whole]
    return any(len(getattr(it.get_object(), "_data", b"")) >= _BLANK for it in parts)
