"""CrowdTruth's medical relations: what crowd workers say of a sentence, beside what an expert says.

A folder with relex_sentences.tsv, relex_judgments.tsv (a worker may tick several of 14 relations), and
ground_truth_cause.csv and ground_truth_treat.csv (the expert's label, 1 or -1, where there is one). The two halves have
no identifier in common; they are joined by the sentence's text.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedrel.corpus.checks import opened
from fedrel.corpus.columns import shortened
from fedrel.corpus.types import Skipped
from fedrel.errors import UserError

TICKS = {"cause": "[CAUSES]", "treat": "[TREATS]"}  # what a worker ticks who sees the relation
_EXPERT = {"1": True, "-1": False, "": None, "NA": None}


@dataclass(frozen=True)
class Judgment:
    """A worker's answer, read as a verdict on the prediction of `relation` for a sentence."""

    user: str
    sentence: str  # its identifier
    relation: str
    right: bool  # the worker ticked the relation
    correct: bool  # the expert says that it is there


def judgments(folder: Path, relation: str, skip: Skipped | None = None) -> Iterator[Judgment]:
    """Those on sentences with an expert's label. Of a worker who saw a sentence twice, the first counts. Broken rows
    are reported to `skip`; without one, the first is raised.
    """
    skip = Skipped(strict=True) if skip is None else skip
    if relation not in TICKS:
        raise UserError(f'"{relation}" has no expert labels; there is {", ".join(TICKS)}')
    truth = _expert(folder / f"ground_truth_{relation}.csv", skip)
    name_of: dict[str, str] = {}  # by text; one text is there under two identifiers
    joined: dict[str, tuple[str, bool]] = {}  # identifier -> that of its text, and the expert's label
    for _, row in _rows(folder / "relex_sentences.tsv", "\t", ("sent_id", "sentence"), skip):
        if (label := truth.get(row["sentence"])) is not None:
            joined[row["sent_id"]] = name_of.setdefault(row["sentence"], row["sent_id"]), label
    seen: set[tuple[str, str]] = set()
    for where, row in _rows(folder / "relex_judgments.tsv", "\t", ("sent_id", "worker", "answer"), skip):
        worker, answer = row["worker"], row["answer"]
        if not answer.startswith("[") or not worker:
            error = f'{where}: "{shortened(answer)}" is no answer of a worker, as [CAUSES]|[TREATS] is'
            skip.bad(UserError(error), where)
        elif row["sent_id"] in joined:
            sentence, correct = joined[row["sent_id"]]
            if (worker, sentence) not in seen:
                seen.add((worker, sentence))
                yield Judgment(worker, sentence, relation, TICKS[relation] in answer.split("|"), correct)


def _expert(path: Path, skip: Skipped) -> dict[str, bool]:
    """The expert's label of each sentence that has one, by its text."""
    labels: dict[str, bool] = {}
    for where, row in _rows(path, ",", ("expert", "sentence"), skip):
        if row["expert"] not in _EXPERT:
            error = f'{where}: expert is "{shortened(row["expert"])}"; it must be 1, -1 or NA'
            skip.bad(UserError(error), where)
            continue
        label = _EXPERT[row["expert"]]
        if label is not None and labels.setdefault(row["sentence"], label) != label:
            raise UserError(f"{where}: the expert says both 1 and -1 of this sentence")
    return labels


def _rows(path: Path, delimiter: str, columns: Sequence[str], skip: Skipped) -> Iterator[tuple[str, dict[str, str]]]:
    with opened(path) as file:
        # Quotes mean something between commas, and nothing between tabs.
        reader = csv.reader(
            file, delimiter=delimiter, quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        )
        try:
            names: list[str] = next(reader, [])
            if missing := [column for column in columns if column not in names]:
                raise UserError(f'{path}:1: the column "{missing[0]}" is missing')
            for cells in reader:
                where = f"{path}:{reader.line_num}"
                if len(cells) != len(names):
                    error = f"{where}: {len(cells)} cells where the first line names {len(names)} columns; mend the row"
                    skip.bad(UserError(error), where)
                    continue
                row = dict(zip(names, cells, strict=True))
                yield where, {column: row[column] for column in columns}
        except csv.Error as found:
            raise UserError(f"{path}:{reader.line_num}: not a row of a table ({found})") from None
