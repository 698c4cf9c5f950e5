"""Small PDF, Word and OpenDocument files for tests, written by hand, so that every byte of them is known."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from xml.sax.saxutils import escape

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_OPEN = "urn:oasis:names:tc:opendocument:xmlns"


def pdf(pages: Sequence[Sequence[str] | None], *, packed: bool = True, contents: bytes | None = None) -> bytes:
    """A PDF with these lines on its pages, top down; None is a page with a picture and no text. With `contents`, every
    page has these instead.
    """
    objects: dict[int, bytes] = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        4: _stream(
            b"\x00" * 12,
            b"/Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceRGB /BitsPerComponent 8",
        ),
    }
    kids = []
    for lines in pages:
        number = len(objects) + 2
        kids.append(b"%d 0 R" % number)
        drawn = b"q 100 0 0 100 0 0 cm /Im1 Do Q" if lines is None else _drawn(lines)
        drawn = drawn if contents is None else contents
        picture = b" /XObject << /Im1 4 0 R >>" if lines is None else b""
        objects[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >>%s >> >>" % (number + 1, picture)
        )
        objects[number + 1] = _stream(zlib.compress(drawn), b"/Filter /FlateDecode") if packed else _stream(drawn)
    objects[2] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return _assembled(objects)


def _drawn(lines: Sequence[str]) -> bytes:
    shown = (
        line.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)") for line in lines
    )
    return b"BT /F1 12 Tf 14 TL 72 720 Td " + b" T* ".join(b"(%s) Tj" % line for line in shown) + b" ET"


def _stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def _assembled(objects: dict[int, bytes], trailer: bytes = b"") -> bytes:
    file = io.BytesIO()
    file.write(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = {}
    for number, content in sorted(objects.items()):
        places[number] = file.tell()
        file.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    start = file.tell()
    file.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    for number in sorted(objects):
        file.write(b"%010d 00000 n \n" % places[number])
    file.write(b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, trailer))
    file.write(b"startxref\n%d\n%%%%EOF\n" % start)
    return file.getvalue()


def zipped(parts: dict[str, str | bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def docx(*paragraphs: str, body: str = "", notes: str = "", main: str = "word/document.xml") -> bytes:
    """A Word document with these paragraphs, then with `body`, XML; `notes` is the XML of its footnotes."""
    inside = "".join(f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>" for text in paragraphs) + body
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{_RELATIONS}/officeDocument" Target="{main}"/></Relationships>',
        main: f'<w:document xmlns:w="{_WORD}" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<w:body>{inside}</w:body></w:document>",
    }
    if notes:
        parts["word/footnotes.xml"] = f'<w:footnotes xmlns:w="{_WORD}">{notes}</w:footnotes>'
    return zipped(parts)


def odt(*paragraphs: str, body: str = "") -> bytes:
    """An OpenDocument text with these paragraphs, then with `body`, XML."""
    inside = "".join(f"<text:p>{escape(text)}</text:p>" for text in paragraphs) + body
    names = " ".join(f'xmlns:{name}="{_OPEN}:{name}:1.0"' for name in ("office", "text", "table"))
    content = f"<office:document-content {names}><office:body><office:text>{inside}</office:text></office:body>"
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": content + "</office:document-content>",
        }
    )
