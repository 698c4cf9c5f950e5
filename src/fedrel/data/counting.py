"""What is counted in a data set: rows and documents of its files, and sentences, pairs and facts of its splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedrel.corpus import FORMATS, Skipped
from fedrel.corpus.checks import LEFT_OUT
from fedrel.corpus.concepts import NOT_MARKED
from fedrel.corpus.lines import is_a_row_a_line, numbered_lines
from fedrel.corpus.pairs import APART, ITSELF
from fedrel.corpus.reading import Reading
from fedrel.corpus.rules import Rules
from fedrel.data.reports import Part, Report
from fedrel.data.store import Dataset, Ints, Split

BAG_SIZES = {"1": (1, 1), "2": (2, 2), "3-5": (3, 5), "6-10": (6, 10), "11+": (11, None)}  # sentences of a pair
_LABELS = 2**20  # more than there are
_UNREAD = (NOT_MARKED, LEFT_OUT)  # why a relation that the file states is in no document
_ROWLESS = (*_UNREAD, APART, ITSELF)  # why a relation that the file states is in no row

Numbers = npt.NDArray[np.int32]


def counts_of_file(split: str, reading: Reading, report: Report, *, look: bool = True) -> dict[str, int]:
    """What the file holds, and what was left out of it; with `look`, suspicious rows are noticed on the way."""
    for where, instance in reading.rows():
        if look:
            report.suspicious.look_at(instance, where, split)
    skipped = reading.skipped
    report.skipped.add(skipped)
    if reading.form.documents is None:
        return {"rows": rows_in(reading.path, report.format), "left_out": skipped.total}
    return {
        "documents": reading.documents,
        "text_sentences": reading.sentences,
        "mentions": reading.mentions,
        "gold_relations": reading.gold_relations + sum(skipped.reasons[why] for why in _UNREAD),
        "relations_without_a_row": sum(skipped.reasons[why] for why in _ROWLESS),
        "left_out": skipped.total,
    }


def rows_in(path: Path, source: str) -> int:
    """The rows of a file. Where a line is a row they are counted apart from the reader, so that a row which it loses
    would show.
    """
    header_rows = FORMATS[source].header_rows
    if header_rows is None or not is_a_row_a_line(path):
        reading = Reading(source, path, Rules(bad_rows=1))
        return sum(1 for _ in reading.rows()) + reading.skipped.total
    broken = Skipped()
    lines = numbered_lines(path, broken)
    first = next(lines, None)
    count = 1 + sum(1 for _ in lines) - header_rows(path, first[1]) if first else 0
    return count + broken.total


def add_counts(part: Part, dataset: Dataset, split: Split, rows: Ints | slice = slice(None)) -> None:
    """Adds what is in these rows of a split."""
    pairs, labels = np.asarray(split.pairs)[rows], np.asarray(split.labels)[rows]
    facts, sentences = np.unique(_facts(pairs, labels), return_counts=True)
    is_fact = facts % _LABELS > 0 if dataset.has_na else np.ones(len(facts), bool)  # 0 is NA
    _, sizes = np.unique(pairs, return_counts=True)
    part.counts |= {
        "sentences": len(labels),
        "pairs": len(sizes),
        "facts": int(is_fact.sum()),
        "facts_in_several_sentences": int((sentences[is_fact] > 1).sum()),
    }
    part.labels = {dataset.relations[number]: count for number, count in sorted(Counter(labels.tolist()).items())}
    part.bag_sizes = {
        name: int(((sizes >= low) & (sizes <= (high or sizes.max(initial=0)))).sum())
        for name, (low, high) in BAG_SIZES.items()
    }


def _facts(pairs: Numbers, labels: Numbers) -> Ints:
    """One number for each pair with its label."""
    return pairs.astype(np.int64) * _LABELS + labels


def held_by_several(split: Split, holders: Iterable[Ints]) -> tuple[int, int]:
    """How many facts of pairs are in the rows of more than one of these holders, and how many in those of any."""
    pairs, labels = np.asarray(split.pairs), np.asarray(split.labels)
    each = [np.unique(_facts(pairs[rows], labels[rows])[labels[rows] > 0]) for rows in holders]
    _, counts = np.unique(np.concatenate(each), return_counts=True)
    return int((counts > 1).sum()), len(counts)


def shared(dataset: Dataset, one: str, other: str) -> int:
    """How many pairs are in both of two splits."""
    pairs, others = (set(map(tuple, getattr(dataset, name).pair_entities.tolist())) for name in (one, other))
    return len(pairs & others)
