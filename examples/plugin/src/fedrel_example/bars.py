"""Columns between bars, as somebody else's package would add a format: all that fedrel has to know of it, in one file.

    Ann|per:employee_of|Mill|Then Ann ran the Mill .
    Bo|-|Bonn|Then Bo saw Bonn .

Head, relation (- for none), tail, and the sentence with a blank between two words. A name means the same entity in
every row, so it is an id; if it did not, the id would be left empty.
"""

from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus import NA, Format, Instance, Mention, Sample, Skipped, each_row, no_header
from fedrel.errors import UserError


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line. A row for which `_instance` raises is counted as broken, with its
    message, and the rest is read.
    """
    yield from each_row(path, skip, _instance)


def _instance(line: str, where: str) -> Instance:
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) != 4 or not all(cells):
        raise UserError(
            f"{where}: not four columns (head, relation, tail, sentence); write - where there is no relation"
        )
    head, relation, tail, sentence = cells
    tokens = sentence.split()
    relation = NA if relation == "-" else relation
    return Instance(tokens, _mention(head, tokens, where), _mention(tail, tokens, where), relation)


def _mention(name: str, tokens: list[str], where: str) -> Mention:
    if name not in tokens:
        raise UserError(f'{where}: "{name}" is not in the sentence; write it as the sentence does')
    return Mention(name, tokens.index(name), tokens.index(name) + 1)


def _by_content(sample: Sample) -> str | None:
    return "four columns between bars" if sample.lines[0].count("|") == 3 else None


FORMAT = Format(
    what="head, relation, tail and sentence between bars",
    sentences=read,
    gold=True,
    by_content=_by_content,
    extensions=(".psv",),
    header_rows=no_header,
)
