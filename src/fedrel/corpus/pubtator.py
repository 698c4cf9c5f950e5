"""PubTator: title and abstract, then a tab-separated row for each mention and each relation; a blank line ends it.

    1234|t|Aspirin and pain
    1234|a|Aspirin eases headache.
    1234	0	7	Aspirin	Chemical	D001241
    1234	Eases	D001241	D006261

Offsets count characters of the title, one separator and the abstract. A relation joins two concepts, and with them
their mentions. A mention of several concepts (`D001|D002`) is a mention of each; -1 says that it has none. Further
columns are ignored. A row that cannot be read, or whose words are not at its place, is left out and counted.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedrel.corpus.checks import EMPTY, check_marks, each_file, sentences_at, stretch
from fedrel.corpus.columns import shortened, whole_number
from fedrel.corpus.concepts import NOT_MARKED, concepts, is_linked, known_as
from fedrel.corpus.format import Format, Sample, has_extension
from fedrel.corpus.lines import numbered_lines
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_NUMBER = re.compile(r"\s*-?[0-9]+\s*")

Lines = list[tuple[int, str]]
Row = tuple[str, list[str]]  # its place, and its columns


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of one file. Those without text are skipped, and relations of concepts that are not marked."""
    for block in _blocks(path, skip):
        document = _document(path, block, skip)
        if document.text.strip():
            yield document
        else:
            skip(document.where, EMPTY)


def _blocks(path: Path, skip: Skipped) -> Iterator[Lines]:
    """The lines of each document. A title begins the next one, even where the blank line before it is missing."""
    block: Lines = []
    name = ""
    broken = skip.broken.total()
    for number, line in numbered_lines(path, skip):
        where = f"{path}:{number}"
        text = _TEXT.fullmatch(line)
        if text and (text[2] == "t" or text[1] != name):
            if block:
                yield block
            block, name = [], text[1]
        elif not block:
            error = UserError(f"{where}: the first line must be a title, such as 1234|t|Title")
            if skip.broken.total() == broken:
                raise error
            skip.bad(error, where)  # there is a title, which is not UTF-8
            continue
        check_marks(len(block), where)
        block.append((number, line))
    if block:
        yield block


def _document(path: Path, block: Lines, skip: Skipped) -> Document:
    match = _TEXT.fullmatch(block[0][1])
    assert match
    name = match[1].strip()
    parts: dict[str, str] = {}
    rows: list[Row] = []
    for number, line in block:
        where = f"{path}:{number}"
        match = _TEXT.fullmatch(line)
        if not match:
            rows.append((where, [column.strip() for column in line.split("\t")]))
        elif match[2] in parts:
            words = f'{where}: a second abstract of document "{shortened(name)}"; remove one'
            skip.bad(UserError(words), where)
        else:
            parts[match[2]] = match[3]
    title = parts.get("t", "")
    text = f"{title}\n{parts['a']}" if "a" in parts else title
    mentions, relations = _sorted(rows, name, skip)
    annotations, known = _annotations(mentions, {it for _, row in relations for it in row[2:4]}, text, skip)
    sentences = (*sentences_at(0, title), *sentences_at(len(title) + 1, parts.get("a", "")))
    joined = tuple(_joined(relations, known, skip))
    return Document(name, text, annotations, joined, f"{path}:{block[0][0]}", sentences)


def _sorted(rows: list[Row], name: str, skip: Skipped) -> tuple[list[Row], list[Row]]:
    """The mentions and the relations among the rows."""
    mentions: list[Row] = []
    relations: list[Row] = []
    for where, columns in rows:
        if columns[0] != name:
            words = f'{where}: a row of "{shortened(columns[0])}" among those of document "{shortened(name)}"'
            skip.bad(UserError(f"{words}; put it where it belongs"), where)
        elif len(columns) > 4 and _NUMBER.fullmatch(columns[1]):
            mentions.append((where, columns))
        elif len(columns) > 3 and all(columns[1:4]) and not _NUMBER.fullmatch(columns[1]):
            relations.append((where, columns))
        else:
            words = f"{where}: neither a mention nor a relation; is a column missing, or a tab?"
            skip.bad(UserError(words), where)
    return mentions, relations


def _annotations(
    rows: list[Row], named: set[str], text: str, skip: Skipped
) -> tuple[tuple[Annotation, ...], dict[str, str]]:
    """The mentions, and the concepts that they are of, which relations may name."""
    found: list[tuple[int, int, str, str, tuple[str, ...]]] = []
    for where, (_, begin, end, words, type_, *rest) in rows:
        concept = rest[0] if rest and is_linked(rest[0]) else ""
        try:
            span = whole_number(begin, "the start", where), whole_number(end, "the end", where)
            start, stop = stretch(text, [span], words, where)
        except UserError as error:
            skip.bad(error, where)
            continue
        entities = dict.fromkeys((*((concept,) if concept in named else ()), *concepts(concept)))
        found.append((start, stop, type_, concept, tuple(entities)))
    names = {name for *_, entities in found for name in entities}
    annotations = []
    for number, it in enumerate(found, 1):
        key = f"T{number}"
        while key in names:
            key += f"/{number}"
        annotations.append(Annotation(key, *it))
    return tuple(annotations), {name: name for name in names}


def _joined(relations: list[Row], known: Mapping[str, str], skip: Skipped) -> Iterator[tuple[str, str, str]]:
    for where, (_, relation, *names) in relations:
        head, tail = (known_as(name, known) for name in names[:2])
        if head and tail:
            yield head, relation, tail
        else:
            skip(where, NOT_MARKED)


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
