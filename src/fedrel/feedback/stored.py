"""Verdicts that people gave, as a platform finds them again for its own sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedrel.data.store import Dataset, Split
from fedrel.encoding.shard import Shard
from fedrel.errors import UserError
from fedrel.feedback.estimates import Verdict as Judged
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, WRONG, Store, Verdict


@dataclass(frozen=True)
class StoredVerdicts:
    """What people said, found again by the sentence; a sentence that nobody judged has no verdict. Where they disagree,
    the label that most accept counts; without one, the last that most reject.
    """

    decided: Mapping[int, tuple[int, int]]  # row of the split: the relation in question, and 1 right or 0 wrong

    @classmethod
    def read(cls, path: Path, dataset: Dataset, split: Split) -> StoredVerdicts:
        verdicts = list(read_verdicts(path))
        rows = rows_by_key(dataset, split)
        if verdicts and not any(it.key in rows for it in verdicts):
            raise UserError(
                f"{path}: none of its {len(verdicts):,} verdicts is about a sentence of this data; name the store that "
                "fedrel review made for it"
            )
        opinions: dict[str, dict[str, int]] = {}  # sentence, relation: how many more say right than wrong
        for it in verdicts:
            if it.verdict in (RIGHT, WRONG) and it.relation in dataset.relations:
                relations = opinions.setdefault(it.key, {})
                balance = relations.pop(it.relation, 0)  # the last one judged stands last
                relations[it.relation] = balance + (1 if it.verdict == RIGHT else -1)
        return cls(
            {
                row: (dataset.relations.index(relation), int(accepted))
                for key, relations in opinions.items()
                for relation, accepted in _decided(relations)
                for row in rows.get(key, ())
            }
        )

    def __call__(self, shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
        given, verdict = predicted.clone(), torch.full((len(shard),), -1, dtype=torch.int8)
        for place, row in enumerate(shard.rows.tolist()):
            if row in self.decided:
                given[place], verdict[place] = self.decided[row]
        return given, verdict


def rows_by_key(dataset: Dataset, split: Split) -> dict[str, list[int]]:
    """Where every sentence stands; some stand there more than once."""
    rows: dict[str, list[int]] = {}
    for row in range(len(split)):
        spans = [int(place) for place in split.spans[row]]
        rows.setdefault(sentence_key(dataset.sentence(split, row), spans), []).append(row)
    return rows


def with_truth(verdicts: Iterable[Verdict], dataset: Dataset) -> list[Judged]:
    """Those on sentences whose labels are known: correct is a prediction that is among the sentence's labels."""
    labels: dict[str, set[str]] = {}
    for split in (dataset.train, dataset.dev, dataset.test):
        for key, rows in rows_by_key(dataset, split).items():
            labels.setdefault(key, set()).update(dataset.relations[split.labels[row]] for row in rows)
    return [Judged(it.user, it.verdict, it.relation in labels[it.key]) for it in verdicts if it.key in labels]


def read_verdicts(path: Path) -> Iterator[Verdict]:
    """Those that stand in a store, or in a folder of stores."""
    found = sorted(path.glob("*.sqlite")) if path.is_dir() else [path]
    if not found:
        raise UserError(f"{path}: no store (*.sqlite) in this folder; fedrel review makes one")
    for file in found:
        with Store.open(file, create=False) as store:
            yield from store.standing()


def stored_content(path: Path) -> str:
    """A digest of the verdicts that stand in a store, or in a folder of stores."""
    digest = hashlib.sha256()
    for it in read_verdicts(path):
        digest.update(repr(it).encode())
    return digest.hexdigest()


def _decided(relations: Mapping[str, int]) -> Iterable[tuple[str, bool]]:
    """The relation that counts and whether it is accepted; none where opinions are even."""
    uneven = [(name, balance) for name, balance in relations.items() if balance]
    if not uneven:
        return []
    best = max(uneven, key=lambda it: it[1])
    return [(best[0], True)] if best[1] > 0 else [(uneven[-1][0], False)]
