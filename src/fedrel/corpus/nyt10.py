"""The original NYT10 format: head id, tail id, head name, tail name, relation, sentence, ###END###, between tabs.

The sentence is already split into tokens; an entity's name is joined with underscores.
"""

from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.format import Format, Sample, no_header
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.types import Instance, Mention, Skipped
from fedrel.errors import UserError

_END = "###END###"


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line. None is skipped."""
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        yield where, _instance(line, where)


def _instance(line: str, where: str) -> Instance:
    columns = line.split("\t")
    if len(columns) < 6:
        raise UserError(f"{where}: {len(columns)} columns where 6 are needed (is the file cut off?)")
    head_id, tail_id, head_name, tail_name, relation = (column.strip() for column in columns[:5])
    sentence = " ".join(columns[5:])
    if _END not in sentence:
        raise UserError(f"{where}: the sentence does not end with {_END} (is the file cut off?)")
    tokens = sentence.replace(_END, " ").split()
    if not (head_id and tail_id and head_name and tail_name and relation):
        raise UserError(f"{where}: an entity or the relation has no name")
    head, tail = (_find(tokens, name, where) for name in (head_name, tail_name))
    return Instance(tokens, Mention(head_id, *head), Mention(tail_id, *tail), relation)


def _find(tokens: list[str], name: str, where: str) -> tuple[int, int]:
    """The tokens that spell the name. It is one token, except where a name inside it was joined instead
    (`los_angeles dodgers` for los_angeles_dodgers): then it is found part by part.
    """
    joined = name.replace(" ", "_")
    if joined in tokens:
        return (place := tokens.index(joined)), place + 1
    parts = [(part, place) for place, token in enumerate(tokens) for part in token.split("_")]
    wanted = joined.split("_")
    for first in range(len(parts) - len(wanted) + 1):
        if [part for part, _ in parts[first : first + len(wanted)]] == wanted:
            return parts[first][1], parts[first + len(wanted) - 1][1] + 1
    raise UserError(f'{where}: the entity "{name}" is not in the sentence')


def _by_content(sample: Sample) -> str | None:
    """A file without the end mark whose extension fits is taken for a damaged one: the reader says where."""
    count, ended = len(sample.columns), _END in sample.lines[0]
    if count >= 6 and (ended or (sample.suffix == ".txt" and " " in sample.columns[5])):
        return f"{count} columns between tabs{f', {_END}' if ended else ''}"
    return None


FORMAT = Format(
    what=f"six columns between tabs, and {_END}", sentences=read, by_content=_by_content, header_rows=no_header
)
