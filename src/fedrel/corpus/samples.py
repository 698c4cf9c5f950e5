"""The beginning of a file, by which its format is recognised."""

from __future__ import annotations

import codecs
import io
from pathlib import Path

from fedrel.corpus.format import Sample
from fedrel.errors import UserError

_LINES = 5  # that formats are shown
_BEGINNING = 4 * 2**20  # bytes; a whole JSON array may be in one line


def sample_of(path: Path) -> Sample | None:
    """The first lines of a file, None if it is empty. UserError if it cannot be read or they are not UTF-8."""
    try:
        with path.open("rb") as file:
            raw = file.read(_BEGINNING)
            cut = bool(file.read(1))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    lines: list[str] = []
    for number, row in enumerate(io.BytesIO(raw), 1):
        decoder = codecs.getincrementaldecoder("utf-8-sig" if number == 1 else "utf-8")()
        try:
            line = decoder.decode(row, final=row.endswith(b"\n") or not cut)
        except UnicodeDecodeError:
            raise UserError(f"{path}:{number}: not UTF-8 text; convert the file to UTF-8") from None
        if line.strip():
            lines.append(line.rstrip("\r\n"))
        if len(lines) == _LINES:
            break
    return Sample(path, lines, raw.decode("utf-8-sig", "replace")) if lines else None
