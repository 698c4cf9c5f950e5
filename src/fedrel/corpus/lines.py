"""Lines of a text file with their numbers; what is not UTF-8, or not JSON where it should be, is refused by line."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.errors import UserError

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, without line ends, numbered from 1. UserError if the file cannot be read."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    raise UserError(f"{path}:{number}: not UTF-8 text; convert the file to UTF-8") from None
                if line.strip():
                    yield number, line
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def json_object(line: str, where: str) -> dict[str, Any]:
    """The JSON object in a line; UserError if there is none, or if a string in it cannot be written as UTF-8."""
    try:
        row = json.loads(line)
        if _SURROGATE.search(line):
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UserError(rf"{where}: half a character (a \ud800 … \udfff without its other half)") from None
    except (ValueError, RecursionError):
        raise UserError(f"{where}: not a JSON object (is the file cut off?)") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: not a JSON object")
    return row
