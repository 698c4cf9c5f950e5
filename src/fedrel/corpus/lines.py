"""Lines of a text file with their numbers; a file that is no UTF-8 text is refused with the line."""

from collections.abc import Iterator
from pathlib import Path

from fedrel.errors import UserError


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, without their ends."""
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
