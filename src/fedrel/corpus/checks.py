"""What the readers of documents share: how files are found and opened, and what every row must keep to."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NoReturn, TextIO

from fedrel.corpus.beside import is_hidden, is_no_data
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Reader
from fedrel.corpus.lines import LARGEST, numbered_lines
from fedrel.corpus.sentences import sentence_spans
from fedrel.corpus.tokens import count_tokens, tokenize
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

EMPTY = "there is no text in it"
LEFT_OUT = "the relation needs an entity that was left out"
LONGEST_SENTENCE = 10_000  # tokens
MOST_MARKS = 100_000  # entities and relations of one document
_HEADS, _TAILS = {"arg1", "subject", "head"}, {"arg2", "object", "tail"}


def files(path: Path, suffix: str) -> dict[str, Path]:
    """Files with this suffix in a folder and in those below it, in order, by their paths relative to the folder.

    Hidden ones (.git, ._a.txt), readmes and the like are no data. Of a single file, the one beside it that differs in
    the suffix alone, if there is one.
    """
    if path.is_file():
        beside = path.with_suffix(suffix)
        return {beside.name: beside} if beside.is_file() else {}

    def refuse(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename}: {error.strerror or error}") from None

    found = {}
    for parent, folders, names in os.walk(path, onerror=refuse):
        folders[:] = [name for name in folders if not is_hidden(name)]
        for name in names:
            if name.lower().endswith(suffix) and not is_no_data(name):
                file = Path(parent, name)
                found[file.relative_to(path).as_posix()] = file
    for file in found.values():
        try:
            str(file).encode()
        except UnicodeEncodeError:  # it would fail later, when the name is printed or saved
            raise UserError(f"{path}: the name of {os.fsencode(file)!r} is not UTF-8; rename the file") from None
    return dict(sorted(found.items()))


def each_file(read: Reader[Document], *suffixes: str) -> Reader[Document]:
    """A reader of files and folders from one of single files. In a folder and in those below it, it reads the files
    with these suffixes (in lower case) in the order of their names; a folder without any is refused.
    """

    def read_all(path: Path, skip: Skipped) -> Iterator[Document]:
        if not path.is_dir():
            yield from read(path, skip)
            return
        found = {name: file for suffix in suffixes for name, file in files(path, suffix).items()}
        if not found:
            raise UserError(f"{path}: no {' or '.join(suffixes)} file in this folder")
        for _, file in sorted(found.items()):
            yield from read(file, skip)

    return read_all


def renamed(found: Mapping[str, Path], name: Callable[[PurePosixPath], str]) -> dict[str, Path]:
    """Files by the name that a text and its annotations have in common; two of one name are refused."""
    result: dict[str, Path] = {}
    for long_name, file in found.items():
        if (other := result.setdefault(name(PurePosixPath(long_name)), file)) is not file:
            raise UserError(f"{file}: goes by the same name as {other}; rename one, or read the folders one by one")
    return result


@contextmanager
def opened(path: Path, errors: str = "strict") -> Iterator[TextIO]:
    """A UTF-8 text file, with its line ends as they are and no byte order mark; UserError if it cannot be read. With
    `errors="surrogateescape"`, what is not UTF-8 is read as half characters, which UTF-8 does not have.
    """
    try:
        with path.open(encoding="utf-8-sig", errors=errors, newline="") as file:
            yield file
    except UnicodeDecodeError:
        deque(numbered_lines(path), maxlen=0)  # raises, and knows the number of the line
        raise UserError(f"{path}: not UTF-8 text; convert the file to UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def whole_text(path: Path, most: int = LARGEST) -> str:
    """The content of a UTF-8 file, with its line ends as they are and without a byte order mark; UserError for one of
    more than `most` bytes.
    """
    with opened(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise UserError(f"{path}: a text of {size >> 20:,} MB; at most {most >> 20} MB are read: cut it into parts")
        return file.read()


def check_length(count: int, where: str) -> None:
    """Raises UserError for a sentence of more tokens than are read."""
    if count > LONGEST_SENTENCE:
        raise UserError(f"{where}: a sentence of {count:,} tokens; at most {LONGEST_SENTENCE:,} are read: split it")


def check_marks(count: int, where: str) -> None:
    """Raises UserError for a document in which more is marked than is read."""
    if count > MOST_MARKS:
        raise UserError(
            f"{where}: more than {MOST_MARKS:,} entities and relations in one document; cut it into several"
        )


def sentence_tokens(text: str, where: str) -> tuple[list[str], list[int], list[int]]:
    """`tokenize` of a sentence. UserError for one of more tokens than are read, which are never in memory."""
    if len(text) > LONGEST_SENTENCE:
        check_length(count_tokens(text), where)
    return tokenize(text)


def check_range(text: str, start: int, end: int, where: str) -> None:
    """Raises UserError unless text[start:end] lies within the text and is not empty."""
    if not 0 <= start < end <= len(text):
        place = (
            f"{start}..{end}" if abs(start) + abs(end) < 10**12 else "of many digits"
        )  # Python may refuse to print it
        raise UserError(f"{where}: position {place} lies outside the {len(text)} characters of the text")


def check_span(text: str, start: int, end: int, where: str) -> None:
    """Raises UserError unless text[start:end] lies within the text and has more than white space in it."""
    check_range(text, start, end, where)
    if text[start:end].isspace():
        raise UserError(f"{where}: position {start}..{end} covers white space alone; it must cover a word")


def same_words(one: str, other: str) -> bool:
    """Equal but for white space: formats write a mention on one line that may run over two in the text."""
    return "".join(one.split()) == "".join(other.split())


def stretch(text: str, spans: Sequence[tuple[int, int]], words: str | None, where: str) -> tuple[int, int]:
    """From the start of a mention, which may be in pieces, to its end. UserError if a piece lies outside of the text,
    or if `words` is given and is not what the text has there.
    """
    for span in spans:
        check_span(text, *span, where)
    start, end = min(start for start, _ in spans), max(end for _, end in spans)
    pieces = " ".join(text[start:end] for start, end in spans)
    if words is not None and not same_words(words, pieces) and not same_words(words, text[start:end]):
        raise UserError(
            f'{where}: the text at {start}..{end} is "{shortened(text[start:end])}", not "{shortened(words)}"; '
            "the offsets do not match (they must count characters, not bytes, from the start of the text)"
        )
    return start, end


def head_and_tail(first: tuple[str, str], second: tuple[str, str]) -> tuple[str, str]:
    """What two (role, what) pairs point to: the head first where the roles say so, else in the order of the file."""
    turned = first[0].casefold() in _TAILS and second[0].casefold() in _HEADS
    return (second[1], first[1]) if turned else (first[1], second[1])


def trimmed(offset: int, text: str) -> tuple[int, int]:
    """The span of a sentence that begins at `offset` of its document, without the white space around it."""
    start = offset + len(text) - len(text.lstrip())
    return start, start + len(text.strip())


def sentences_at(offset: int, text: str) -> list[tuple[int, int]]:
    """Sentences of a passage that begins at `offset` of its document."""
    return [(offset + start, offset + end) for start, end in sentence_spans(text)]
