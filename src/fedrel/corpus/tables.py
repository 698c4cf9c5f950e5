"""A table, CSV or TSV, with a header row, a text column and perhaps an id column.

    id,text
    n1,"Aspirin eases pain, mostly."

The text column is called text, sentence, body, abstract, content or note (the first of these that there is), or
is the only column with one of these words in its name. Without an id column (id, doc_id or document) a row
is called after its file and line. Columns of .tsv files are separated by tabs, those of others by commas,
semicolons or tabs, whichever the first line has most of. Other columns are ignored. After a row that is broken,
such as one with a quote that is never closed, reading goes on with the next line.
"""

import csv
import io
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from fedrel.corpus.checks import EMPTY, each_file, opened
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.looks import label_names, within
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

TEXT = ("text", "sentence", "body", "abstract", "content", "note")
ID = ("id", "doc_id", "document")
LONGEST_CELL = 16_000_000  # characters; the csv module's own limit of 131,072 is less than many a report
_WORDS = re.compile(rf"(?<![^\W_])(?:{'|'.join(TEXT)})(?![^\W_])")  # note_text, Abstract (English)
_SHOWN = 20  # columns that a message lists
_LONGEST_NAME, _MOST_WORDS = 60, 3  # characters and words of the name of a column, where a header row is recognised
_HALF = re.compile("[\ud800-\udfff]")  # stands for what is not UTF-8


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """A document for each row of one file. Rows without text are skipped, and broken rows are counted."""
    rows = _rows(path, skip)
    line, header = next(rows, (1, []))
    text_at, id_at = _columns(header, f"{path}:{line}")
    for line, cells in rows:
        where = f"{path}:{line}"
        if len(cells) != len(header):
            cell = "cell" if len(cells) == 1 else "cells"
            error = f"{where}: {len(cells)} {cell} where the header has {len(header)} columns; mend the row"
            skip.bad(UserError(error), where)
            continue
        name = cells[id_at].strip() if id_at is not None else ""
        if cells[text_at].strip():
            yield Document(name or f"{path.name}:{line}", cells[text_at], where=where)
        else:
            skip(where, EMPTY)


def _columns(header: list[str], where: str) -> tuple[int, int | None]:
    """The positions of the text and of the id, if there is one. UserError unless exactly one column can be the text."""
    names = [cell.strip().casefold() for cell in header]
    exact = next((name for name in TEXT if name in names), None)
    fitting = [at for at, name in enumerate(names) if (name == exact if exact else _WORDS.search(name))]
    if len(fitting) != 1:
        there = ", ".join(shortened(cell) for cell in header[:_SHOWN]) + (", …" if len(header) > _SHOWN else "")
        fault = "several columns could be the text" if fitting else "no column is the text"
        raise UserError(f'{where}: {fault}; name one of them "text" (the columns: {there or "none"})')
    return fitting[0], next((names.index(name) for name in ID if name in names), None)


class _Lines(Iterator[str]):
    """The lines of a file, of which those of a broken row, but for its first, are read once more."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self.file, self.path = file, path
        self.number = 0  # of the line that was read last
        self.row: list[str] = []  # lines since the row began
        self.too_long = False  # the last one, of which only a piece was read
        self._again: deque[str] = deque()

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else self.file.readline(LONGEST_CELL + 1)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) > LONGEST_CELL:
            self.too_long = True
            raise UserError(f"{self.path}:{self.number}: a line of more than {LONGEST_CELL:,} characters; shorten it")
        self.row.append(line)
        return line

    def after_first(self) -> None:
        """The line after the one that the row begins with is the next one again."""
        self.number -= len(self.row[1:])
        self._again.extendleft(reversed(self.row[1:]))


def _rows(path: Path, skip: Skipped) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, and the line that each begins in. A broken one is counted; but if it is the first,
    the header, it is raised.
    """
    with opened(path, errors="surrogateescape") as file:
        first = file.readline(LONGEST_CELL)
        delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else max(",;\t", key=first.count)
        file.seek(0)
        lines, header = _Lines(file, path), True
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        while True:
            number = lines.number + 1
            where = f"{path}:{number}"
            lines.row.clear()
            try:
                cells = _next(reader, where)
                _check_characters(lines.row, where)
            except UserError as error:
                if header or lines.too_long:
                    raise
                skip.bad(error, where)
                lines.after_first()
                continue
            if cells is None:
                return
            if cells and not (len(cells) == 1 and cells[0].isspace()):
                yield number, cells
                header = False


def _next(reader: Iterator[list[str]], where: str) -> list[str] | None:
    usual = csv.field_size_limit(LONGEST_CELL)  # of the whole process, so only for this row
    try:
        return next(reader, None)
    except csv.Error as error:
        raise UserError(f"{where}: {_sentence(str(error))}") from None
    finally:
        csv.field_size_limit(usual)


def _check_characters(lines: list[str], where: str) -> None:
    if any(_HALF.search(line) for line in lines):
        raise UserError(f"{where}: not UTF-8 text; convert the file to UTF-8")
    if any("\0" in line for line in lines):
        raise UserError(f"{where}: a NUL character; the file is damaged, or must be saved as UTF-8")


def _sentence(error: str) -> str:
    if "unexpected end" in error:
        return 'a quote is opened in this row and never closed; close it, or write a quote within a cell as ""'
    if "field limit" in error:
        return f"a cell of more than {LONGEST_CELL:,} characters (is a quote never closed?); close or shorten it"
    if "expected after" in error:
        return 'a quote stands alone within a quoted cell; write it twice ("")'
    return f"not a row of a table ({error})"


def _by_content(sample: Sample) -> str | None:
    if len(sample.columns) > 1 and _is_table(sample) and (column := _text_column(sample, "\t")):
        return f'a table between tabs with the column "{column}"'
    if sample.suffix == ".csv" and (column := _text_column(sample, max(",;", key=sample.lines[0].count))):
        return f'a table between commas with the column "{column}"'
    return None


def _is_table(sample: Sample) -> bool:
    """Prose may have a tab in its first line, too, where the extension does not tell."""
    if sample.suffix in FORMAT.extensions:
        return True
    return len(sample.lines) > 1 and len({line.count("\t") for line in sample.lines}) == 1


def _text_column(sample: Sample, delimiter: str) -> str | None:
    """None where the first line is no header row, and where other columns label the texts: the labels would be lost."""
    names, *rows = ([cell.strip() for cell in row] for row in cells(sample, delimiter))
    if label_names(names) or not all(map(_is_name, names)):
        return None
    exact = (name for name in names if name.casefold() in TEXT)
    near = (name for name in names if _WORDS.search(name.casefold()) and len(name.split()) <= _MOST_WORDS)
    column = next(exact, None) or next(near, None)
    if column is None or any(within(dict(zip(names, row, strict=False)), row[names.index(column)]) for row in rows):
        return None
    return column


def cells(sample: Sample, delimiter: str) -> list[list[str]]:
    """The first lines of a file as rows, the first and those with as many cells, as far as they can be read."""
    found: list[list[str]] = []
    with suppress(csv.Error):
        found.extend(csv.reader(io.StringIO("\n".join(sample.lines), newline=""), delimiter=delimiter))
    return [found[0], *(row for row in found[1:] if len(row) == len(found[0]))] if found else [[]]


def _is_name(cell: str) -> bool:
    """Whether a cell may be the name of a column: no sentence, and no number."""
    return 0 < len(cell) <= _LONGEST_NAME and cell[-1] not in ".!?" and re.search(r"[^\W\d_]", cell) is not None


FORMAT = Format(
    what="CSV or TSV with a header row and a column of texts",
    documents=each_file(read, ".csv", ".tsv"),
    by_content=_by_content,
    general=True,
    columns=tuple(frozenset((name,)) for name in TEXT),
    extensions=(".csv", ".tsv"),
)
