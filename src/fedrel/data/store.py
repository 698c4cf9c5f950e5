"""The columnar store of labelled sentences, and the bags that distant supervision makes of them.

A data set is a folder of flat arrays, memory-mapped when read: tokens of all sentences end to end with
offsets, head and tail spans, label, pair, source. Training bags gather the sentences of one *fact*
(head, relation, tail); evaluation bags those of one *pair* (head, tail).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedrel.corpus import Instance, Mention
from fedrel.errors import UserError

Ints = npt.NDArray[np.int64]
VERSION = 5  # of the layout of the folder; a data set of another version is built anew
COLUMNS = ("tokens", "offsets", "spans", "labels", "pairs", "sources", "expressed", "pair_entities", "types")


@dataclass(frozen=True)
class Split:
    """The sentences of train, dev or test. S sentences, T tokens, P pairs."""

    tokens: npt.NDArray[np.int32]  # (T,) numbers of `Dataset.words`
    offsets: Ints  # (S+1,) sentence i is tokens[offsets[i]:offsets[i+1]]
    spans: npt.NDArray[np.int32]  # (S, 4) head start, head end, tail start, tail end
    labels: npt.NDArray[np.int32]  # (S,) numbers of `Dataset.relations`; 0 is NA
    pairs: npt.NDArray[np.int32]  # (S,) rows of `pair_entities`
    sources: npt.NDArray[np.int32]  # (S,) numbers of `Dataset.sources`
    expressed: npt.NDArray[np.int8]  # (S,) 1 the sentence says so, 0 it does not, -1 unknown
    pair_entities: npt.NDArray[np.int32]  # (P, 2) numbers of `Dataset.entities`
    types: npt.NDArray[np.int32] | None = None  # (S, 2) words that name the types of head and tail; -1: not told

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def facts(self) -> Ints:
        """The distinct (pair, relation) with a relation other than NA, as rows of (F, 2)."""
        rows = np.stack([self.pairs, self.labels], axis=1)[self.labels > 0]
        return np.unique(rows, axis=0).astype(np.int64)


@dataclass(frozen=True)
class Dataset:
    """A data set on disk. A split is opened when it is first asked for, and not before."""

    folder: Path

    @cached_property
    def meta(self) -> dict[str, object]:
        loaded: dict[str, object] = json.loads((self.folder / "meta.json").read_text())
        return loaded

    @property
    def has_na(self) -> bool:
        """Whether the first relation is "no relation"; otherwise every sentence has one that counts."""
        return bool(self.meta["na"])

    @property
    def has_pairs(self) -> bool:
        """Whether these are sentences with a pair of entities; otherwise they are plain texts."""
        return bool(self.meta["has_pairs"])

    @property
    def gold(self) -> bool:
        """Whether people labelled sentences with pairs, which are evaluated sentence by sentence."""
        return bool(self.meta["gold"])

    @property
    def overlap(self) -> int:
        """How many pairs of test are in what comes from train, too."""
        overlap = self.meta["overlap"]
        assert isinstance(overlap, int)
        return overlap

    @property
    def shared_sentences(self) -> dict[str, int]:
        """`train-test`: how many distinct sentences are in both."""
        shared = self.meta["shared_sentences"]
        assert isinstance(shared, dict)
        return shared

    @property
    def distinct_sentences(self) -> dict[str, int]:
        """Of each split."""
        distinct = self.meta["distinct_sentences"]
        assert isinstance(distinct, dict)
        return distinct

    @property
    def relations(self) -> list[str]:
        """The labels, in the order of their numbers; the first is NA if `has_na`."""
        relations = self.meta["relations"]
        assert isinstance(relations, list)
        return relations

    @cached_property
    def words(self) -> list[str]:
        return _read_names(self.folder / "words.json")

    @cached_property
    def entities(self) -> list[str]:
        return _read_names(self.folder / "entities.json")

    @cached_property
    def sources(self) -> list[str]:
        return _read_names(self.folder / "sources.json")

    @cached_property
    def train(self) -> Split:
        return self._split("train")

    @cached_property
    def dev(self) -> Split:
        return self._split("dev")

    @cached_property
    def test(self) -> Split:
        return self._split("test")

    @property
    def notes(self) -> list[str]:
        """What was done to the data while building it, for a person to read."""
        notes = self.meta["notes"]
        assert isinstance(notes, list)
        return notes

    @property
    def passed_over(self) -> list[str]:
        """The splits that are there as files and were carved from train nevertheless."""
        passed_over = self.meta.get("passed_over", [])
        assert isinstance(passed_over, list)
        return passed_over

    @property
    def held(self) -> dict[str, int]:
        """Whose rows of train come one after another, and how many; empty where the data do not say."""
        held = self.meta.get("held", {})
        assert isinstance(held, dict)
        return held

    @property
    def held_out(self) -> dict[str, dict[str, int]]:
        """Of dev and test, where platforms hold them out at home: whose rows come one after another, and how many."""
        held = self.meta.get("held_out", {})
        assert isinstance(held, dict)
        return held

    def require_no_overlap(self, allowed: bool) -> None:
        """Raises UserError if pairs of train are in test, unless that is allowed. Gold labels are evaluated sentence by
        sentence: there a pair in both is nothing wrong.
        """
        overlap = self.overlap
        if overlap and not allowed and not self.gold:
            what = "entity pairs" if self.has_pairs else "texts"
            raise UserError(
                f"{overlap} {what} are in both train and test, so test scores would be too good; "
                "remove them from one, or set data.allow_overlap = true"
            )

    def sentence(self, split: Split, row: int) -> list[str]:
        """The words of a sentence."""
        return [self.words[i] for i in split.tokens[split.offsets[row] : split.offsets[row + 1]]]

    def _split(self, name: str) -> Split:
        columns = {c: np.load(self.folder / f"{name}.{c}.npy", mmap_mode="r") for c in COLUMNS}
        return Split(**columns)


def _read_names(path: Path) -> list[str]:
    names: list[str] = json.loads(path.read_bytes())
    return names


def fact_bags(split: Split, rows: Ints) -> tuple[Ints, Ints]:
    """Rows in bag order, (S,), and where each of B bags starts, (B+1,): a bag has the rows of one fact (pair, label).
    Bags are ordered by where their pair first appears among these rows, then by label, so that a platform which has no
    other rows than these finds the same order.
    """
    return _group(rows, _first_seen(split, rows) * 2**20 + split.labels[rows])


def pair_bags(split: Split, rows: Ints | None = None) -> tuple[Ints, Ints]:
    """All rows, or these, ordered by where their pairs first appear, (S,), and where each of P pairs starts, (P+1,)."""
    if rows is None:  # pairs are numbered as they appear
        return _group(np.arange(len(split)), split.pairs.astype(np.int64))
    return _group(rows, _first_seen(split, rows))


def pair_facts(split: Split, rows: Ints) -> Ints:
    """The facts of these rows alone, a pair under the number of its bag in `pair_bags`: (F, 2)."""
    _, bags = np.unique(_first_seen(split, rows), return_inverse=True)
    stated = np.stack([bags, split.labels[rows]], axis=1)[split.labels[rows] > 0]
    return np.unique(stated, axis=0).astype(np.int64)


def _first_seen(split: Split, rows: Ints) -> Ints:
    """For each of these rows, the first position among them of its pair; other rows of the split do not matter."""
    _, firsts, numbers = np.unique(split.pairs[rows], return_index=True, return_inverse=True)
    return firsts[numbers]


def sentence_bags(split: Split, rows: Ints | None = None) -> tuple[Ints, Ints]:
    """All rows, or these, (S,), each a bag of its own, and where each bag starts, (S+1,)."""
    rows = np.arange(len(split)) if rows is None else rows
    return rows, np.arange(len(rows) + 1)


def _group(rows: Ints, keys: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]]) if len(rows) else np.zeros(0, int)
    return rows[order], np.r_[starts, len(rows)].astype(np.int64)


def fact_name(dataset: Dataset, split: Split, row: int) -> str:
    """The key of the fact of one row; see `fact_names`."""
    return fact_names(dataset, split, np.array([row]))[0]


def fact_names(dataset: Dataset, split: Split, rows: Ints) -> list[str]:
    """The keys of the facts of these rows, head, relation and tail: the same on every platform that holds the fact."""
    entities, relations = dataset.entities, [_escaped(name) for name in dataset.relations]
    pairs = split.pair_entities[split.pairs[rows]].tolist()
    return [
        f"{_escaped(entities[head])}\t{relations[label]}\t{_escaped(entities[tail])}"
        for (head, tail), label in zip(pairs, split.labels[rows].tolist(), strict=True)
    ]


def _escaped(part: str) -> str:
    """A part of a key without tabs, so that no two facts share a key."""
    return part.replace("\\", r"\\").replace("\t", r"\t") if "\\" in part or "\t" in part else part


def iterate(dataset: Dataset, split: Split, rows: Ints | None = None) -> Iterator[Instance]:
    """The stored sentences, or these of them, as instances again."""
    for row in range(len(split)) if rows is None else rows.tolist():
        head, tail = split.pair_entities[split.pairs[row]]
        a, b, c, d = (int(n) for n in split.spans[row])
        known = int(split.expressed[row])
        types = ["" if n < 0 else dataset.words[n] for n in ((-1, -1) if split.types is None else split.types[row])]
        yield Instance(
            tokens=dataset.sentence(split, row),
            head=Mention(dataset.entities[head], a, b, types[0]),
            tail=Mention(dataset.entities[tail], c, d, types[1]),
            relation=dataset.relations[split.labels[row]],
            source=dataset.sources[split.sources[row]],
            expressed=None if known < 0 else bool(known),
        )
