"""PubTator: title and abstract, then a tab-separated row for each mention and each relation; a blank line ends it.

    1234|t|Aspirin and pain
    1234|a|Aspirin eases headache.
    1234	0	7	Aspirin	Chemical	D001241
    1234	Eases	D001241	D006261

Offsets count characters of the title, one separator and the abstract. A relation joins two concepts: it holds for
every pair of mentions of the one and the other. A mention of several concepts (`D001|D002`) is a mention of each; -1
says that it has none. Further columns are ignored.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from fedrel.corpus.checks import EMPTY, each_file, sentences_at, stretch
from fedrel.corpus.columns import shortened, whole_number
from fedrel.corpus.format import Format, Sample, has_extension
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_NUMBER = re.compile(r"\s*-?[0-9]+\s*")
_SEVERAL = re.compile(r"[|;,+]")
_UNLINKED = ("", "-", "-1")

Lines = list[tuple[int, str]]


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of one file. Those without text are skipped, and relations of concepts that are not marked."""
    for block in _blocks(path):
        document = _document(path, block, skip)
        if document.text.strip():
            yield document
        else:
            skip(document.where, EMPTY)


def _blocks(path: Path) -> Iterator[Lines]:
    """The lines of each document. A title begins the next one, even where the blank line before it is missing."""
    block: Lines = []
    name = ""
    for number, line in numbered_lines(path):
        text = _TEXT.fullmatch(line)
        if text and (text[2] == "t" or text[1] != name):
            if block:
                yield block
            block, name = [], text[1]
        elif not block:
            raise UserError(f"{path}:{number}: the first line must be a title, such as 1234|t|Title")
        block.append((number, line))
    if block:
        yield block


def _document(path: Path, block: Lines, skip: Skipped) -> Document:
    name = ""
    parts: dict[str, str] = {}
    rows: list[tuple[str, list[str]]] = []
    for number, line in block:
        where = f"{path}:{number}"
        if match := _TEXT.fullmatch(line):
            name, part, words = match.groups()
            if part in parts:
                raise UserError(f"{where}: a second abstract of document {shortened(name)}; remove one")
            parts[part] = words
        else:
            rows.append((where, [column.strip() for column in line.split("\t")]))
    title = parts.get("t", "")
    text = f"{title}\n{parts['a']}" if "a" in parts else title
    annotations: list[Annotation] = []
    relations: list[tuple[str, list[str]]] = []
    for where, columns in rows:
        if columns[0] != name.strip():
            raise UserError(f"{where}: a row of {shortened(columns[0])} among those of document {shortened(name)}")
        if len(columns) > 4 and _NUMBER.fullmatch(columns[1]):
            annotations.append(_annotation(columns, text, f"T{len(annotations) + 1}", where))
        elif len(columns) > 3 and all(columns[1:4]) and not _NUMBER.fullmatch(columns[1]):
            relations.append((where, columns))
        else:
            raise UserError(f"{where}: neither a mention nor a relation; is a column missing, or a tab?")
    sentences = (*sentences_at(0, title), *sentences_at(len(title) + 1, parts.get("a", "")))
    joined = tuple(_joined(relations, annotations, skip))
    return Document(name.strip(), text, tuple(annotations), joined, f"{path}:{block[0][0]}", sentences)


def _annotation(columns: list[str], text: str, key: str, where: str) -> Annotation:
    _, begin, end, words, type_, concept, *_ = [*columns, ""]
    span = whole_number(begin, "the start", where), whole_number(end, "the end", where)
    return Annotation(key, *stretch(text, [span], words, where), type_, "" if concept in _UNLINKED else concept)


def _joined(
    relations: list[tuple[str, list[str]]], annotations: list[Annotation], skip: Skipped
) -> Iterator[tuple[str, str, str]]:
    mentions: defaultdict[str, list[str]] = defaultdict(list)
    for annotation in annotations:
        for concept in {annotation.id, *_SEVERAL.split(annotation.id)} - {""}:
            mentions[concept].append(annotation.key)
    for where, (_, relation, head, tail, *_) in relations:
        pairs = [pair for pair in product(mentions.get(head, ()), mentions.get(tail, ())) if pair[0] != pair[1]]
        if not pairs:
            skip(where, "the relation joins a concept that is not marked in the text")
        for one, other in pairs:
            yield one, relation, other


def _by_content(sample: Sample) -> str | None:
    return "its first line begins like 123|t|Title" if _TEXT.match(sample.lines[0].lstrip()) else None


FORMAT = Format(
    what="PubTator: lines such as 123|t|Title",
    documents=each_file(read, ".txt", ".pubtator"),
    gold=True,
    by_name=has_extension(".pubtator"),
    by_content=_by_content,
    extensions=(".txt", ".pubtator"),
    infixes=(".pubtator",),
)
