"""Items of large JSON files one after another: of an array, of objects that follow each other, or of the lists that one
object has by its keys. Only a piece of the file is in memory, and an item of more than LONGEST bytes is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from fedrel.errors import UserError

LONGEST = 16 * 2**20  # bytes of a line, or of an item in a JSON array
_CHUNK = 2**20  # characters read at a time
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BETWEEN = re.compile(r"[\s,]*")


class Member(NamedTuple):
    """An item of a list that a JSON object has under a key, or, with the number 0, a value that is no list."""

    key: str
    number: int  # among the items of the list, from 1
    line: int
    item: Any  # UserError for one that cannot be written as UTF-8


def array_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Every item of a file that is a JSON array, or of JSON objects one after another, with its place (file:line, row
    n). An item that cannot be written as UTF-8 is a UserError in its place; one is raised for a file that is damaged,
    or that holds an item of more than LONGEST bytes.
    """
    with _opened(path) as text:
        is_array = text.takes("[")
        if not is_array and not text.begins_with("{"):
            raise UserError(f"{path}: not a JSON array, which begins with [")
        count = 0
        while not (text.takes("]") if is_array else text.is_over()):
            count += 1
            where = f"{path}:{text.line}, row {count}"
            yield where, text.value(where, is_last=not is_array)


def members(path: Path) -> Iterator[Member]:
    """What a file that is one JSON object has by its keys: of a list, every item. UserError for a file that is damaged,
    or no object, or that holds an item of more than LONGEST bytes.
    """
    with _opened(path) as text:
        if not text.takes("{"):
            raise UserError(f"{path}: not a JSON object, which begins with {{")
        while not text.takes("}"):
            key = text.value(f"{path}:{text.line}")
            if not isinstance(key, str) or not text.takes(":"):
                raise text.damaged()
            if not text.takes("["):
                line = text.line
                yield Member(key, 0, line, text.value(f"{path}:{line}"))
                continue
            number = 0
            while not text.takes("]"):
                number += 1
                line = text.line
                yield Member(key, number, line, text.value(f"{path}:{line}"))
        if not text.is_over():
            raise text.damaged()


class _Text:
    """What of a file is in memory, and the place that was reached in it."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._text, self._place, self._ended = "", 0, False
        self.line = 1

    def begins_with(self, mark: str) -> bool:
        """Whether this is next, after white space and commas."""
        self._skip()
        return self._text.startswith(mark, self._place)

    def takes(self, mark: str) -> bool:
        """Goes past this mark, if it is next."""
        found = self.begins_with(mark)
        self._place += len(mark) * found
        return found

    def is_over(self) -> bool:
        """Whether nothing follows any more."""
        self._skip()
        return self._place == len(self._text)

    def value(self, where: str, *, is_last: bool = False) -> Any:
        """The next value; UserError in its place if it cannot be written as UTF-8. With `is_last`, an object at the end
        of the file is whole.
        """
        self._skip()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self._place)
            except json.JSONDecodeError:
                found, end = None, len(self._text)
            except ValueError:  # Python refuses to read a number of thousands of digits
                raise UserError(
                    f"{self._path}:{self.line}: a number of too many digits; is the file damaged?"
                ) from None
            except RecursionError:
                raise UserError(
                    f"{self._path}:{self.line}: brackets within brackets, too deep to read; is the file damaged?"
                ) from None
            if end < len(self._text) or (is_last and isinstance(found, dict)):  # else a number may go on
                break
            if self._ended:
                raise self.damaged()
            if len(self._text) - self._place > LONGEST:
                raise UserError(
                    f"{self._path}:{self.line}: damaged JSON, or one item of more than {LONGEST // 2**20} MB; cut it, "
                    "or write one object a line"
                )
            self._read(max(_CHUNK, len(self._text) - self._place))
        raw = self._text[self._place : end]
        self._place = end
        self.line += raw.count("\n")
        try:
            return whole_item(found, raw, where)
        except UserError as error:
            return error

    def damaged(self) -> UserError:
        """For what is no JSON at the place that was reached."""
        return UserError(f"{self._path}:{self.line}: not JSON from here on; is the file damaged or cut off?")

    def _skip(self) -> None:
        """Goes past white space and commas."""
        while True:
            match = _BETWEEN.match(self._text, self._place)
            assert match
            self.line += self._text.count("\n", self._place, match.end())
            self._place = match.end()
            if self._place < len(self._text) or self._ended:
                return
            self._read(_CHUNK)

    def _read(self, characters: int) -> None:
        more = self._file.read(characters)
        self._text, self._place, self._ended = self._text[self._place :] + more, 0, not more


_DECODER = json.JSONDecoder()


@contextmanager
def _opened(path: Path) -> Iterator[_Text]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield _Text(path, file)
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text; convert the file to UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def whole_item(value: Any, text: str, where: str) -> Any:
    """The value of this JSON; UserError if a string in it has half a character, which cannot be written as UTF-8."""
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UserError(rf"{where}: half a character (a \ud800 … \udfff without its other half)") from None
    return value
