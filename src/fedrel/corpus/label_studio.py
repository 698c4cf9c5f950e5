"""Label Studio's exports of spans and relations: JSON, an array of tasks, or JSON-MIN, which has no relations.

    [{"id": 1, "data": {"text": "Ann Lee runs Acme."}, "annotations": [{"was_cancelled": false, "result": [
      {"id": "a", "type": "labels", "value": {"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]}, …}, …,
      {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right", "labels": ["runs"]}]}]}, …]
    [{"id": 1, "text": "Ann Lee left.", "label": [{"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]}]}]

The text is under the key of the data that holds what the spans say they cover, "text" before others. Of several
annotations of a task, one is read that was not cancelled: one marked as the ground truth, or else the latest
("updated_at", "created_at", then the highest "id", then the last). A task whose annotations were all cancelled is left
out. A relation with the direction "left" goes from its
"to_id" to its "from_id"; one without labels is called "related", one with several labels is several relations. Places
may also be counted in UTF-16 units, as browsers do, or with inclusive ends, as early versions did, where "text" shows
it. What people answered otherwise (choices, ratings) says nothing about spans and is ignored.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from fedrel.corpus.checks import EMPTY, each_file, same_words
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.lines import each_object
from fedrel.corpus.marks import Marks, named
from fedrel.corpus.types import Document, Skipped
from fedrel.errors import UserError

RELATED = "related"  # what a relation without a label is called
_AGAIN = "another annotation of its task is read: the ground truth, or else the latest"
_CANCELLED = "cancelled by its annotator: another annotation of its task is read"
_ALL_CANCELLED = "its annotation was cancelled"
_SECOND = "the entity is labelled a second time: the first label is read"
_RUNS = ("annotations", "completions")  # the second until version 1.0
_SKIPPED = ("was_cancelled", "skipped")
_LATEST = 1e12  # seconds since 1970 that are still taken for a date
_Age = tuple[float, int, int]  # of an annotation: its date, its number, its place
_WIDE = re.compile("[\U00010000-\U0010ffff]")


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """Every task of one file. Those without text, and those that were cancelled, are skipped; further annotations of a
    task are counted.
    """
    wanted = _latest_rows(path)
    for where, document in each_object(path, skip, lambda row, where: _document(row, where, path, skip, wanted)):
        if document and document.text.strip():
            yield document
        elif document:
            skip(where, EMPTY)


def _latest_rows(path: Path) -> dict[str, str]:
    """JSON-MIN has a row for each annotation of a task: by the name of the task, the place of the latest that can be
    read.
    """
    found: dict[str, tuple[_Age, str]] = {}

    def row_of_task(row: dict[str, Any], where: str) -> dict[str, Any]:
        if not _is_task(row):
            _minimal(row, "", where, Skipped())
        return row

    for place, (where, row) in enumerate(each_object(path, Skipped(), row_of_task)):
        if not _is_task(row) and (name := named(row.get("id"))):
            age = _age({**row, "id": row.get("annotation_id")}, place)
            found[name] = max(found.get(name, (age, where)), (age, where))
    return {name: where for name, (_, where) in found.items()}


def _is_task(row: dict[str, Any]) -> bool:
    return isinstance(row.get("data"), dict)


def _document(row: dict[str, Any], where: str, path: Path, skip: Skipped, wanted: Mapping[str, str]) -> Document | None:
    name = named(row.get("id")) or path.name + where.removeprefix(str(path))
    if not _is_task(row):
        if wanted.get(name, where) == where:
            return _minimal(row, name, where, skip)
        skip(where, _AGAIN)
        return None
    runs = _runs(row, where)
    if not runs:
        return Document(name, _text(row["data"], [], where), where=where)
    results = _results(runs, where, skip)
    if results is None:
        return None
    spans = [it for it in results if isinstance(it, dict) and _is_span(it.get("value"))]
    marks = Marks(_text(row["data"], [it["value"] for it in spans], where), skip)
    _mark_all(marks, [(it.get("id"), it["value"]) for it in spans], where, skip)
    for count, it in enumerate(results, 1):
        if isinstance(it, dict) and it.get("type") == "relation":
            _join(marks, it, f"{where}: result {count}")
    return Document(name, marks.text, marks.annotations, marks.relations, where)


def _minimal(row: dict[str, Any], name: str, where: str, skip: Skipped) -> Document:
    spans = [it for found in row.values() if isinstance(found, list) for it in found if _is_span(it)]
    marks = Marks(_text(row, spans, where), skip)
    _mark_all(marks, [(None, it) for it in spans], where, skip)
    return Document(name, marks.text, marks.annotations, None, where)


def _runs(row: dict[str, Any], where: str) -> list[dict[str, Any]]:
    runs = next((row[key] for key in _RUNS if key in row), None) or []
    if not isinstance(runs, list) or not all(isinstance(it, dict) for it in runs):
        raise UserError(f'{where}: "annotations" must be a list of objects {{…}}; export the project as JSON')
    return runs


def _results(runs: list[dict[str, Any]], where: str, skip: Skipped) -> list[Any] | None:
    """What the annotation marks that counts; None, reported once, if all were cancelled."""
    done = {place: it for place, it in enumerate(runs) if not any(it.get(key) for key in _SKIPPED)}
    if not done:
        skip(where, _ALL_CANCELLED)
        return None
    chosen = max(done, key=lambda place: (done[place].get("ground_truth") is True, _age(done[place], place)))
    for why, count in ((_AGAIN, len(done) - 1), (_CANCELLED, len(runs) - len(done))):
        if count:
            skip(where, why, count)
    results = done[chosen].get("result")
    if not isinstance(results, list):
        raise UserError(f'{where}: "result" of an annotation must be a list; export the project as JSON')
    return results


def _age(run: Mapping[str, Any], place: int) -> _Age:
    """The larger, the later."""
    number = run.get("id")
    dates = (_seconds(run.get(key)) for key in ("updated_at", "created_at"))
    return next((it for it in dates if it), 0.0), number if type(number) is int else 0, place


def _seconds(date: object) -> float:
    """A date since 1970, as text or, in early versions, a number; 0 if there is none."""
    if isinstance(date, int | float):
        return float(date) if abs(date) < _LATEST else 0.0
    try:
        told = datetime.fromisoformat(date) if isinstance(date, str) else None
    except ValueError:
        return 0.0
    return 0.0 if told is None else (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()


def _is_span(value: Any) -> bool:
    """Spans of text have numbers and labels; those of pictures, choices and the like do not."""
    return isinstance(value, dict) and "start" in value and "end" in value and isinstance(_labels(value), list)


def _labels(value: Mapping[str, Any]) -> Any:
    return next((value[key] for key in ("labels", "hypertextlabels", "paragraphlabels") if key in value), None)


def _text(data: Mapping[str, Any], spans: list[dict[str, Any]], where: str) -> str:
    """The text that the spans are places in: the first that has all of their words, else most of them."""
    texts = {key: it for key, it in data.items() if isinstance(it, str)}
    order = sorted(texts, key=lambda key: key != "text")
    if not order:
        raise UserError(f'{where}: no text in the data of the task, such as {{"text": "…"}}')
    fitting = {key: sum(_place(texts[key], span) is not None for span in spans) for key in order}
    return texts[max(order, key=lambda key: fitting[key])]


def _mark_all(marks: Marks, spans: list[tuple[object, dict[str, Any]]], where: str, skip: Skipped) -> None:
    known: set[str] = set()
    for count, (key, value) in enumerate(spans, 1):
        place, name = f"{where}: span {count}", named(key)
        if name and name in known:
            skip(place, _SECOND)
            continue
        known.add(name)
        marks.entity(key, partial(_span, marks.text, value, place), (_labels(value) or [""])[0], place)


def _span(text: str, value: dict[str, Any], where: str) -> tuple[object, object]:
    if found := _place(text, value):
        return found
    start, end = value["start"], value["end"]
    if type(start) is not int or type(end) is not int:
        raise UserError(f"{where}: start and end must be whole numbers (spans of HTML are not read)")
    if not 0 <= start < end <= len(text):
        return start, end
    raise UserError(
        f'{where}: the text at {start}..{end} is "{shortened(text[start:end])}", not '
        f'"{shortened(str(value.get("text")))}"; was the text changed after it was annotated?'
    )


def _place(text: str, value: Mapping[str, Any]) -> tuple[int, int] | None:
    """Start and end in characters, whichever way they were counted; None if the words of the span are not there."""
    start, end, words = value["start"], value["end"], value.get("text")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= 2 * len(text):
        return None
    if not isinstance(words, str):
        return start, end
    words = words.replace("\\n", "\n")
    ways = [(start, end), (start, end + 1)]
    if wide := _wide(text):
        ways.append((start - bisect_left(wide, start), end - bisect_left(wide, end)))
    return next((way for way in ways if same_words(text[way[0] : way[1]], words)), None)


@lru_cache(maxsize=8)
def _wide(text: str) -> list[int]:
    """Where characters of two UTF-16 units are, counted in units."""
    return [match.start() + count for count, match in enumerate(_WIDE.finditer(text))]


def _join(marks: Marks, it: dict[str, Any], where: str) -> None:
    head, tail = it.get("from_id"), it.get("to_id")
    if it.get("direction") == "left":
        head, tail = tail, head
    given = it.get("labels")
    labels = [name for label in given if (name := named(label))] if isinstance(given, list) else []
    for label in labels or [RELATED]:
        marks.relation(head, label, tail, where)


def _by_content(sample: Sample) -> str | None:
    if "data" in sample.keys and sample.keys & {*_RUNS}:
        return 'tasks with "data" and "annotations"'
    if {"annotator", "annotation_id"} <= sample.keys:  # the first task may have no span
        return 'tasks with "annotator" and "annotation_id"'
    record = sample.record or {}
    if any(_is_span(it) for found in record.values() if isinstance(found, list) for it in found[:3]):
        return 'tasks with spans that have "start", "end" and "labels"'
    return None


FORMAT = Format(
    what="Label Studio's JSON or JSON-MIN export",
    documents=each_file(read, ".json", ".jsonl"),
    gold=True,
    by_content=_by_content,
    keys=(frozenset(("data", "annotations")), frozenset(("text", "label"))),
    extensions=(".json", ".jsonl"),
)
