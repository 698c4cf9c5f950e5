"""Rows of a text file with their places: lines, and the objects of a JSON array or of JSON lines.

Whatever a file holds, memory is bounded: a line or an object of more than LONGEST bytes is no row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fedrel.corpus.types import Skipped
from fedrel.errors import UserError

LONGEST = 16 * 2**20  # bytes of a line, or of an object in a JSON array
LARGEST = 128 * 2**20  # bytes of a JSON file that has to be in memory whole
_CHUNK = 2**20  # bytes read at a time from a JSON array
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BETWEEN = re.compile(r"[\s,]*")

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


def array_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Every item of a file that is a JSON array, or of JSON objects one after another, with its place (file:line, row
    n); only a piece of the file is in memory. An item that cannot be written as UTF-8 is a UserError in its place; one
    is raised for a file that is damaged, or that holds an item of more than LONGEST bytes.
    """
    decoder = json.JSONDecoder()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text, ended = file.read(_CHUNK), False
            place = _blank_until(text, 0)
            line, count = 1 + text.count("\n", 0, place), 0
            if not text.startswith(("[", "{"), place):
                raise UserError(f"{path}: not a JSON array, which begins with [")
            is_array = text.startswith("[", place)
            place += is_array
            while True:
                start = _blank_until(text, place)
                line += text.count("\n", place, start)
                place = start
                if text.startswith("]", place) if is_array else ended and place == len(text):
                    return
                try:
                    found, end = decoder.raw_decode(text, place)
                except ValueError:
                    found, end = None, len(text)
                except RecursionError:
                    raise UserError(
                        f"{path}:{line}: brackets within brackets, too deep to read; is the file damaged?"
                    ) from None
                if end < len(text) or (isinstance(found, dict) and not is_array):  # else a number may go on
                    count += 1
                    where = f"{path}:{line}, row {count}"
                    try:
                        item = _whole(found, text[place:end], where)
                    except UserError as error:
                        item = error
                    yield where, item
                    line += text.count("\n", place, end)
                    place = end
                elif ended:
                    raise UserError(f"{path}:{line}: not JSON from here on; is the file damaged or cut off?")
                elif len(text) - place > LONGEST:
                    raise UserError(
                        f"{path}:{line}: damaged JSON, or one item of more than {LONGEST // 2**20} MB; cut it, or "
                        "write one object a line"
                    )
                else:
                    more = file.read(max(_CHUNK, len(text) - place))
                    text, place, ended = text[place:] + more, 0, not more
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text; convert the file to UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def _blank_until(text: str, place: int) -> int:
    """The next place that is neither white space nor a comma."""
    match = _BETWEEN.match(text, place)
    assert match
    return match.end()


def json_file(path: Path) -> Any:
    """The value of a JSON file that is neither an array nor JSON lines, so it is read whole. UserError if it is
    damaged, too large, or nested too deeply.
    """
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise UserError(
                f"{path}: {size >> 20:,} MB of JSON in one value; at most {LARGEST >> 20} MB are read: cut it"
            )
        text = path.read_bytes().decode("utf-8-sig")
        return _whole(json.loads(text), text, str(path))
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text; convert the file to UTF-8") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON ({error.msg}); is the file damaged or cut off?") from None
    except ValueError:  # Python refuses to read a number of thousands of digits
        raise UserError(f"{path}: a number of too many digits; is the file damaged?") from None
    except RecursionError:
        raise UserError(f"{path}: brackets within brackets, too deep to read; is the file damaged?") from None
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
    return _whole(row, line, where)  # type: ignore[no-any-return]


def _whole(value: Any, text: str, where: str) -> Any:
    """The value, unless a string in it has half a character, which cannot be written as UTF-8."""
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UserError(rf"{where}: half a character (a \ud800 … \udfff without its other half)") from None
    return value
