"""Word (.docx) and OpenDocument (.odt): archives with the text as XML in them.

The XML is parsed as a stream while it is unpacked. A DOCTYPE, which neither format has, is refused, and with it every
entity. Macros, pictures and embedded files are never unpacked.
"""

from __future__ import annotations

import errno
import posixpath
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from fedrel.corpus.bounded_file import BoundedFile
from fedrel.corpus.prose.paragraphs import Paragraphs
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError

_CHUNK = 2**16  # bytes that the parser is given at a time
_LIST = 4 * 2**20  # bytes of the list of files in an archive
_LARGEST = 2**30  # bytes of a part, unpacked
_GROWTH, _SMALL = 200, 10 * 2**20  # times its packed size, from so many bytes on; XML that people write grows tenfold
_DEEPEST = 1_000  # elements within elements
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # begins .doc files, and documents with a password


class _Target(Protocol):
    """What the parser calls for each tag and each stretch of text."""

    text: Paragraphs

    def start(self, tag: str, attributes: dict[str, str]) -> None: ...
    def end(self, tag: str) -> None: ...
    def data(self, text: str) -> None: ...


def docx_pieces(path: Path, skip: Skipped) -> Iterator[tuple[str, int]]:
    """The text of a Word document, then its footnotes and endnotes; what was deleted in tracked changes is left out.
    UserError if it is damaged, encrypted, or grows beyond all bounds when it is unpacked.
    """
    with _archive(path) as archive:
        main = _main_part(path, archive)
        yield from _texts(path, archive, main, _Word())
        for notes in ("footnotes.xml", "endnotes.xml"):
            if (name := posixpath.join(posixpath.dirname(main), notes)) in archive.namelist():
                yield from _texts(path, archive, name, _Word())


def odt_pieces(path: Path, skip: Skipped) -> Iterator[tuple[str, int]]:
    """The text of an OpenDocument text, footnotes after the paragraph before theirs. UserError as for Word."""
    with _archive(path) as archive:
        if b"encryption-data" in _small(path, archive, "META-INF/manifest.xml"):
            raise UserError(f"{path}: encrypted; save it without a password")
        yield from _texts(path, archive, "content.xml", _OpenText())


# ------------------------------------------------------------------------------------------------ archives


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with path.open("rb") as file:
        if file.read(len(_OLD_OFFICE)) == _OLD_OFFICE:
            raise UserError(f"{path}: encrypted, or an old .doc file; save it as .docx without a password")
    try:
        with BoundedFile(path, _LIST) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except (UserError, MemoryError):
        raise
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # of a parser, not of the system: offsets that lead nowhere
            raise _damaged(path) from None
        raise
    except Exception:  # whatever parsers raise for damaged and hostile archives
        raise _damaged(path) from None


def _damaged(path: Path) -> UserError:
    return UserError(f"{path}: not a whole {path.suffix.lower()} file; it is damaged or cut off: get it again")


def _opened(path: Path, archive: zipfile.ZipFile, name: str) -> zipfile.ZipExtFile:
    """A part of a document, which gives no more bytes than it declares; UserError if that is too many."""
    member = archive.getinfo(name)
    if member.flag_bits & 0x41:
        raise UserError(f"{path}: encrypted; save it without a password")
    size = member.file_size
    if size > _LARGEST or (size > _SMALL and size > _GROWTH * member.compress_size):
        raise UserError(f"{path}: {name} in it has {size >> 20:,} MB when unpacked, as no text has; it is refused")
    part = archive.open(member)
    assert isinstance(part, zipfile.ZipExtFile)
    return part


def _small(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """The beginning of a part that is short in every document; empty if it is missing."""
    if name not in archive.namelist():
        return b""
    with _opened(path, archive, name) as part:
        return part.read(2**20)


def _main_part(path: Path, archive: zipfile.ZipFile) -> str:
    """Which part holds the text: Word itself calls it word/document.xml, or word/document2.xml."""
    from lxml import etree

    raw = _small(path, archive, "_rels/.rels")
    if raw:
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        for relation in etree.fromstring(raw, parser):
            if str(relation.get("Type", "")).endswith("/officeDocument"):
                return posixpath.normpath(str(relation.get("Target", "")).lstrip("/"))
    return "word/document.xml"


def _texts(path: Path, archive: zipfile.ZipFile, name: str, target: _Target) -> Iterator[tuple[str, int]]:
    from lxml import etree

    parser = etree.XMLParser(target=_Checked(path, target), resolve_entities=False, no_network=True, huge_tree=False)
    with _opened(path, archive, name) as part:
        while chunk := part.read(_CHUNK):
            parser.feed(chunk)
            yield target.text.take(), 0
    parser.close()
    target.text.end()
    yield target.text.take(), 0


class _Checked:
    """Hands tags, without their namespaces, and text to a target."""

    def __init__(self, path: Path, target: _Target) -> None:
        self._path, self._target, self._depth = path, target, 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UserError(f"{self._path}: more than {_DEEPEST:,} elements within each other; is the file damaged?")
        self._target.start(tag.rpartition("}")[2], attributes)

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._target.end(tag.rpartition("}")[2])

    def data(self, text: str) -> None:
        self._target.data(text)

    def doctype(self, *names: object) -> None:
        raise UserError(f"{self._path}: a DOCTYPE is in it, which no document has; it is refused")

    def comment(self, text: str) -> None:
        """Comments are no text."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Processing instructions are no text."""

    def close(self) -> None:
        """The parser wants something to return."""


# -------------------------------------------------------------------------------------------- the two formats


class _Word:
    """Text is in <w:t> alone; what was deleted is in <w:delText>. What <mc:Fallback> says, its sibling says too."""

    def __init__(self) -> None:
        self.text = Paragraphs()
        self._in_text = self._hidden = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._hidden or tag == "Fallback":
            self._hidden += 1
        elif tag == "p":
            self.text.begin()
        elif tag == "t":
            self._in_text += 1
        elif tag in ("tab", "ptab"):
            self.text.add(" ")
        elif tag in ("br", "cr"):
            self.text.break_line()
        elif tag == "noBreakHyphen":
            self.text.add("-")
        elif tag == "tr":
            self.text.begin_row()

    def end(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= 1
        elif tag == "p":
            self.text.finish()
        elif tag == "t":
            self._in_text -= 1
        elif tag == "tc":
            self.text.end_cell()
        elif tag == "tr":
            self.text.end_row()

    def data(self, text: str) -> None:
        if self._in_text and not self._hidden:
            self.text.add(text)


class _OpenText:
    """Text is everything within <text:p> and <text:h>, but for comments and what was deleted."""

    _NO_TEXT = frozenset(("tracked-changes", "annotation", "note-citation", "forms", "binary-data", "desc", "title"))

    def __init__(self) -> None:
        self.text = Paragraphs()
        self._paragraphs = self._hidden = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._hidden or tag in self._NO_TEXT:
            self._hidden += 1
        elif tag in ("p", "h"):
            self._paragraphs += 1
            self.text.begin()
        elif tag in ("s", "tab"):
            self.text.add(" ")
        elif tag == "line-break":
            self.text.break_line()
        elif tag == "table-row":
            self.text.begin_row()

    def end(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= 1
        elif tag in ("p", "h"):
            self._paragraphs -= 1
            self.text.finish()
        elif tag == "table-cell":
            self.text.end_cell()
        elif tag == "table-row":
            self.text.end_row()

    def data(self, text: str) -> None:
        if self._paragraphs and not self._hidden:
            self.text.add(text)
