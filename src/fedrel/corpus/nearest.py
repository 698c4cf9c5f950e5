"""What is said of a file in an unknown format: its first record, the nearest format, and what differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Sample
from fedrel.corpus.formats import FORMATS
from fedrel.corpus.looks import RECORDS, first_record, label_names, no_prose, within, within_lists
from fedrel.corpus.tables import cells
from fedrel.errors import UserError
from fedrel.util.escaping import shown

_SHOWN = 160  # characters of the first record


def unknown(sample: Sample) -> UserError:
    """One sentence for a file that no format recognises."""
    return UserError(
        f"{sample.path}: in no format that is known here; its first record is {_first(sample)}; "
        f"nearest is {_nearest(sample)}; see docs/formats.md"
    )


def _first(sample: Sample) -> str:
    if sample.record is not None:
        text = json.dumps(sample.record, ensure_ascii=False)
    elif no_prose(_beginning(sample)) == RECORDS:
        text = " / ".join(first_record(_beginning(sample)))
    else:
        text = sample.lines[0]
    return shown(shortened(text, _SHOWN), 2 * _SHOWN)


def _beginning(sample: Sample) -> str:
    return sample.text or "\n".join(sample.lines)


def _nearest(sample: Sample) -> str:
    """The name of a format and what this file lacks for it, or has beyond it."""
    if sample.keys:
        text = sample.texts.get("text", "")
        marked = within(sample.texts, text) or within_lists(sample.record or {}, text)
        near = _by_names(sample.keys, {name: form.keys for name, form in FORMATS.items()}, marked)
        return near or 'jsonl, which needs "text"'
    delimiter = "\t" if len(sample.columns) > 1 else max(",;", key=sample.lines[0].count)
    table, *rows = cells(sample, delimiter)
    if len(table) > 1:
        marked = next((found for row in rows if (found := within(dict(zip(table, row, strict=True))))), [])
        if near := _by_names(table, {name: form.columns for name, form in FORMATS.items()}, marked):
            return near
    return _by_structure(sample)


def _by_names(names: Iterable[str], known: Mapping[str, Sequence[frozenset[str]]], marked: Sequence[str]) -> str:
    """By the keys of an object, or the names in a header row; empty where no format has any of them. `marked` are those
    of entities.
    """
    own = {_plain(name): name for name in names}
    ranked = sorted(_overlaps(set(own), known), reverse=True)
    if not ranked:
        return ""
    *_, name, needed = ranked[0]
    if missing := [it for it in needed if _plain(it) not in own]:
        return f"{name}, which needs {_listed(missing)} as well"
    if beyond := label_names(it for it in own.values() if it not in needed) or marked:
        return f"{name}, which would leave out {_listed(beyond)} (--source {name} reads it so)"
    return f"{name}, which is {FORMATS[name].what}"


def _overlaps(
    own: set[str], known: Mapping[str, Sequence[frozenset[str]]]
) -> Iterator[tuple[float, int, int, str, list[str]]]:
    for place, (name, ways) in enumerate(known.items()):
        for way in ways:
            if shared := len(own & {_plain(it) for it in way}):
                yield shared / len(way), shared, -place, name, sorted(way)


def _by_structure(sample: Sample) -> str:
    count = len(sample.columns)
    what = no_prose(_beginning(sample))
    if what.startswith("XML"):
        return "bioc, which needs a <collection>"
    if count >= 6:
        return "nyt10, which needs six columns and ###END### at the end of each line"
    if count == 2:
        return "classification, which needs a text and one word, its label, in every line"
    if count > 2:
        return 'table, which needs a first line with the names of the columns, one of them "text"'
    if what == RECORDS:
        return "jsonl, which needs a JSON object in a line for each record"
    if "columns between" in what:
        return 'table, which needs a .csv file with a first line of names of columns, one of them "text"'
    if what == "JSON":
        return 'jsonl, which needs an object with "text" in each line'
    if what:
        return f"text, which has prose where this has {what}"
    return "text, which needs the extension .txt"


def _listed(names: Sequence[str]) -> str:
    quoted = [f'"{shown(name, 60)}"' for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


def _plain(name: str) -> str:
    return name.strip(' "').casefold()
