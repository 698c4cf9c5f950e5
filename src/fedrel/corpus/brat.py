"""brat standoff: a folder (with those below it) where every NAME.txt may have a NAME.ann beside it, or one such text.

    T1	Drug 0 7	Aspirin
    N1	Reference T1 MESH:D001241	aspirin
    R1	Eases Arg1:T1 Arg2:T2

`fedrel.corpus.standoff` says how the lines are read; events (E) are ignored. The text is read with line feeds as line
ends, unless the offsets were counted with a carriage return before each.
"""

from collections.abc import Iterator
from pathlib import Path

from fedrel.corpus.checks import EMPTY, files, renamed, whole_text
from fedrel.corpus.format import Format, has_extension, same_stem
from fedrel.corpus.standoff import joined, notes_of, placed
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of a folder, or of one text with its annotations. Empty texts, and relations that join events,
    are skipped.
    """
    texts, notes = (
        renamed(files(path, suffix), lambda name: name.with_suffix("").as_posix()) for suffix in (".txt", ".ann")
    )
    for name, file in notes.items():
        if name not in texts:
            raise UserError(f"{file}: there is no {file.with_suffix('.txt').name} beside it; add the text")
    if not texts:
        raise UserError(f"{path}: no .txt file here; brat keeps NAME.txt and NAME.ann side by side")
    for name, file in texts.items():
        try:
            document = _document(name, file, notes.get(name), skip)
        except UserError as error:
            skip.bad(error, str(file))
            continue
        if document.text.strip():
            yield document
        else:
            skip(str(file), EMPTY)


def _document(name: str, file: Path, lines: Path | None, skip: Skipped) -> Document:
    text = whole_text(file)
    if lines is None:
        return Document(name, text.replace("\r\n", "\n"), where=str(file))
    notes = notes_of([lines], "brat", skip)
    text, marked = placed(text, notes, skip)
    relations = tuple(joined(notes.relations, marked, notes.lost, skip))
    return Document(name, text, tuple(marked.values()), relations, str(file))


FORMAT = Format(
    what="a text and its .ann file",
    documents=read,
    gold=True,
    by_name=has_extension(".ann"),
    extensions=(".txt",),
    files=same_stem,
)
