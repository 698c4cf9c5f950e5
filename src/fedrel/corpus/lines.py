"""Rows of a text file with their places: lines, and the objects of a JSON array or of JSON lines.

Whatever a file holds, memory is bounded: a line or an object of more than LONGEST bytes is no row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fedrel.corpus.json_stream import LONGEST, array_items, whole_item
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError

LARGEST = 128 * 2**20  # bytes of a text that has to be in memory whole

Row = TypeVar("Row")


def numbered_lines(path: Path, skip: Skipped | None = None) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, without line ends, numbered from 1. A line that is not UTF-8 or is too long is reported
    to `skip` as a broken row; without one it is a UserError, as is a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(_raw_lines(file), 1):
                where = f"{path}:{number}"
                try:
                    line = _decoded(raw, number, where)
                except UserError as error:
                    if skip is None:
                        raise
                    skip.bad(error, where)
                    continue
                if line.strip():
                    yield number, line
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines as they are; of one that is too long, the first LONGEST + 1 bytes."""
    while raw := file.readline(LONGEST + 1):
        yield raw
        while len(raw) > LONGEST and not raw.endswith(b"\n"):
            raw = file.readline(LONGEST + 1)


def _decoded(raw: bytes, number: int, where: str) -> str:
    if len(raw) > LONGEST:
        raise UserError(
            f"{where}: a line of more than {LONGEST // 2**20} MB; write one document or sentence a line, or cut it"
        )
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UserError(f"{where}: not UTF-8 text; convert the file to UTF-8") from None


def each_row(
    path: Path, skip: Skipped, parse: Callable[[str, str], Row], *, after: int = 0
) -> Iterator[tuple[str, Row]]:
    """What `parse` makes of each line after the one of this number, given its place too, file:line. A line for which it
    raises UserError is a broken row, reported to `skip`.
    """
    for number, line in numbered_lines(path, skip):
        if number <= after:
            continue
        where = f"{path}:{number}"
        try:
            row = parse(line, where)
        except UserError as error:
            skip.bad(error, where)
        else:
            yield where, row


def each_object(path: Path, skip: Skipped, parse: Callable[[dict[str, Any], str], Row]) -> Iterator[tuple[str, Row]]:
    """What `parse` makes of each object of a file, which is a JSON array of objects, has one object a line, or objects
    that each go over several lines, given its place too. An object for which it raises UserError, and what is no
    object, is a broken row, reported to `skip`.
    """
    if is_a_row_a_line(path):
        yield from each_row(path, skip, lambda line, where: parse(json_object(line, where), where))
        return
    for where, found in array_items(path):
        try:
            if isinstance(found, UserError):
                raise found
            if not isinstance(found, dict):
                raise UserError(f"{where}: not a JSON object")
            row = parse(found, where)
        except UserError as error:
            skip.bad(error, where)
        else:
            yield where, row


def first_line(path: Path) -> str:
    """The first line of a file that is not blank; empty where there is none, or none that can be read."""
    try:
        return next(numbered_lines(path, Skipped()), (0, ""))[1]
    except UserError:
        return ""


def is_a_row_a_line(path: Path) -> bool:
    """Whether a file is neither a JSON array nor begins with an object that goes over several lines. (Where an object
    is cut off at the end of its line, the next line begins with one.)
    """
    if begins_with(path, b"["):
        return False
    if not begins_with(path, b"{"):
        return True
    first, second = (line for _, line in [*islice(numbered_lines(path, Skipped()), 2), (0, "{"), (0, "{")][:2])
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return second.lstrip().startswith("{")
    return True


def begins_with(path: Path, start: bytes) -> bool:
    """Whether the first character of a file that is no white space is this one."""
    try:
        with path.open("rb") as file:
            return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(start)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def json_object(line: str, where: str) -> dict[str, Any]:
    """The JSON object in a line; UserError if there is none, or if a string in it cannot be written as UTF-8."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError(f"{where}: not a JSON object (is the file cut off?)") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: not a JSON object")
    return whole_item(row, line, where)  # type: ignore[no-any-return]
