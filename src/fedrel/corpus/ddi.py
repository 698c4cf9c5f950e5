"""The corpus of DDI Extraction 2013 (SemEval task 9): drugs and their interactions, a document a file.

    <document id="d1"><sentence id="d1.s0" text="Aspirin may boost warfarin.">
    <entity id="d1.s0.e0" charOffset="0-6" type="drug" text="Aspirin"/> <entity id="d1.s0.e1" charOffset="18-25" …/>
    <pair id="d1.s0.p0" e1="d1.s0.e0" e2="d1.s0.e1" ddi="true" type="effect"/></sentence></document>

The end of a place is its last character; an entity in pieces (`0-6;10-12`) becomes the span from its first piece to its
last. Every pair of entities in a sentence is listed: ddi="false" is NA. One interaction of the published corpus has no
type; it is read as int, which says of an interaction no more than that there is one. Published are 27,792 pairs (4,021
interactions) to train on and 5,716 (979) to test on.

The folder Test also holds the test of the other task, to find drugs ("Test for DrugNER task"): it is left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus.checks import EMPTY, files, stretch, trimmed
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.lines import LARGEST
from fedrel.corpus.types import NA, Annotation, Document, Skipped
from fedrel.corpus.xml_elements import children, line_of
from fedrel.errors import UserError

_PLACES = re.compile(r"\s*[0-9]{1,9}\s*-\s*[0-9]{1,9}\s*(?:;\s*[0-9]{1,9}\s*-\s*[0-9]{1,9}\s*)*")
_OTHER_TASK = re.compile(r"(?:^|[ _-]|drug)ner(?:$|[ _-])", re.IGNORECASE)  # in the name of a folder
_UNTYPED = "int"


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of a folder and of those below it, or of one file. Those without text are skipped."""
    if not path.is_dir():
        yield from _read(path, skip)
        return
    found = files(path, ".xml")
    if not found:
        raise UserError(f"{path}: no .xml file in this folder")
    for name, file in found.items():
        if any(_OTHER_TASK.search(part) for part in Path(name).parts[:-1]):
            skip(str(file), "it is of the task of finding drugs, not of their interactions")
        else:
            yield from _read(file, skip)


def _read(path: Path, skip: Skipped) -> Iterator[Document]:
    """The document of one file."""
    if path.is_file() and (size := path.stat().st_size) > LARGEST:
        raise UserError(f"{path}: {size >> 20:,} MB in one document; at most {LARGEST >> 20} MB are read: cut it")
    name, found = path.name, _Sentences(path, skip)
    for root, element in children(path, "document", "the DDI corpus"):
        name = root.get("id", "").strip() or name
        if element.tag == "sentence":
            found.add(element)
    if not found.spans:
        skip(str(path), EMPTY)
        return
    text, annotations = "\n".join(found.texts), tuple(found.annotations.values())
    yield Document(
        name, text, annotations, tuple(found.relations), str(path), sentences=tuple(found.spans), listed=True
    )


class _Sentences:
    """What the sentences of a document hold, as far as they were added."""

    def __init__(self, path: Path, skip: Skipped) -> None:
        self._path, self._skip = path, skip
        self._length = 0  # of the texts, with a line end after each
        self._lost: set[str] = set()  # entities that were left out
        self.texts: list[str] = []
        self.spans: list[tuple[int, int]] = []
        self.annotations: dict[str, Annotation] = {}
        self.relations: list[tuple[str, str, str]] = []

    def add(self, sentence: Any) -> None:
        text, where = sentence.get("text"), line_of(self._path, sentence)
        if text is None:
            words = f'{where}: a <sentence> without its text; write it as text="…"'
            self._skip.bad(UserError(words), where)
            return
        if not text.strip():
            return
        for element in sentence.iterfind("entity"):
            where = line_of(self._path, element)
            try:
                self._entity(element, text, where)
            except UserError as error:
                self._skip.bad(error, where)
                self._lost.add(element.get("id", ""))
        for element in sentence.iterfind("pair"):
            where = line_of(self._path, element)
            try:
                self._pair(element, where)
            except UserError as error:
                self._skip.bad(error, where)
        self.texts.append(text)
        self.spans.append(trimmed(self._length, text))
        self._length += len(text) + 1

    def _entity(self, element: Any, text: str, where: str) -> None:
        key, places = element.get("id", ""), element.get("charOffset", "")
        if not key:
            raise UserError(f'{where}: an <entity> without a name; give it one, such as id="d1.s0.e0"')
        if key in self.annotations:
            raise UserError(f'{where}: the entity "{shortened(key)}" is there twice; give each its own id')
        if not _PLACES.fullmatch(places):
            raise UserError(f'{where}: charOffset is "{shortened(places)}"; it must be such as 0-6 or 0-6;10-12')
        ends = [piece.split("-") for piece in places.split(";")]
        pieces = [(int(first), int(last) + 1) for first, last in ends]
        start, end = stretch(text, pieces, element.get("text"), where)
        self.annotations[key] = Annotation(
            key, self._length + start, self._length + end, element.get("type", "").strip()
        )

    def _pair(self, element: Any, where: str) -> None:
        ends, ddi = (element.get("e1", ""), element.get("e2", "")), element.get("ddi", "").strip().casefold()
        if ddi not in ("true", "false"):
            raise UserError(f'{where}: a <pair> must say whether it interacts, ddi="true" or ddi="false"')
        for key in ends:
            if key not in self.annotations and key in self._lost:
                self._skip(where, "the relation needs an entity that was left out")
                return
            if key not in self.annotations:
                raise UserError(f'{where}: the pair names the entity "{shortened(key)}", which is not there; add it')
        relation = (element.get("type", "").strip() or _UNTYPED) if ddi == "true" else NA
        self.relations.append((ends[0], relation, ends[1]))


def _by_content(sample: Sample) -> str | None:
    beginning = "".join(sample.lines)
    if not beginning.lstrip().startswith("<") or not re.search(r"<document\s[^>]*\bid\s*=", beginning):
        return None
    return "XML with <sentence text=…>" if re.search(r"<sentence\s[^>]*\btext\s*=", beginning) else None


FORMAT = Format(
    what="DDI Extraction 2013: XML with <sentence>, <entity> and <pair>",
    documents=read,
    gold=True,
    undirected=True,
    by_content=_by_content,
    extensions=(".xml",),
)
