"""i2b2/VA 2010: records in txt/, concepts in concept/ and relations in rel/, or all side by side, joined by name.

    record-1.txt   Aspirin was given for her headache .
    record-1.con   c="aspirin" 1:0 1:0||t="treatment"
    record-1.rel   c="aspirin" 1:0 1:0||r="TrAP"||c="her headache" 1:4 1:5

A place is line:token; lines count from 1 and tokens, which white space separates, from 0. Each line is a sentence.
As published, the records of test are in test_data/, and what is marked in them in reference_standard_for_test_data/.
Files of assertions (.ast) are ignored. In a few places of the published corpus the text of a concept is not what the
record has there: such a concept is left out and counted, and so are the relations that need it. Concepts have no ids.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from fedrel.corpus.checks import EMPTY, LEFT_OUT, files, renamed, same_words, whole_text
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, same_stem
from fedrel.corpus.lines import each_row, first_line
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

_REFERENCE = re.compile(r"(?:reference|gold)[_-]standards?[_-](?:(?:for|of)[_-])?", re.IGNORECASE)
_LARGEST = 4 * 2**20  # bytes of a record; a published one has a few thousand, and every token's place is in memory
_TOKEN = re.compile(r"\S+")
_CONCEPT = re.compile(r'c="(.*)" ([0-9]{1,9}):([0-9]{1,9}) ([0-9]{1,9}):([0-9]{1,9})')
_TYPE = re.compile(r't="([^"]*)"')
_RELATION = re.compile(r'r="([^"]+)"')

Span = tuple[int, int]
Tokens = list[list[Span]]  # of each line, as offsets in the whole text


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every record of a folder, or one. Empty records are skipped, and concepts whose words are not at their place;
    broken lines, and records that are not UTF-8, are counted.
    """
    folders = [it for it in (_texts_beside(path), path) if it]
    texts, concepts, relations = (
        {name: file for folder in folders for name, file in renamed(files(folder, suffix), _stem).items()}
        for suffix in (".txt", ".con", ".rel")
    )
    for found, needed, suffix in ((concepts, texts, ".txt"), (relations, concepts, ".con")):
        for name, file in found.items():
            if name not in needed:
                raise UserError(f"{file}: there is no {name}{suffix} that it belongs to; add it")
    if not texts:
        raise UserError(f"{path}: no .txt file here; i2b2 keeps records in txt/, concept/ and rel/")
    for name, file in texts.items():
        try:
            text = whole_text(file, _LARGEST)
        except UserError as error:
            skip.bad(error, str(file))
            continue
        if text.strip():
            yield _document(name, text, file, concepts.get(name), relations.get(name), skip)
        else:
            skip(str(file), EMPTY)


def _stem(name: PurePosixPath) -> str:
    return name.stem


def _texts_beside(path: Path) -> Path | None:
    """`test_data`, which has the records of `reference_standard_for_test_data`."""
    found = path.with_name(_REFERENCE.sub("", path.name, count=1))
    return found if found != path and found.is_dir() else None


def _document(
    name: str, text: str, file: Path, concepts: Path | None, relations: Path | None, skip: Skipped
) -> Document:
    tokens: Tokens = []
    place = 0
    for line in text.split("\n"):
        tokens.append([(place + found.start(), place + found.end()) for found in _TOKEN.finditer(line)])
        place += len(line) + 1
    sentences = tuple((line[0][0], line[-1][1]) for line in tokens if line)
    given = tuple(token for line in tokens for token in line)
    if concepts is None:
        return Document(name, text, where=str(file), sentences=sentences, tokens=given)
    annotations, keys = _annotations(concepts, text, tokens, skip)
    joined = None if relations is None else tuple(_relations(relations, tokens, keys, concepts.name, skip))
    return Document(name, text, annotations, joined, str(file), sentences, given)


def _annotations(
    path: Path, text: str, tokens: Tokens, skip: Skipped
) -> tuple[tuple[Annotation, ...], dict[Span, str | None]]:
    """The annotations of a record, and their keys by span, None being the key of a concept that was left out."""
    found: dict[tuple[Span, str], Annotation] = {}
    keys: dict[Span, str | None] = {}

    def parse(line: str, where: str) -> tuple[str, Span, str]:
        concept, *rest = line.strip().split("||")
        type_ = _TYPE.fullmatch(rest[0]) if len(rest) == 1 else None
        if not type_:
            with suppress(UserError):
                keys.setdefault(_place(concept, tokens, where)[1], None)
            raise UserError(f'{where}: not a concept such as c="aspirin" 1:0 1:0||t="treatment"')
        return *_place(concept, tokens, where), type_[1]

    for where, (words, span, type_) in each_row(path, skip, parse):
        if not same_words(words.lower(), text[slice(*span)].lower()):
            skip(where, "the words of the concept do not stand at its place")
            keys.setdefault(span, None)
        elif (span, type_) in found:
            skip(where, "the concept is marked twice")
        else:
            annotation = Annotation(f"T{len(found) + 1}", *span, type_)
            found[span, type_] = annotation
            keys[span] = keys.get(span) or annotation.key  # a relation does not name the type: it means the first
    return tuple(found.values()), keys


def _relations(
    path: Path, tokens: Tokens, keys: dict[Span, str | None], concepts: str, skip: Skipped
) -> Iterator[tuple[str, str, str]]:
    def parse(line: str, where: str) -> tuple[str | None, str, str | None]:
        pieces = line.strip().split("||")
        relation = _RELATION.fullmatch(pieces[1]) if len(pieces) == 3 else None
        if not relation:
            raise UserError(f'{where}: not a relation such as c="aspirin" 1:0 1:0||r="TrAP"||c="pain" 1:4 1:4')
        return end(pieces[0], where), relation[1], end(pieces[2], where)

    def end(concept: str, where: str) -> str | None:
        words, span = _place(concept, tokens, where)
        if span not in keys:
            raise UserError(f'{where}: the concept "{shortened(words)}" is not in {concepts}; add it there')
        return keys[span]

    for where, (head, relation, tail) in each_row(path, skip, parse):
        if head and tail:
            yield head, relation, tail
        else:
            skip(where, LEFT_OUT)


def _place(concept: str, tokens: Tokens, where: str) -> tuple[str, Span]:
    """The words of a concept, and its span of characters."""
    match = _CONCEPT.fullmatch(concept)
    if not match:
        raise UserError(f'{where}: not a concept with its place, such as c="aspirin" 1:0 1:0: {shortened(concept)}')
    first_line, first, last_line, last = (int(number) for number in match.groups()[1:])
    for line, token in ((first_line, first), (last_line, last)):
        if not 1 <= line <= len(tokens):
            raise UserError(f"{where}: there is no line {line} in the text; it has {len(tokens)}")
        if token >= len(tokens[line - 1]):
            count = len(tokens[line - 1])
            raise UserError(f"{where}: there is no token {token} in line {line} of the text; it has {count} from 0")
    start, end = tokens[first_line - 1][first][0], tokens[last_line - 1][last][1]
    if start >= end:
        raise UserError(f"{where}: the concept ends before it begins; the first place must come first")
    return match[1], (start, end)


def _by_name(path: Path) -> bool:
    """Relations are in .rel files in the BioNLP tasks, too: what they begin with tells them apart."""
    suffix = path.suffix.lower()
    return suffix == ".con" or (suffix == ".rel" and (first_line(path) or 'c="').startswith('c="'))


FORMAT = Format(
    what="i2b2 2010: a text, its .con and .rel files",
    documents=read,
    gold=True,
    by_name=_by_name,
    extensions=(".txt",),
    files=same_stem,
    texts_beside=_texts_beside,
)
