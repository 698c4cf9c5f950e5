"""Documents of any format, in pieces of work, with their size in all for an estimate of the time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fedrel.corpus.archives import unpacked
from fedrel.corpus.detection import detect
from fedrel.corpus.file_counts import FileCounts
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.reading import require_few_broken
from fedrel.corpus.rules import Rules
from fedrel.corpus.splits import counted
from fedrel.corpus.types import Document, Skipped, lots
from fedrel.errors import UserError, suggest

_PIECE = 400_000  # characters of a piece of work


@dataclass
class Documents:
    """The documents of a file or folder, read anew on every pass, and what was left out of them. UserError for a path
    or a format without documents.
    """

    path: Path  # once made: where the data are that were packed in it, if they were
    source: str = ""  # a format; empty: detected
    skipped: Skipped = field(default_factory=Skipped)
    why: str = ""  # what the format was recognised by, if it was detected
    bad_rows: float = Rules().bad_rows  # the share of broken rows that is tolerated; 0: nor is a broken file

    def __post_init__(self) -> None:
        texts = [name for name, form in FORMATS.items() if form.documents]
        try:
            self.path.name.encode()
        except UnicodeEncodeError:  # documents are called after it
            raise UserError(f"the name of {os.fsencode(self.path)!r} is not UTF-8; rename it") from None
        given, self.path = self.path, unpacked(self.path)
        if not self.path.exists():
            raise UserError(f"{given}: no such file or folder")
        if not self.source:
            found = detect(self.path, text=True)
            self.source, self.why = found.source, found.why
        elif self.source not in texts:
            raise UserError(f'"{self.source}" is no format of documents{suggest(self.source, texts)}')
        if self.source not in texts:
            raise UserError(
                f"{self.path}: {FORMATS[self.source].what} ({self.source}); text to read is wanted here: "
                f"{', '.join(texts)}"
            )

    def __iter__(self) -> Iterator[Document]:
        """Every document. UserError at the end if more of what is in them is broken than is tolerated: a share of the
        rows, or half of the files of a folder of text.
        """
        read = FORMATS[self.source].documents
        assert read is not None
        self.skipped.strict, self.skipped.files = self.bad_rows == 0, FileCounts()
        marked = 0
        for document in read(self.path, self.skipped):
            marked += 1 + len(document.annotations or ()) + len(document.relations or ())
            yield document
        if self.source != "text":
            require_few_broken(self.path, self.skipped, marked, self.bad_rows)
            self.skipped.files = counted(self.path, self.source)
        self.skipped.files.require_few_broken(self.path)

    @property
    def files(self) -> FileCounts | None:
        """What became of each file of a folder in the latest pass; None for a single file."""
        return self.skipped.files if self.path.is_dir() else None

    def pieces(self) -> Iterator[list[Document]]:
        """The documents in batches, each enough work for a process."""
        return lots(self, _PIECE)

    @property
    def bytes(self) -> int:
        """On disk: about as many characters as there will be."""
        if self.path.is_file():
            return self.path.stat().st_size
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())
