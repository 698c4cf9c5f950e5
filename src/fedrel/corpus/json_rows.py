"""What the readers of JSON share: how files are recognised and found, and what a row must keep to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus.checks import each_file
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Reader, Sample
from fedrel.corpus.lines import each_object
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

EXTENSIONS = (".json", ".jsonl")
_KEY = re.compile(r'"(\w+)"\s*:')
_LARGEST = 10**9  # of positions in a text

Parse = Callable[[dict[str, Any], str, str, Skipped], Document | None]


def reader(parse: Parse) -> Reader[Document]:
    """A reader of files and folders. `parse` makes a document of an object, given also a name for people, the place for
    messages and what it reports to; None if it left the object out.
    """

    def read(path: Path, skip: Skipped) -> Iterator[Document]:
        def parse_row(row: dict[str, Any], where: str) -> Document | None:
            return parse(row, path.name + where.removeprefix(str(path)), where, skip)

        for _, document in each_object(path, skip, parse_row):
            if document is not None:
                yield document

    return each_file(read, *EXTENSIONS)


def json_files(folder: Path) -> list[Path]:
    """`candidates` of a format whose files lie beside lists of labels or words, which are JSON too: only those that are
    named after a split are data.
    """
    return sorted(it for it in folder.iterdir() if it.suffix.lower() in EXTENSIONS and it.is_file())


def shown_keys(sample: Sample) -> set[str]:
    """All keys in the first lines of a JSON array or of JSON lines, which may be cut off."""
    if not sample.lines[0].lstrip().startswith(("[", "{")):
        return set()
    return set(_KEY.findall("\n".join(sample.lines)))


def list_in(row: dict[str, Any], key: str, where: str) -> list[Any]:
    """The list of this key; UserError if there is none."""
    found = row.get(key)
    if not isinstance(found, list):
        raise UserError(f'{where}: "{key}" is missing or no list')
    return found


def tokens_in(value: Any, key: str, where: str) -> list[str]:
    """The value, if it is a list of strings; UserError if not."""
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        raise UserError(f'{where}: "{key}" must hold tokens, each of them text')
    return value


def text_of(value: Any, what: str, where: str) -> str:
    """The value, if it is text and not blank, as it is; UserError, which says what is missing, if not."""
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where}: {what} is missing or no text")
    return value


def type_of(value: Any) -> str:
    """The type of an entity; whatever is no text is none."""
    return value if isinstance(value, str) else ""


def position(value: Any, what: str, where: str) -> int:
    """A number that counts tokens, sentences or entities; UserError if the value is none."""
    if type(value) is not int or not -_LARGEST < value < _LARGEST:
        said = "" if isinstance(value, list | dict) else f', not "{shortened(str(value))}"'
        raise UserError(f"{where}: {what} must be a whole number{said}")
    return value


def entity_number(value: Any, entities: int, what: str, key: str, where: str) -> int:
    """The number of one of so many entities, counted from 0, which `what` has under this key; UserError if there is
    none of that number.
    """
    number = position(value, f'{what}: "{key}"', where)
    if not 0 <= number < entities:
        raise UserError(f"{where}: {what} names the entity {number} of {entities}; they are counted from 0")
    return number


def name_of(value: Any, default: str) -> str:
    """What a document is called; it may be written as a number."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    return str(value) if type(value) is int and -_LARGEST < value < _LARGEST else default
