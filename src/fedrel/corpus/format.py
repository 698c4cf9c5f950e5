"""What fedrel knows of a format of files: one `Format` each, in the file of its reader.

Adding one to fedrel takes a file with a `FORMAT` in it, and its import and entry in `fedrel.corpus.formats`. Another
package adds one by an entry point of the group `fedrel.formats` that names its `FORMAT`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fedrel.corpus.types import Document, Instance, LabelledText, Skipped

Item = TypeVar("Item")
Reader = Callable[[Path, Skipped], Iterator[Item]]  # what it leaves out, it reports to the second argument
Placed = tuple[str, Item]  # with its place for messages, file:line
_FIRST_OBJECT = re.compile(r"\s*(?:\[\s*)?(?=\{)")
_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)("?)|[][{}:,]', re.DOTALL)  # of JSON; a string may be cut off


@dataclass(frozen=True)
class Sample:
    """The beginning of a file, by which its format is recognised."""

    path: Path
    lines: Sequence[str]  # the first few that are not blank, at least one, without line ends; the last may be cut off
    text: str = ""  # the first few million characters, with those lines at their beginning; empty: the lines are all
    is_cut: bool = False  # whether the file goes on after that text

    @property
    def suffix(self) -> str:
        """The extension in lower case, with its dot."""
        return self.path.suffix.lower()

    @property
    def columns(self) -> list[str]:
        """The cells of the first line, which tabs separate, without white space around them."""
        return [cell.strip() for cell in self.lines[0].split("\t")]

    @cached_property
    def keys(self) -> set[str]:
        """The keys of the first JSON object, which may be the first of an array and go over several lines; of one that
        is cut off, those as far as it goes. Empty where the file does not begin with an object or an array of them.
        """
        found: set[str] = set()
        name, depth = None, 0
        for token in _TOKEN.finditer(self._text, self._object_at) if self._object_at is not None else ():
            mark = token[0]
            if mark == ":" and depth == 1 and name is not None:
                found.add(name)
            name = token[1] if token[2] else None
            depth += (mark in ("{", "[")) - (mark in ("}", "]"))
            if depth == 0:
                break
        return found

    @cached_property
    def record(self) -> dict[str, Any] | None:
        """The first JSON object, as in `keys`; None if there is none, or if it is cut off or damaged."""
        try:
            found = None if self._object_at is None else json.JSONDecoder().raw_decode(self._text, self._object_at)[0]
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    @cached_property
    def texts(self) -> dict[str, str]:
        """The values of the first JSON object that are text, or objects with text in them, by their keys."""
        found = {}
        for key, value in (self.record or {}).items():
            inner = value.values() if isinstance(value, dict) else (value,)
            if text := next((it for it in inner if isinstance(it, str)), ""):
                found[key] = text
        return found

    @property
    def ends_in_the_first_object(self) -> bool:
        """Whether the first JSON object is longer than what is shown of the file."""
        return self.is_cut and self._object_at is not None and len(self.lines) == 1 and self.record is None

    @property
    def is_array(self) -> bool:
        """Whether the file begins like a JSON array."""
        return self._text.lstrip().startswith("[")

    @property
    def _text(self) -> str:
        return self.text or "\n".join(self.lines)

    @cached_property
    def _object_at(self) -> int | None:
        match = _FIRST_OBJECT.match(self._text)
        return match.end() if match else None


@dataclass(frozen=True, kw_only=True)
class Format:
    """How files of one format are read and recognised, which of them are which split, and what their labels are.

    Exactly one of `sentences`, `documents` and `texts` is given. A reader raises UserError, with file and line, for
    input that it cannot read; rows that are left out for a good reason it reports to the `Skipped` that it is given.
    """

    what: str  # in a few words, for people who look for the name of theirs
    sentences: Reader[Placed[Instance]] | None = None  # sentences with one labelled pair of entities each
    documents: Reader[Document] | None = None  # whole texts; it is given a file, or a folder of them
    texts: Reader[Placed[LabelledText]] | None = None  # texts with one label each

    # Labels. Gold ones are evaluated sentence by sentence; those of distant supervision as a ranking of facts.
    gold: bool = False  # people labelled the sentences; of documents: relations may be marked in them
    metric: str = ""  # default of training.metric; empty: see `default_metric`
    undirected: bool = False  # its relations have no direction: the head is the mention that comes first in the text
    blinded: bool = False  # names of entities are replaced, so that it is unknown which rows are about the same pair

    # Recognition. Names come before content, and content that is specific to a format before that of `general` ones.
    by_name: Callable[[Path], bool] | None = None  # whether the name of a file says that it is in this format
    by_content: Callable[[Sample], str | None] | None = None  # what in a file says so, in a few words, if anything does
    general: bool = False  # `by_content` looks for what files of other formats may have, too
    # Each way to write a row: the keys of its JSON object, the names in a header row. An unknown file is compared.
    keys: tuple[frozenset[str], ...] = ()
    columns: tuple[frozenset[str], ...] = ()

    # Files. A split is a file named after it (train.jsonl, nyt10_val.txt); of documents, or a folder.
    extensions: tuple[str, ...] = (".jsonl", ".json", ".txt", ".tsv")  # of these files, in lower case
    infixes: tuple[str, ...] = ()  # parts of their names to ignore when looking for the split: .bioc in train.bioc.xml
    candidates: Callable[[Path], Iterable[Path]] | None = None  # these files in a folder, where extensions do not do
    training_file: str = ""  # what a training file may be called, for messages; empty: train and an extension
    files: Callable[[Path], Sequence[Path]] | None = None  # all files that a split in one is read from; None: only it
    # The folder beside a split's that holds the texts of its annotations, if they lie apart.
    texts_beside: Callable[[Path], Path | None] | None = None
    # Whether a split has no labels, as test data that are to be predicted. None: if no document states a relation.
    unlabelled: Callable[[Path], bool] | None = None
    # Where each line is a row: how many lines come before the first row, by the file and its first line. Else None.
    header_rows: Callable[[Path, str], int] | None = None

    def __post_init__(self) -> None:
        if sum(it is not None for it in (self.sentences, self.documents, self.texts)) != 1:
            raise ValueError("a Format needs exactly one of sentences, documents and texts")

    @property
    def labelled(self) -> bool:
        """Whether it can be trained on."""
        return self.documents is None or self.gold

    @property
    def default_metric(self) -> str:
        """What chooses the best round unless the experiment says otherwise: `metric`, else accuracy for labelled texts,
        micro_f1 for gold labels and ap, average precision of the ranked facts, for distant supervision.
        """
        return self.metric or ("accuracy" if self.texts else "micro_f1" if self.gold else "ap")


def no_header(path: Path, first: str) -> int:
    """`header_rows` of a format whose first line is a row."""
    return 0


def has_extension(*extensions: str) -> Callable[[Path], bool]:
    """`by_name` of a format that has extensions of its own, given in lower case with their dots."""
    return lambda path: path.suffix.lower() in extensions


def same_stem(path: Path) -> list[Path]:
    """`files` of a format that keeps a text and its annotations side by side: all that differ in extension alone."""
    return sorted(file for file in path.parent.iterdir() if file.is_file() and file.stem == path.stem)
