"""BioBERT's tables of relations (GAD, EU-ADR …): sentence and label between tabs; with the header row `index sentence
label`, as its test files have, an index before them.

    Loss of @GENE$ leads to @DISEASE$.	1

The two entities are blinded, `@GENE$` and `@DISEASE$`. It is unknown which rows are about the same pair: entities have
no ids.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.checks import check_length, sentence_tokens
from fedrel.corpus.columns import shortened, split_columns
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.lines import each_row, numbered_lines
from fedrel.corpus.types import NA, Instance, Mention, Skipped
from fedrel.errors import UserError

_MARK = re.compile(r"@(\w+)\$")
_HEADER = ["index", "sentence", "label"]
_RELATIONS = {"0": NA, "1": "related"}  # other labels keep their name
# The head is the same kind in every sentence, whichever comes first in it: what acts before what it acts on, as in the
# names of these tasks (chemical-gene, gene-disease). Kinds that are not listed come last, by the alphabet.
_HEADS_FIRST = ("CHEMICAL", "DRUG", "GENE", "PROTEIN", "DISEASE")


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line. Broken rows are counted."""
    number, first = next(numbered_lines(path, Skipped()), (0, ""))
    header = number if _is_header(first) else 0
    names = ("index", "sentence", "label") if header else ("sentence", "label")

    def instance(line: str, where: str) -> Instance:
        *_, sentence, label = split_columns(line, names, where)
        return _instance(sentence, label.strip(), where)

    yield from each_row(path, skip, instance, after=header)


def _is_header(line: str) -> bool:
    return [column.strip().lower() for column in line.split("\t")] == _HEADER


def _by_content(sample: Sample) -> str | None:
    marked = any(_MARK.search(line) for line in sample.lines if len(line.split("\t")) < 4)
    if len(sample.columns) > 1 and (marked or _is_header(sample.lines[0])):
        return "sentences with blinded entities such as @GENE$, and a label"
    return None


def _instance(sentence: str, label: str, where: str) -> Instance:
    if not label:
        raise UserError(f"{where}: the label is missing; write 0 for no relation, 1 or a name for a relation")
    tokens, marks = _tokens(sentence, where)
    head, tail = _entities(marks, where)
    return Instance(tokens, head, tail, _RELATIONS.get(label, label))


def _tokens(sentence: str, where: str) -> tuple[list[str], list[tuple[str, int]]]:
    """Tokens, a mark being one; and for each mark its kind and its token."""
    tokens: list[str] = []
    marks = []
    done = 0
    for mark in _MARK.finditer(sentence):
        tokens += sentence_tokens(sentence[done : mark.start()], where)[0]
        marks.append((mark[1], len(tokens)))
        tokens.append(mark[0])
        done = mark.end()
    tokens += sentence_tokens(sentence[done:], where)[0]
    check_length(len(tokens), where)
    return tokens, marks


def _entities(marks: list[tuple[str, int]], where: str) -> tuple[Mention, Mention]:
    """The first mark of each kind; where there is one kind (two drugs), its first two marks in their order."""
    first = {kind: place for kind, place in reversed(marks)}
    if len(first) == 1 and len(marks) > 1:
        (kind, one), (_, other) = marks[:2]
        return Mention("", one, one + 1, kind), Mention("", other, other + 1, kind)
    if len(first) != 2:
        kinds = shortened(", ".join(f"@{kind}$" for kind in sorted(first))) or "none"
        raise UserError(
            f"{where}: the sentence must mark two entities, such as @GENE$ and @DISEASE$, and it marks {kinds}; "
            "mend or remove the row"
        )
    head, tail = sorted(first, key=_order)
    return Mention("", first[head], first[head] + 1, head), Mention("", first[tail], first[tail] + 1, tail)


def _order(kind: str) -> tuple[int, str]:
    return _HEADS_FIRST.index(kind) if kind in _HEADS_FIRST else len(_HEADS_FIRST), kind


FORMAT = Format(
    what="sentence and label between tabs, with @GENE$ and @DISEASE$",
    sentences=read,
    gold=True,
    blinded=True,
    by_content=_by_content,
    columns=(frozenset(("index", "sentence", "label")),),
    header_rows=lambda path, first: int(_is_header(first)),
)
