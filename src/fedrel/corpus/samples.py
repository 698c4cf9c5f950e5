"""The beginning of a file, by which its format is recognised."""

from __future__ import annotations

import codecs
import io
from pathlib import Path

from fedrel.corpus.format import Sample
from fedrel.corpus.json_stream import LONGEST
from fedrel.errors import UserError

_LINES = 5  # that formats are shown
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BEGINNING = 4 * 2**20  # bytes; a whole JSON array may be in one line


def sample_of(path: Path) -> Sample | None:
    """The first lines of a file, None if it is empty. UserError if it cannot be read, or if most of them are not UTF-8:
    a single one is a broken row, wherever it stands.
    """
    found = _beginning(path, _BEGINNING)
    return _beginning(path, LONGEST) if found and found.ends_in_the_first_object else found


def _beginning(path: Path, size: int) -> Sample | None:
    try:
        with path.open("rb") as file:
            raw = file.read(size)
            cut = bool(file.read(1))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    lines: list[str] = []
    broken: list[int] = []
    for number, row in enumerate(io.BytesIO(raw), 1):
        decoder = codecs.getincrementaldecoder("utf-8-sig" if number == 1 else "utf-8")()
        try:
            line = decoder.decode(row, final=row.endswith(b"\n") or not cut)
        except UnicodeDecodeError:
            broken.append(number)
            line = ""
        if line.strip():
            lines.append(line.rstrip("\r\n"))
        if len(lines) == _LINES or len(broken) == _LINES:
            break
    if len(broken) > len(lines) // 2 or (broken and raw.startswith(_UTF_16)):
        raise UserError(f"{path}:{broken[0]}: not UTF-8 text; convert the file to UTF-8")
    if not lines:
        return None
    text = raw.decode("utf-8-sig", "replace")
    if broken:  # formats are shown what can be read
        text = "\n".join(line for line in text.split("\n") if "\ufffd" not in line)
    return Sample(path, lines, text, is_cut=cut)
