"""Texts with one label each: text and label between tabs, perhaps below a header row, or a `.tab` file with three
header rows (the names of its columns, their types, and which of them is the class).

    a fine film , truly	1
    not so .	0
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedrel.corpus.columns import split_columns
from fedrel.corpus.format import Format, Sample, has_extension
from fedrel.corpus.lines import each_row, numbered_lines
from fedrel.corpus.tokens import tokenize
from fedrel.corpus.types import Instance, LabelledText, Skipped
from fedrel.errors import UserError

_TEXT_NAMES = ("text", "sentence")  # of the first column, in a header row
_TAB_HEADER = 3  # header rows of a .tab file
_LONGEST_LABEL = 60  # characters, where a label is recognised by its shape


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, LabelledText]]:
    """Every text with its place, file:line. A text without a word is skipped, and broken rows are counted."""
    names: tuple[str, ...] = ("text", "label")
    text_column, label_column = 0, 1
    if path.suffix == ".tab":
        names, text_column, label_column = _tab_columns(list(itertools.islice(numbered_lines(path), _TAB_HEADER)), path)
        header = _TAB_HEADER
    else:
        number, first = next(numbered_lines(path, Skipped()), (0, ""))
        if _has_no_labels(first):
            raise UserError(f"{path}:{number}: a file without labels; move it away, or add a column with them")
        header = int(number == 1 and _is_header(first))

    def labelled(line: str, where: str) -> LabelledText | None:
        columns = split_columns(line, names, where)
        label = columns[label_column].strip()
        if not label:
            raise UserError(f"{where}: the label is missing; write it after the text and a tab, or remove the row")
        tokens = tokenize(columns[text_column])[0]
        if not tokens:
            skip(where, "the text is empty")
        return LabelledText(tokens, label) if tokens else None

    yield from ((where, it) for where, it in each_row(path, skip, labelled, after=header) if it)


def lines(texts: Iterable[Instance]) -> Iterator[str]:
    """A header row, and a line for each text with its relation as its label. `read` reads back the same tokens, since
    none holds a space.
    """
    yield "text\tlabel\n"
    for text in texts:
        yield f"{' '.join(text.tokens)}\t{text.relation}\n"


def _has_no_labels(line: str) -> bool:
    """Whether this is the header row of a file without labels, such as SST-2's test: index and sentence."""
    names = [column.strip().lower() for column in line.split("\t")]
    return len(names) == 2 and names[0] in ("index", "id") and names[1] in _TEXT_NAMES


def _is_unlabelled(path: Path) -> bool:
    return _has_no_labels(next(numbered_lines(path, Skipped()), (0, ""))[1])


def _is_header(line: str) -> bool:
    names = [column.strip().lower() for column in line.split("\t")]
    return len(names) == 2 and names[0] in _TEXT_NAMES and names[1] == "label"


def _tab_columns(header: list[tuple[int, str]], path: Path) -> tuple[tuple[str, ...], int, int]:
    """The columns' names, and the positions of the text and of the label among them."""
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


def _by_content(sample: Sample) -> str | None:
    rows = [line.split("\t") for line in sample.lines]
    shaped = all(len(row) == 2 and len(row[1]) <= _LONGEST_LABEL and " " not in row[1].strip() for row in rows)
    words = shaped and any(" " in row[0].strip() for row in rows)  # names with numbers are no texts with labels
    return "two columns, a text and a label" if words or _is_header(sample.lines[0]) else None


def _header_rows(path: Path, first: str) -> int:
    return _TAB_HEADER if path.suffix == ".tab" else int(_is_header(first))


FORMAT = Format(
    what="text and label between tabs, or a .tab file",
    texts=read,
    gold=True,
    by_name=has_extension(".tab"),
    by_content=_by_content,
    general=True,
    columns=tuple(frozenset((name, "label")) for name in _TEXT_NAMES),
    extensions=(".tsv", ".txt", ".tab"),
    header_rows=_header_rows,
    unlabelled=_is_unlabelled,
)
