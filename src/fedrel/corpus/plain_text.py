"""Plain text: a folder of .txt files (with the folders below it), or one file.

    letters/1931.txt        ->  the document "letters/1931.txt"
    diary.txt, of 2.5 MB    ->  the documents "diary.txt", "diary.txt#2" and "diary.txt#3"

A long file is cut into documents of at most a million characters: after a blank line, or failing that after a
line's end, after a white space, or in the middle of a word that is longer still. An offset counts from the
beginning of its own document, so in "diary.txt#2" from where the first part ends; the parts joined in their
order are the file (except for parts of white space alone, which are left out).
"""

from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.checks import EMPTY, files, opened
from fedrel.corpus.cutting import last_break
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.looks import no_prose
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

LONGEST = 1_000_000  # characters of a document


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of a file or a folder. Files without text are skipped; one of a folder that is not UTF-8 is
    counted as broken, and what follows is left out of it.
    """
    if path.is_file():
        yield from _documents(path, path.name, skip)
        return
    found = files(path, ".txt")
    if not found:
        raise UserError(f"{path}: no .txt file in this folder")
    for name, file in found.items():
        try:
            yield from _documents(file, name, skip)
        except UserError as error:
            skip.bad(error, str(file))


def _documents(path: Path, name: str, skip: Skipped) -> Iterator[Document]:
    count, line = 0, 1
    for text in _parts(path):
        if not text.isspace():
            count += 1
            if count == 1:
                yield Document(name, text, where=str(path))
            else:
                yield Document(f"{name}#{count}", text, where=f"{path}:{line}")
        line += text.count("\n")
    if not count:
        skip(str(path), EMPTY)


def _parts(path: Path) -> Iterator[str]:
    """The file in pieces of at most LONGEST characters; never more than two of them are in memory."""
    rest = ""
    with opened(path) as file:
        while chunk := file.read(LONGEST):
            rest += chunk
            while len(rest) > LONGEST:
                end = last_break(rest, 0, LONGEST)
                yield rest[:end]
                rest = rest[end:]
    if rest:
        yield rest


def _by_content(sample: Sample) -> str | None:
    return "plain text" if sample.suffix == ".txt" and not no_prose(sample.text or "\n".join(sample.lines)) else None


FORMAT = Format(
    what="plain text, a file or a folder", documents=read, by_content=_by_content, general=True, extensions=(".txt",)
)
