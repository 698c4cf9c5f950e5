"""Matches the verdicts in stores to the sentences of a data set, by the sentences' keys."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedrel.corpus import Instance
from fedrel.data.store import Dataset, Split, iterate
from fedrel.encoding.shard import Shard
from fedrel.errors import UserError
from fedrel.feedback.estimates import GradedVerdict
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, WRONG, Store, Verdict


@dataclass(frozen=True)
class StoredVerdicts:
    """People's verdicts by row of a split (a `fedrel.protocol.round.Judge`). Where people disagree, the relation that
    the largest majority accepts counts; if none is accepted, the last one that a majority rejects.
    """

    decided: Mapping[int, tuple[int, int]]  # by row: the relation shown, and 1 right or 0 wrong

    @classmethod
    def read(cls, path: Path, dataset: Dataset, split: Split) -> StoredVerdicts:
        """The verdicts of a store, or of a folder of stores, on sentences of a split. Raises UserError if there are
        verdicts, but none on these sentences.
        """
        verdicts = list(read_verdicts(path))
        rows = rows_by_key(dataset, split)
        _require_about(path, verdicts, rows)
        return cls(_decisions(verdicts, dataset, rows))

    def __call__(self, shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
        given, verdict = predicted.clone(), torch.full((len(shard),), -1, dtype=torch.int8)
        for place, row in enumerate(shard.rows.tolist()):
            if row in self.decided:
                given[place], verdict[place] = self.decided[row]
        return given, verdict


def judged_instances(path: Path, dataset: Dataset) -> Iterator[Instance]:
    """The sentences of a data set that people judged, each once, with the relation that they were shown, which it
    expresses if they accepted it. Raises UserError if no verdict is about a sentence of this data.
    """
    verdicts = list(read_verdicts(path))
    splits = (dataset.train, dataset.dev, dataset.test)
    known = [rows_by_key(dataset, split) for split in splits]
    _require_about(path, verdicts, set().union(*known))
    written: set[str] = set()
    for split, rows in zip(splits, known, strict=True):
        once = {key: places[:1] for key, places in rows.items() if key not in written}
        written |= once.keys()
        decided = _decisions(verdicts, dataset, once)
        for row, instance in zip(decided, iterate(dataset, split, np.array(list(decided), np.int64)), strict=True):
            relation, accepted = decided[row]
            yield replace(instance, relation=dataset.relations[relation], expressed=bool(accepted))


def keys_of(dataset: Dataset, split: Split, rows: Iterable[int]) -> list[str]:
    """The keys of the sentences in these rows of a split."""
    return [sentence_key(dataset.sentence(split, row), [int(place) for place in split.spans[row]]) for row in rows]


def rows_by_key(dataset: Dataset, split: Split) -> dict[str, list[int]]:
    """The rows of every sentence by its key; a sentence may occur more than once."""
    rows: dict[str, list[int]] = {}
    for row, key in enumerate(keys_of(dataset, split, range(len(split)))):
        rows.setdefault(key, []).append(row)
    return rows


def graded(verdicts: Iterable[Verdict], dataset: Dataset) -> list[GradedVerdict]:
    """The verdicts on sentences of a data set, with whether the prediction is among the sentence's labels."""
    labels: dict[str, set[str]] = {}
    for split in (dataset.train, dataset.dev, dataset.test):
        for key, rows in rows_by_key(dataset, split).items():
            labels.setdefault(key, set()).update(dataset.relations[split.labels[row]] for row in rows)
    return [GradedVerdict(it.user, it.verdict, it.relation in labels[it.key]) for it in verdicts if it.key in labels]


def read_verdicts(path: Path) -> Iterator[Verdict]:
    """The standing verdicts of a store, or of a folder of stores. Raises UserError if there is none."""
    found = sorted(path.glob("*.sqlite")) if path.is_dir() else [path]
    if not found:
        raise UserError(f"{path}: no store (*.sqlite) in this folder; fedrel review creates one")
    for file in found:
        with Store.open_to_read(file) as store:
            yield from store.standing()


def stored_content(path: Path) -> str:
    """The SHA-256 of the standing verdicts of a store, or of a folder of stores, hexadecimal."""
    digest = hashlib.sha256()
    for it in read_verdicts(path):
        digest.update(repr(it).encode())
    return digest.hexdigest()


def _require_about(path: Path, verdicts: Sequence[Verdict], keys: Container[str]) -> None:
    if verdicts and not any(it.key in keys for it in verdicts):
        raise UserError(
            f"{path}: none of its {len(verdicts):,} verdicts is about a sentence of this data; name the store that "
            "fedrel review created for it"
        )


def _decisions(
    verdicts: Iterable[Verdict], dataset: Dataset, rows: Mapping[str, Sequence[int]]
) -> dict[int, tuple[int, int]]:
    """By row: the relation that was shown, and 1 if it was accepted or 0."""
    opinions: dict[str, dict[str, int]] = {}  # by sentence and relation: verdicts "right" minus "wrong"
    for it in verdicts:
        if it.verdict in (RIGHT, WRONG) and it.relation in dataset.relations:
            relations = opinions.setdefault(it.key, {})
            balance = relations.pop(it.relation, 0)  # keeps the relation judged last at the end
            relations[it.relation] = balance + (1 if it.verdict == RIGHT else -1)
    return {
        row: (dataset.relations.index(relation), int(accepted))
        for key, relations in opinions.items()
        for relation, accepted in _decided(relations)
        for row in rows.get(key, ())
    }


def _decided(relations: Mapping[str, int]) -> Iterable[tuple[str, bool]]:
    """The relation that counts and whether it is accepted, from each relation's balance; empty if all are tied."""
    uneven = [(name, balance) for name, balance in relations.items() if balance]
    if not uneven:
        return []
    best = max(uneven, key=lambda it: it[1])
    return [(best[0], True)] if best[1] > 0 else [(uneven[-1][0], False)]
