"""BioC JSON: a collection in a file, a collection or document a line, or an array of them.

    {"source": "…", "date": "…", "key": "…", "documents": [{"id": "1234", "passages": [{"offset": 0, "text": "…",
      "annotations": [{"id": "1", "infons": {"type": "Drug"}, "text": "…", "locations": [{"offset": 0, "length": 7}]}
     ]}], "relations": [{"id": "R1", "infons": {"type": "Eases"}, "nodes": [{"refid": "1", "role": ""}, …]}]}, …]}

What is made of passages, annotations and relations, `fedrel.corpus.bioc` says. BioRED comes so; PubTator 3 exports
{"PubTator3": [documents]}.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus import bioc
from fedrel.corpus.bioc import Join, Mark, Passage, Source
from fedrel.corpus.checks import EMPTY, each_file
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.json_stream import LONGEST, members
from fedrel.corpus.lines import begins_with, each_object
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

_LISTS = ("documents", "PubTator3")
_PARTS = ("passages", "annotations", "relations")  # lists of a document
_KEY = re.compile(r'"(\w+)"\s*:')
_BEGINNING = 20_000  # characters in which the keys of the first document are looked for


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every document of one file. Those without text are skipped."""
    count = 0
    for where, found in _rows(path, skip):
        count += 1
        name = (_name(found.get("id")) if isinstance(found, dict) else "") or f"{path.name}#{count}"
        place = f"{where}: document {shortened(name)}"
        try:
            document = bioc.document(_source(found, name, place, skip), place, place, skip)
        except UserError as error:
            skip.bad(error, place)
            continue
        if document.text.strip():
            yield document
        else:
            skip(place, EMPTY)


def _rows(path: Path, skip: Skipped) -> Iterator[tuple[str, Any]]:
    """What should be a document, each with the place of the collection that holds it."""
    if begins_with(path, b"{") and not _is_lines(path):
        yield from _of_object(path)
        return
    for where, found in each_object(path, skip, _documents):
        yield from ((where, it) for it in found)


def _of_object(path: Path) -> Iterator[tuple[str, Any]]:
    """The documents of a file that is one object: a collection, or a single document, which is in memory whole."""
    document: dict[str, Any] = {}
    is_collection, is_large = False, path.stat().st_size > LONGEST
    for key, number, line, item in members(path):
        if key in _LISTS:
            is_collection = True
            if not number and item is not None:
                raise UserError(f'{path}: "{key}" must be a list')
            if number:
                yield f"{path}:{line}", item
        elif isinstance(item, UserError):
            raise item
        elif number and is_large and key in _PARTS:
            raise UserError(f"{path}: a document of more than {LONGEST // 2**20} MB; cut it into several")
        elif number:
            document.setdefault(key, []).append(item)
        else:
            document[key] = item
    if not is_collection:
        yield from ((str(path), it) for it in _documents(document, str(path)))


def _is_lines(path: Path) -> bool:
    """Whether each line is to be an object: the first one is, or ends like one where another follows."""
    try:
        with path.open("rb") as file:
            lines = (line for line in iter(lambda: file.readline(LONGEST + 1), b"") if line.strip())
            first, more = next(lines, b""), next(lines, b"")
        json.loads(first.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return bool(more) and first.rstrip().endswith(b"}")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    return True


def _documents(row: dict[str, Any], where: str) -> list[Any]:
    """Those of a collection, or the one that it is itself."""
    for key in _LISTS:
        if key in row:
            return _list(row, key, where)
    if "passages" not in row:
        raise UserError(f'{where}: neither "documents" nor "passages" is in it; BioC needs one of them')
    return [row]


def _source(row: object, name: str, where: str, skip: Skipped) -> Source:
    if isinstance(row, UserError):
        raise row
    found = Source(name)
    document = _object(row, "a document", where)
    _collect(document, found, where, skip)
    for passage in _objects(document, "passages", where):
        sentences = _objects(passage, "sentences", where)
        given = [(it.get("offset"), _text(it, where)) for it in sentences]
        found.passages.append(Passage(passage.get("offset"), _text(passage, where), given))
        for it in (passage, *sentences):
            _collect(it, found, where, skip)
    return found


def _collect(row: dict[str, Any], found: Source, where: str, skip: Skipped) -> None:
    """The annotations and relations that stand directly in an object."""
    for it in _list(row, "annotations", where):
        try:
            mark = _object(it, "an annotation", where)
            locations = [(place.get("offset"), place.get("length")) for place in _objects(mark, "locations", where)]
            found.marks.append(Mark(_name(mark.get("id")), _infons(mark, where), _text(mark, where), locations))
        except UserError as error:
            skip.bad(error, where)
            found.lost |= {_name(it.get("id"))} if isinstance(it, dict) else set()
    for it in _list(row, "relations", where):
        try:
            join = _object(it, "a relation", where)
            nodes = [(_name(node.get("role")), _name(node.get("refid"))) for node in _objects(join, "nodes", where)]
            found.joins.append(Join(_name(join.get("id")), _infons(join, where), nodes))
        except UserError as error:
            skip.bad(error, where)


def _list(row: dict[str, Any], key: str, where: str) -> list[Any]:
    value = row.get(key)
    if value is not None and not isinstance(value, list):
        raise UserError(f'{where}: "{key}" must be a list')
    return value or []


def _object(value: object, what: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{where}: {what} must be an object {{…}}")
    return value


def _objects(row: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    return [_object(it, f'each of "{key}"', where) for it in _list(row, key, where)]


def _infons(row: dict[str, Any], where: str) -> dict[str, object]:
    value = row.get("infons")
    return {} if value is None else _object(value, '"infons"', where)


def _text(row: dict[str, Any], where: str) -> str:
    value = row.get("text")
    if value is not None and not isinstance(value, str):
        raise UserError(f'{where}: "text" must be text')
    return value or ""


def _name(value: object) -> str:
    return str(value) if type(value) is int and abs(value) < 10**18 else value.strip() if isinstance(value, str) else ""


def _by_content(sample: Sample) -> str | None:
    beginning = "".join(sample.lines)[:_BEGINNING].lstrip()
    if not beginning.startswith(("{", "[")):
        return None
    keys = set(_KEY.findall(beginning))
    if "PubTator3" in keys or keys >= {"passages", "infons"} or keys >= {"source", "date", "key"}:
        return "JSON with the keys of a BioC collection"
    return None


FORMAT = Format(
    what="BioC JSON, also PubTator 3's",
    documents=each_file(read, ".json", ".jsonl"),
    gold=True,
    by_content=_by_content,
    extensions=(".json", ".jsonl"),
    infixes=(".bioc",),
)
