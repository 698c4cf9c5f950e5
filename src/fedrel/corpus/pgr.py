"""PGR, phenotypes and genes: a header row, then in each row a sentence with a gene (the head), a phenotype (the tail)
and whether they are related, as `True` or `TRUE`.

    FILE_ID	SENTENCE	GENE	PHENOTYPE	GENE_ID	PHENOTYPE_ID	GENE_START_POSITION	…	RELATION
    1	Loss of ABC1 leads to gout.	ABC1	gout	19	HP_0001997	8	…	True

Offsets count characters of the sentence as it is in the file, with `&lt;` for `<`; tokens are made of the unescaped
text. FILE_ID, where there is such a column, says which document the sentence is from; within it, a gene or phenotype
without an id goes by its name. A column CONFIRMATION, in which curators judged the label of a test row, may follow; the
label is RELATION all the same, made as in the training rows.
"""

import html
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedrel.corpus.checks import sentence_tokens
from fedrel.corpus.columns import shortened, split_columns, whole_number
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.lines import each_row, numbered_lines
from fedrel.corpus.tokens import token_span
from fedrel.corpus.types import NA, Instance, Mention, Skipped
from fedrel.errors import UserError

_NEEDED = (
    *("SENTENCE", "GENE", "PHENOTYPE", "GENE_ID", "PHENOTYPE_ID", "RELATION"),
    *("GENE_START_POSITION", "GENE_END_POSITION", "PHENOTYPE_START_POSITION", "PHENOTYPE_END_POSITION"),
)
_SIDES = ("GENE", "PHENOTYPE")
_LABELS = {"true": "related", "false": NA}

Span = tuple[int, int]


def read(path: Path, skip: Skipped) -> Iterator[tuple[str, Instance]]:
    """Every sentence with its place, file:line. A row whose gene or phenotype is not in its sentence is skipped, and
    broken rows are counted.
    """
    number, first = next(numbered_lines(path), (0, ""))
    if not number:
        return
    names = _header(first, f"{path}:{number}")

    def instance(line: str, where: str) -> Instance | None:
        return _instance(dict(zip(names, split_columns(line, names, where), strict=True)), where, skip)

    yield from ((where, it) for where, it in each_row(path, skip, instance, after=number) if it)


def _header(line: str, where: str) -> tuple[str, ...]:
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
    given = [
        (
            row[side].strip(),
            whole_number(row[f"{side}_START_POSITION"], f"{side}_START_POSITION", where),
            whole_number(row[f"{side}_END_POSITION"], f"{side}_END_POSITION", where),
        )
        for side in _SIDES
    ]
    for side, (name, _, _) in zip(_SIDES, given, strict=True):
        if not name:
            raise UserError(f"{where}: {side} is empty; it names the entity in the sentence")
    text, spans = _located(row["SENTENCE"], given)
    for side, span in zip(_SIDES, spans, strict=True):
        if span is None:
            skip(where, f"the {side.lower()} is not in the sentence")
            return None
    tokens, begins, ends = sentence_tokens(text, where)
    document, ids = row.get("FILE_ID", "").strip(), [row[f"{side}_ID"].strip() for side in _SIDES]
    head, tail = (
        Mention(id_, *token_span(begins, ends, *span, f"{where}: {side}"), side, name if document and not id_ else "")
        for side, (name, _, _), id_, span in zip(_SIDES, given, ids, spans, strict=True)
        if span
    )
    return Instance(tokens, head, tail, relation, document=document)


def _located(raw: str, given: list[tuple[str, int, int]]) -> tuple[str, Sequence[Span | None]]:
    """The sentence with `<` for `&lt;`, and where each name is in it (None: nowhere)."""
    found = [span for it in given if (span := _find(raw, *it))]
    if len(found) == len(given):
        return _unescaped(raw, found)
    unescaped = html.unescape(raw)  # a name may be written unescaped, too
    return unescaped, [_find(unescaped, *it) for it in given]


def _find(text: str, name: str, start: int, end: int) -> Span | None:
    """The name where the offsets say, else its occurrence nearest to there: as a word in any case, or inside a word
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


def _by_content(sample: Sample) -> str | None:
    names = {"SENTENCE", *_SIDES}
    if len(names & set(sample.columns)) > 1:
        return "its first line names the columns SENTENCE, GENE, PHENOTYPE"
    return None


FORMAT = Format(
    what="columns between tabs that begin with FILE_ID, SENTENCE, GENE, PHENOTYPE",
    sentences=read,
    gold=True,
    by_content=_by_content,
    columns=(frozenset(_NEEDED),),
    header_rows=lambda path, first: 1,
)
