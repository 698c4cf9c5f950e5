"""Verdicts that people gave, as a platform finds them again for its own sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedrel.bags import Dataset, Split
from fedrel.encoding.shard import Shard
from fedrel.errors import UserError
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, WRONG, Store, Verdict


@dataclass(frozen=True)
class StoredVerdicts:
    """What people said, found again by the sentence; a sentence that nobody judged has no verdict. Where they disagree,
    the label that most accept counts; without one, the last that most reject.
    """

    dataset: Dataset
    split: Split
    opinions: dict[str, dict[str, int]]  # sentence, relation: how many more say right than wrong

    @classmethod
    def read(cls, path: Path, dataset: Dataset, split: Split) -> StoredVerdicts:
        return cls.of(dataset, split, _verdicts(path))

    @classmethod
    def of(cls, dataset: Dataset, split: Split, verdicts: Iterable[Verdict]) -> StoredVerdicts:
        opinions: dict[str, dict[str, int]] = {}
        for it in verdicts:
            if it.verdict in (RIGHT, WRONG) and it.relation in dataset.relations:
                relations = opinions.setdefault(it.key, {})
                balance = relations.pop(it.relation, 0)  # the last one judged stands last
                relations[it.relation] = balance + (1 if it.verdict == RIGHT else -1)
        return cls(dataset, split, opinions)

    def __call__(self, shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
        given, verdict = predicted.clone(), torch.full((len(shard),), -1, dtype=torch.int8)
        for place, row in enumerate(shard.rows.tolist()):
            spans = [int(n) for n in self.split.spans[row]]
            relations = self.opinions.get(sentence_key(self.dataset.sentence(self.split, row), spans), {})
            decided = [(name, balance) for name, balance in relations.items() if balance]
            if decided:
                name, balance = max(decided, key=lambda it: it[1]) if any(b > 0 for _, b in decided) else decided[-1]
                given[place], verdict[place] = self.dataset.relations.index(name), int(balance > 0)
        return given, verdict


def _verdicts(path: Path) -> Iterator[Verdict]:
    found = sorted(path.glob("*.sqlite")) if path.is_dir() else [path]
    if not found:
        raise UserError(f"{path}: no store (*.sqlite) in this folder; fedrel review makes one")
    for file in found:
        with Store.open(file, create=False) as store:
            yield from store.standing()
