"""From streams of sentences to a data set on disk: every split is read once and written whole."""

from __future__ import annotations

import io
import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedrel.corpus import NA, SPLITS, Instance
from fedrel.data.store import COLUMNS, VERSION, Dataset
from fedrel.errors import UserError
from fedrel.util.files import atomic_folder, write_atomic

_OTHERWISE = {  # what to do where a split has no relation
    "train": "label it, or check data.na_label",
    "dev": "take dev from train (data.dev=0.2), or add sentences that have one",
    "test": "add sentences that have one, or take the file away: test is then carved from train",
}


@dataclass
class _Numbering:
    """Strings to consecutive numbers, in order of first appearance."""

    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


@dataclass
class _Columns:
    """A split while it grows."""

    tokens: array[int] = field(default_factory=lambda: array("i"))
    offsets: array[int] = field(default_factory=lambda: array("q", [0]))
    spans: array[int] = field(default_factory=lambda: array("i"))
    labels: array[int] = field(default_factory=lambda: array("i"))
    pairs: array[int] = field(default_factory=lambda: array("i"))
    sources: array[int] = field(default_factory=lambda: array("i"))
    expressed: array[int] = field(default_factory=lambda: array("b"))
    types: array[int] = field(default_factory=lambda: array("i"))
    texts: set[int] = field(default_factory=set)  # hashes of the sentences
    pair_numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    facts: set[tuple[int, int]] = field(default_factory=set)  # pairs with a relation

    def save(self, folder: Path, name: str, relabel: npt.NDArray[np.int32]) -> None:
        entities = np.array(list(self.pair_numbers), dtype=np.int32).reshape(-1, 2)
        columns: dict[str, npt.NDArray[np.generic]] = {
            "tokens": np.frombuffer(self.tokens, np.int32),
            "offsets": np.frombuffer(self.offsets, np.int64),
            "spans": np.frombuffer(self.spans, np.int32).reshape(-1, 4),
            "labels": relabel[np.frombuffer(self.labels, np.int32)],
            "pairs": np.frombuffer(self.pairs, np.int32),
            "sources": np.frombuffer(self.sources, np.int32),
            "expressed": np.frombuffer(self.expressed, np.int8),
            "pair_entities": entities,
            "types": np.frombuffer(self.types, np.int32).reshape(-1, 2),
        }
        for column in COLUMNS:
            content = io.BytesIO()  # a full disk has its error number when we write, and none when numpy does
            np.save(content, columns[column], allow_pickle=False)
            (folder / f"{name}.{column}.npy").write_bytes(content.getbuffer())


def build(
    folder: Path,
    splits: Mapping[str, Callable[[], Iterable[Instance]]],
    *,
    relations: Sequence[str] = (),
    notes: Iterable[str] = (),
    from_train: Sequence[str] = ("train",),
    na: bool = True,
    has_pairs: bool = True,
    gold: bool = False,
    overlap_of_facts: bool = False,
    held: Mapping[str, int] | None = None,
    held_out: Mapping[str, Mapping[str, int]] | None = None,
    passed_over: Sequence[str] = (),
    part: bool = False,
    may_lack: Sequence[str] = (),
) -> Dataset:
    """Writes the data set once, whole; `splits` names a stream of instances for train, dev and test.
    `relations` are all there are, in their order; without them, those that the instances have, sorted. `from_train`
    names the splits that come from the training text: none of their pairs should be in test. Without `na`, "no
    relation" is no class; without `has_pairs`, the instances are plain texts. With `gold`, people labelled pairs, and
    one in train and in test is nothing wrong; with `overlap_of_facts`, pairs without a relation may be in both. `held`
    says who holds how many rows of train, one after another, and `held_out` the same of other splits; like the notes,
    they are looked at when every split is read. `passed_over` names splits whose files were not used. A `part` is what
    one party of a federation holds: splits may be missing, and relations in its train and in `may_lack`.
    """
    words, entities, sources, labels = _Numbering(), _Numbering(), _Numbering(), _Numbering()
    columns = {name: _Columns() for name in SPLITS}
    first = [NA] if na else []
    for name in (*first, *relations):
        labels(name)
    for split, instances in splits.items():
        _fill(columns[split], instances(), words, entities, sources, labels)
    told = list(notes)
    for split in () if part else ("train", "test"):
        if not columns[split].labels:
            raise UserError(f"the {split} split is empty; it needs at least one sentence")
    for split in (it for it in SPLITS if it in splits):  # train first: where it has none, nothing else matters
        lenient = part and split in ("train", *may_lack)
        if na and not lenient and columns[split].labels and not any(columns[split].labels):  # NA is number 0
            raise UserError(
                f'no {split} sentence has a relation other than "{NA}": there is nothing to find in it; '
                f"{_OTHERWISE[split]}"
            )
    order = [*first, *(relations or sorted(labels.numbers.keys() - set(first)))]
    if len(order) < 2:
        raise UserError(f'every sentence has the label "{order[0]}": there is nothing to tell apart')
    relabel = np.zeros(len(order), dtype=np.int32)
    relabel[[labels.numbers[name] for name in order]] = np.arange(len(order))
    with atomic_folder(folder, keep_existing=True, private=True) as new:
        for name, filled in columns.items():
            filled.save(new, name, relabel)
        for name, numbering in (("words", words), ("entities", entities), ("sources", sources)):
            # JSON, since a name may hold anything, line ends too
            (new / f"{name}.json").write_bytes(json.dumps(list(numbering.numbers), ensure_ascii=False).encode())
        meta = {
            "format": VERSION,
            "relations": order,
            "na": na,
            "has_pairs": has_pairs,
            "gold": gold,
            "overlap": _overlap(columns, from_train, facts_alone=overlap_of_facts),
            "shared_sentences": {
                f"{one}-{other}": len(columns[one].texts & columns[other].texts)
                for one, other in combinations(SPLITS, 2)
            },
            "distinct_sentences": {name: len(filled.texts) for name, filled in columns.items()},
            "sentences": {name: len(filled.labels) for name, filled in columns.items()},
            "pairs": {name: len(filled.pair_numbers) for name, filled in columns.items()},
            "notes": told,
            "passed_over": list(passed_over),
            "held": dict(held or {}),
            "held_out": {split: dict(sizes) for split, sizes in (held_out or {}).items()},
        }
        write_atomic(new / "meta.json", json.dumps(meta, indent=1), private=True)
    return Dataset(folder)


def _overlap(columns: Mapping[str, _Columns], from_train: Sequence[str], *, facts_alone: bool) -> int:
    """How many pairs of test are in one of these splits, too."""
    trained = {pair for name in from_train for pair in columns[name].pair_numbers}
    both = trained & columns["test"].pair_numbers.keys()
    return len(both & {pair for it in columns.values() for pair in it.facts}) if facts_alone else len(both)


def _fill(
    columns: _Columns,
    instances: Iterable[Instance],
    words: _Numbering,
    entities: _Numbering,
    sources: _Numbering,
    labels: _Numbering,
) -> None:
    for instance in instances:
        tokens = [words(token) for token in instance.tokens]
        columns.tokens.extend(tokens)
        columns.texts.add(hash(tuple(tokens)))
        columns.offsets.append(len(columns.tokens))
        head, tail = instance.head, instance.tail
        columns.spans.extend((head.start, head.end, tail.start, tail.end))
        columns.labels.append(labels(instance.relation))
        pair = (entities(head.id), entities(tail.id))
        if instance.relation != NA:
            columns.facts.add(pair)
        columns.pairs.append(columns.pair_numbers.setdefault(pair, len(columns.pair_numbers)))
        columns.sources.append(sources(instance.source))
        columns.expressed.append(-1 if instance.expressed is None else int(instance.expressed))
        columns.types.extend([words(mention.type.lower()) if mention.type else -1 for mention in (head, tail)])
