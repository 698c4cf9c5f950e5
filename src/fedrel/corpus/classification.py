"""Texts with one label each: text and label between tabs, or a `.tab` file with three lines before its rows
(the names of its columns, their types, and which of them is the class).
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus import LabelledText, Skipped
from fedrel.corpus.columns import split_columns
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.tokens import tokenize
from fedrel.errors import UserError

TEXT_NAMES = ("text", "sentence")  # of the first column, where a headline names it


def read(path: Path, skip: Skipped) -> Iterator[LabelledText]:
    return (text for _, text in rows(path, skip))


def rows(path: Path, skip: Skipped) -> Iterator[tuple[str, LabelledText]]:
    """Every text with its place, file:line."""
    lines = numbered_lines(path)
    names: tuple[str, ...] = ("text", "label")
    text_column, label_column = 0, 1
    if path.suffix == ".tab":
        names, text_column, label_column = _tab_columns(list(itertools.islice(lines, 3)), path)
    for number, line in lines:
        where = f"{path}:{number}"
        if "\0" in line:
            raise UserError(f"{where}: not UTF-8 text (is it UTF-16?); convert the file to UTF-8")
        if number == 1 and is_headline(line):
            continue
        columns = split_columns(line, names, where)
        label = columns[label_column].strip()
        if not label:
            raise UserError(f"{where}: the label is missing")
        tokens = tokenize(columns[text_column])[0]
        if tokens:
            yield where, LabelledText(tokens, label)
        else:
            skip(where, "the text is empty")


def is_headline(line: str) -> bool:
    names = [column.strip().lower() for column in line.split("\t")]
    return len(names) == 2 and names[0] in TEXT_NAMES and names[1] == "label"


def _tab_columns(header: list[tuple[int, str]], path: Path) -> tuple[tuple[str, ...], int, int]:
    """The columns' names, and which of them hold the text and the label."""
    if [number for number, _ in header] != [1, 2, 3]:
        raise UserError(f"{path}: a .tab file begins with three lines: names of the columns, their types, their roles")
    names, types, roles = ([column.strip() for column in line.split("\t")] for _, line in header)
    texts = [place for place, type_ in enumerate(types[: len(names)]) if type_ == "string"]
    labels = [place for place, role in enumerate(roles[: len(names)]) if role == "class"]
    if len(texts) != 1 or len(labels) != 1 or texts == labels:
        raise UserError(
            f'{path}:1: one column must be of type "string" (line 2), the text, and another "class" (line 3), its label'
        )
    return tuple(names), texts[0], labels[0]
