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
    """People's verdicts by row of a split (a `fedrel.protocol.round.Judge`). Whoever names another relation instead of
    the one shown accepts that one. Where people disagree, the relation that the largest majority accepts counts; if
    none is accepted, the last one that a majority rejects. A decision counts instead of all verdicts on that relation.
    """

    decided: Mapping[int, tuple[int, int]]  # by row: the relation shown or named instead, and 1 right or 0 wrong

    @classmethod
    def read(cls, path: Path, dataset: Dataset, split: Split, *, without: Container[str] = ()) -> StoredVerdicts:
        """The verdicts of a store, or of a folder of stores, on sentences of a split, but for those of some people.
        Raises UserError if there are verdicts, but none on these sentences.
        """
        verdicts = list(read_verdicts(path))
        rows = rows_by_key(dataset, split)
        _require_about(path, verdicts, rows)
        return cls(_decisions((it for it in verdicts if it.user not in without), dataset, rows))

    def divided(self, share: float, dataset: Dataset, split: Split) -> tuple[StoredVerdicts, StoredVerdicts]:
        """The verdicts to learn from, and about this share of them, on other pairs, to measure by: always the same."""
        apart = {row: it for row, it in self.decided.items() if _place(dataset, split, row) < share}
        kept = {row: it for row, it in self.decided.items() if row not in apart}
        return StoredVerdicts(kept), StoredVerdicts(apart)

    def __call__(self, shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
        given, verdict = predicted.clone(), torch.full((len(shard),), -1, dtype=torch.int8)
        for place, row in enumerate(shard.rows.tolist()):
            if row in self.decided:
                given[place], verdict[place] = self.decided[row]
        return given, verdict


class AnyRelation:
    """Every relation: facts do not say which others there are."""

    def __contains__(self, relation: object) -> bool:
        return True


def judged_instances(path: Path, dataset: Dataset) -> Iterator[Instance]:
    """The sentences of a data set that people judged, each once, with the relation that they were shown or named
    instead, which it expresses if they accepted it. Raises UserError if no verdict is about a sentence of this data.
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


def judged_of(path: Path, sentences: Iterable[tuple[str, Instance]], relations: Container[str]) -> Iterator[Instance]:
    """Of sentences by key, those that people judged, each once, as `judged_instances` gives them. Raises UserError if
    no verdict is about any of them.
    """
    about: dict[str, list[Verdict]] = {}
    for it in read_verdicts(path):
        about.setdefault(it.key, []).append(it)
    count, found = sum(map(len, about.values())), False
    for key, instance in sentences:
        if verdicts := about.pop(key, None):
            found = True
            if decided := counted(verdicts, relations):
                yield replace(instance, relation=decided[0], expressed=decided[1])
    if count and not found:
        raise about_nothing(path, count)


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
    """Reviewers' verdicts on sentences of a data set, with whether the prediction is among the sentence's labels."""
    labels: dict[str, set[str]] = {}
    for split in (dataset.train, dataset.dev, dataset.test):
        for key, rows in rows_by_key(dataset, split).items():
            labels.setdefault(key, set()).update(dataset.relations[split.labels[row]] for row in rows)
    return [
        GradedVerdict(it.user, it.verdict, it.relation in labels[it.key])
        for it in verdicts
        if it.key in labels and not it.decides
    ]


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


def _place(dataset: Dataset, split: Split, row: int) -> float:
    """From 0 to 1, by chance but the same for all sentences with these two entities; of plain texts, for equal ones."""
    names = sorted(dataset.entities[number] for number in split.pair_entities[split.pairs[row]])
    content = names if dataset.has_pairs else dataset.sentence(split, row)
    digest = hashlib.blake2b("\n".join(content).encode("utf-8", "surrogatepass"), digest_size=8, person=b"held out")
    return int.from_bytes(digest.digest(), "big") / 2**64


def _require_about(path: Path, verdicts: Sequence[Verdict], keys: Container[str]) -> None:
    if verdicts and not any(it.key in keys for it in verdicts):
        raise about_nothing(path, len(verdicts))


def about_nothing(path: Path, verdicts: int) -> UserError:
    """What to say where verdicts are about other sentences."""
    return UserError(
        f"{path}: none of its {verdicts:,} verdicts is about a sentence of this data; name the store that "
        "fedrel review created for it"
    )


def counted(verdicts: Iterable[Verdict], relations: Container[str]) -> tuple[str, bool] | None:
    """Which of these relations counts for a sentence, and whether the sentence states it, from the verdicts on it in
    the order given; None if people are tied or do not know. The rules are those of `StoredVerdicts`.
    """
    given = list(verdicts)
    settled = {it.relation: it for it in given if it.decides}  # by the relation shown, the latest decision
    for decision in reversed(settled.values()):
        if decision.stated is not None and decision.stated in relations:
            return decision.stated, True
    balances: dict[str, int] = {}  # by relation: people who say that it is stated minus those who say that it is not
    for it in given:
        if settled.get(it.relation, it) is not it or it.verdict not in (RIGHT, WRONG):
            continue
        for relation, vote in ((it.relation, 1 if it.verdict == RIGHT else -1), (it.corrected, 1)):
            if relation is not None and relation in relations:
                balances[relation] = balances.pop(relation, 0) + vote  # keeps the relation judged last at the end
    uneven = [(name, balance) for name, balance in balances.items() if balance]
    if not uneven:
        return None
    best = max(uneven, key=lambda it: it[1])
    return (best[0], True) if best[1] > 0 else (uneven[-1][0], False)


def _decisions(
    verdicts: Iterable[Verdict], dataset: Dataset, rows: Mapping[str, Sequence[int]]
) -> dict[int, tuple[int, int]]:
    """By row: the relation that counts, and 1 if it was accepted or 0."""
    sentences: dict[str, list[Verdict]] = {}
    for it in verdicts:
        sentences.setdefault(it.key, []).append(it)
    found: dict[int, tuple[int, int]] = {}
    for key, about in sentences.items():
        if decided := counted(about, dataset.relations):
            relation, accepted = dataset.relations.index(decided[0]), int(decided[1])
            found |= {row: (relation, accepted) for row in rows.get(key, ())}
    return found
