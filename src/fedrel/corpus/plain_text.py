"""Prose: plain text, Markdown, web pages, PDF and documents of word processors, one file or a folder of them.

    letters/1931.txt        ->  the document "letters/1931.txt"
    diary.txt, of 2.5 MB    ->  the documents "diary.txt", "diary.txt#2" and "diary.txt#3"

A long file is cut into documents of at most a million characters: after a blank line, or failing that after a
line's end, after a white space, or in the middle of a word that is longer still. An offset counts from the
beginning of its own document, so in "diary.txt#2" from where the first part ends; the parts joined in their
order are the text of the file (except for parts of white space alone, which are left out).

In a folder, documents as JSON are read as well, and what became of every file is in `Skipped.files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from fedrel.corpus import jsonl_documents
from fedrel.corpus.checks import EMPTY, opened
from fedrel.corpus.cutting import last_break
from fedrel.corpus.file_counts import extension_of
from fedrel.corpus.format import Format, Sample, has_extension
from fedrel.corpus.json_rows import EXTENSIONS
from fedrel.corpus.looks import no_prose
from fedrel.corpus.prose import INSTALL, KINDS, Piece, pieces_of
from fedrel.corpus.samples import sample_of
from fedrel.corpus.text_folder import texts_in
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

LONGEST = 1_000_000  # characters of a document
_READ = (".txt", *KINDS, *EXTENSIONS)


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of a file or a folder. Files without text are skipped. One of a folder that cannot be read is
    counted as broken, and what follows the damage is left out of it; of a single file, that is a UserError.
    """
    if not path.is_dir():
        count = 0
        for document in _of_file(path, path.name, skip):
            count += 1
            yield document
        if not count:
            skip(str(path), EMPTY)
        return
    files = skip.files
    found = texts_in(path, _READ, skip)
    for name in [name for name, file in found.items() if _is_other_json(file)]:
        files.skip(name)
        del found[name]
    if not found and not files.broken_count:
        missing = [names for names in files.skipped.values() if names.advice == INSTALL]
        if missing:
            raise UserError(f"{path}: {missing[0]}: reading these needs a package: {INSTALL}")
        raise UserError(f"{path}: no text in this folder; {', '.join(_READ)} files are read")
    for name, file in found.items():
        count = 0
        try:
            for document in _of_folder(file, name, skip):
                count += 1
                yield document
        except UserError as error:
            skip.bad_file(name, _about(error, file), str(file))
        else:
            if count:
                files.read[extension_of(name)] += 1
            else:
                skip.empty_file(name, str(file), EMPTY)


def _about(error: UserError, file: Path) -> UserError:
    """The error, with the file's name before it, which it may lack if it comes from far below."""
    return error if str(error).startswith(str(file)) else UserError(f"{file}: {error}")


# --------------------------------------------------------------------------------------------------- files


def _of_folder(path: Path, name: str, skip: Skipped) -> Iterator[Document]:
    return _json_documents(path, skip) if path.suffix.lower() in EXTENSIONS else _of_file(path, name, skip)


def _of_file(path: Path, name: str, skip: Skipped) -> Iterator[Document]:
    """The documents of a file; of one with another extension than those of KINDS, as plain text."""
    is_plain = path.suffix.lower() not in KINDS
    count, line = 0, 1
    for text, pages in _parts(_chunks(path) if is_plain else pieces_of(path, skip)):
        if not text.isspace():
            count += 1
            if count == 1:
                yield Document(name, text, where=str(path), pages=pages)
            else:
                where = f"{path}:{line}" if is_plain else str(path)
                yield Document(f"{name}#{count}", text, where=where, pages=pages)
        line += text.count("\n")


def _chunks(path: Path) -> Iterator[Piece]:
    with opened(path) as file:
        while chunk := file.read(LONGEST):
            yield chunk, 0


def _parts(pieces: Iterable[Piece]) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """The text in parts of at most LONGEST characters, each with its pages (see `Document`); no more than two of them
    are in memory.
    """
    rest, pages = "", list[tuple[int, int]]()
    for piece, page in pieces:
        if page and (not pages or pages[-1][1] != page):
            pages.append((len(rest), page))
        rest += piece
        while len(rest) > LONGEST:
            end = last_break(rest, 0, LONGEST)
            yield rest[:end], tuple(mark for mark in pages if mark[0] < end)
            inside = [mark for mark in pages if mark[0] <= end]
            pages = [(0, page) for _, page in inside[-1:]] + [(at - end, page) for at, page in pages if at > end]
            rest = rest[end:]
    if rest:
        yield rest, tuple(pages)


def _is_other_json(path: Path) -> bool:
    """Whether a .json file, of which there are many kinds, holds something else than documents."""
    try:
        return path.suffix.lower() == ".json" and not _may_be_documents(path)
    except UserError:
        return False  # whoever reads it says what is wrong


def _may_be_documents(path: Path) -> bool:
    sample, recognised = sample_of(path), jsonl_documents.FORMAT.by_content
    assert recognised
    return sample is None or recognised(sample) is not None


def _json_documents(path: Path, skip: Skipped) -> Iterator[Document]:
    """The documents of a file of JSON, unless most of its rows are broken."""
    if not _may_be_documents(path):
        raise UserError(
            f'{path}: not JSON lines with a "text" each, or labels are in them; name such a file itself, if '
            "`fedrel data check` knows its format"
        )
    count, before = 0, skip.broken.total()
    for document in jsonl_documents.read(path, skip):
        count += 1
        yield document
    broken = skip.broken.total() - before
    if broken > count:
        raise UserError(f"{path}: {broken:,} of {broken + count:,} rows cannot be read; is the file damaged?")


def _by_content(sample: Sample) -> str | None:
    return "plain text" if sample.suffix == ".txt" and not no_prose(sample.text or "\n".join(sample.lines)) else None


FORMAT = Format(
    what="text: plain, Markdown, HTML, PDF, Word, OpenDocument; a file or a folder",
    documents=read,
    by_name=has_extension(*KINDS),
    by_content=_by_content,
    general=True,
    extensions=(".txt",),
)
