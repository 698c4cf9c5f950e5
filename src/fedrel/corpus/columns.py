"""Rows of tab-separated files: the right number of columns, and whole numbers in them."""

import re

from fedrel.errors import UserError

_DIGITS = re.compile(r"[0-9]{1,9}")


def split_columns(line: str, names: tuple[str, ...], where: str) -> list[str]:
    """The cells of a tab-separated row, one for each name; UserError if it has more or fewer, or a NUL."""
    if "\0" in line:
        raise UserError(f"{where}: not UTF-8 text (is it UTF-16?); convert the file to UTF-8")
    columns = line.split("\t")
    if len(columns) != len(names):
        raise UserError(
            f"{where}: {len(columns)} column{'s' if len(columns) != 1 else ''} where {len(names)} are needed "
            f"({', '.join(names)}); is the row cut off, or a tab inside a text?"
        )
    return columns


def whole_number(text: str, name: str, where: str) -> int:
    """A number of at most nine digits, not negative; UserError, with the name of its column, for anything else."""
    if not _DIGITS.fullmatch(text.strip()):
        raise UserError(f'{where}: {name} is "{shortened(text)}"; it must be a whole number')
    return int(text)


def shortened(text: str, longest: int = 40) -> str:
    """A text to quote in a message: on one line, and cut to so many characters."""
    plain = " ".join(text.split())
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"
