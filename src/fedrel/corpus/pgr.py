"""PGR, phenotypes and genes: a headline that names the columns, then a sentence with a gene (the head), a phenotype
(the tail) and whether they are related, as `True` or `TRUE`.

Offsets count characters of the sentence as it stands in the file, with `&lt;` for `<`; tokens are made of the
characters that are meant. A column CONFIRMATION, in which curators judged the label of a test row, may follow; the
label is RELATION all the same, made as in the training rows.
"""

import html
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedrel.corpus import NA, Instance, Mention, Skipped
from fedrel.corpus.columns import shortened, split_columns, whole_number
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.tokens import token_span, tokenize
from fedrel.errors import UserError

_NEEDED = (
    *("SENTENCE", "GENE", "PHENOTYPE", "GENE_ID", "PHENOTYPE_ID", "RELATION"),
    *("GENE_START_POSITION", "GENE_END_POSITION", "PHENOTYPE_START_POSITION", "PHENOTYPE_END_POSITION"),
)
_SIDES = ("GENE", "PHENOTYPE")
_LABELS = {"true": "related", "false": NA}

Span = tuple[int, int]


def read(path: Path, skip: Skipped) -> Iterator[Instance]:
    return (instance for _, instance in rows(path, skip))


def rows(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line."""
    names: tuple[str, ...] | None = None
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        if names is None:
            names = _headline(line, where)
            continue
        row = dict(zip(names, split_columns(line, names, where), strict=True))
        instance = _instance(row, where, skip)
        if instance:
            yield where, instance


def _headline(line: str, where: str) -> tuple[str, ...]:
    names = tuple(column.strip() for column in line.split("\t"))
    missing = [name for name in _NEEDED if names.count(name) != 1]
    if missing:
        raise UserError(
            f"{where}: no column {missing[0]} (or two of it); the first line of a PGR file names its columns"
        )
    return names


def _instance(row: dict[str, str], where: str, skip: Skipped) -> Instance | None:
    relation = _LABELS.get(row["RELATION"].strip().lower())
    if relation is None:
        raise UserError(f'{where}: RELATION is "{shortened(row["RELATION"])}"; it must be True or False')
    told = [
        (
            row[side].strip(),
            whole_number(row[f"{side}_START_POSITION"], f"{side}_START_POSITION", where),
            whole_number(row[f"{side}_END_POSITION"], f"{side}_END_POSITION", where),
        )
        for side in _SIDES
    ]
    for side, (name, _, _) in zip(_SIDES, told, strict=True):
        if not name:
            raise UserError(f"{where}: {side} is empty; it names the entity in the sentence")
    text, spans = _located(row["SENTENCE"], told)
    for side, span in zip(_SIDES, spans, strict=True):
        if span is None:
            skip(where, f"the {side.lower()} is not in the sentence")
            return None
    tokens, begins, ends = tokenize(text)
    head, tail = (
        Mention(row[f"{side}_ID"].strip() or name, *token_span(begins, ends, *span, f"{where}: {side}"), side)
        for side, (name, _, _), span in zip(_SIDES, told, spans, strict=True)
        if span
    )
    return Instance(tokens, head, tail, relation)


def _located(raw: str, told: list[tuple[str, int, int]]) -> tuple[str, Sequence[Span | None]]:
    """The sentence with `<` for `&lt;`, and where each name stands in it (None: nowhere)."""
    found = [span for it in told if (span := _find(raw, *it))]
    if len(found) == len(told):
        return _unescaped(raw, found)
    meant = html.unescape(raw)  # a name may be written with the characters that are meant, too
    return meant, [_find(meant, *it) for it in told]


def _find(text: str, name: str, start: int, end: int) -> Span | None:
    """The name where the offsets say, else where it stands nearest: as a word of any case, or inside a word as it is
    (tumor in tumors).
    """
    if text[start:end] == name:
        return start, end
    wanted = re.escape(name)
    for pattern in (rf"(?<!\w){wanted}(?!\w)", rf"(?i:(?<!\w){wanted}(?!\w))", wanted):
        found = [match.span() for match in re.finditer(pattern, text)]
        if found:
            return min(found, key=lambda span: abs(span[0] - start))
    return None


def _unescaped(text: str, spans: list[Span]) -> tuple[str, list[Span]]:
    """The text with `<` for `&lt;`, and the spans moved along with it."""
    cuts = sorted({0, len(text), *(place for span in spans for place in span)})
    whole, moved = "", {0: 0}
    for begin, end in itertools.pairwise(cuts):
        whole += html.unescape(text[begin:end])
        moved[end] = len(whole)
    return whole, [(moved[start], moved[end]) for start, end in spans]
