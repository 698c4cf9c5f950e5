"""The columnar store of labelled sentences, and the bags that distant supervision makes of them.

A data set is a folder of flat arrays, memory-mapped when read: tokens of all sentences end to end with
offsets, head and tail spans, label, pair, source. Training bags gather the sentences of one *fact*
(head, relation, tail); evaluation bags those of one *pair* (head, tail).
"""

from __future__ import annotations

import io
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedrel.corpus import NA, SPLITS, Instance, Mention
from fedrel.errors import UserError
from fedrel.util.files import folder_whole, write_whole

Ints = npt.NDArray[np.int64]
FORMAT = 4  # of the folder; a cache of another format is built anew
_COLUMNS = ("tokens", "offsets", "spans", "labels", "pairs", "sources", "expressed", "pair_entities", "types")


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
        """Sentences with a pair of entities; otherwise plain texts."""
        return bool(self.meta["has_pairs"])

    @property
    def relations(self) -> list[str]:
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
        """Refuses a data set that tests on pairs it was trained on."""
        overlap = self.meta["overlap"]
        if overlap and not allowed:
            what = "entity pairs" if self.has_pairs else "texts"
            raise UserError(
                f"{overlap} {what} are in both train and test, so test scores would be too good; "
                "remove them from one, or set data.allow_overlap = true"
            )

    def sentence(self, split: Split, row: int) -> list[str]:
        return [self.words[i] for i in split.tokens[split.offsets[row] : split.offsets[row + 1]]]

    def _split(self, name: str) -> Split:
        columns = {c: np.load(self.folder / f"{name}.{c}.npy", mmap_mode="r") for c in _COLUMNS}
        return Split(**columns)


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
    pair_numbers: dict[tuple[int, int], int] = field(default_factory=dict)

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
        for column in _COLUMNS:
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
    held: Mapping[str, int] | None = None,
    held_out: Mapping[str, Mapping[str, int]] | None = None,
    part: bool = False,
    may_lack: Sequence[str] = (),
) -> Dataset:
    """Writes the data set once, whole; `splits` names a stream of instances for train, dev and test.
    `relations` are all there are, in their order; without them, those that the instances have, sorted. `from_train`
    names the splits that come from the training text: none of their pairs should be in test. Without `na`, "no
    relation" is no class; without `has_pairs`, the instances are plain texts. `held` says who holds how many rows of
    train, one after another, and `held_out` the same of other splits; like the notes, they are looked at last. A `part`
    is what one party of a federation holds: splits may be missing, and relations in its train and in `may_lack`.
    """
    words, entities, sources, labels = _Numbering(), _Numbering(), _Numbering(), _Numbering()
    columns = {name: _Columns() for name in SPLITS}
    first = [NA] if na else []
    for name in (*first, *relations):
        labels(name)
    for split, instances in splits.items():
        _fill(columns[split], instances(), words, entities, sources, labels)
    for split in () if part else ("train", "test"):
        if not columns[split].labels:
            raise UserError(f"the {split} split is empty; it needs at least one sentence")
    for split in splits:
        lenient = part and split in ("train", *may_lack)
        if na and not lenient and columns[split].labels and not any(columns[split].labels):  # NA is number 0
            raise UserError(f'no {split} sentence has a relation other than "{NA}": there is nothing to find in it')
    order = [*first, *(relations or sorted(labels.numbers.keys() - set(first)))]
    if len(order) < 2:
        raise UserError(f'every sentence has the label "{order[0]}": there is nothing to tell apart')
    relabel = np.zeros(len(order), dtype=np.int32)
    relabel[[labels.numbers[name] for name in order]] = np.arange(len(order))
    with folder_whole(folder, others_do=True, private=True) as new:
        for name, filled in columns.items():
            filled.save(new, name, relabel)
        for name, numbering in (("words", words), ("entities", entities), ("sources", sources)):
            # JSON, since a name may hold anything, line ends too
            (new / f"{name}.json").write_bytes(json.dumps(list(numbering.numbers), ensure_ascii=False).encode())
        meta = {
            "format": FORMAT,
            "relations": order,
            "na": na,
            "has_pairs": has_pairs,
            "overlap": len(
                columns["test"].pair_numbers.keys()
                & {pair for name in from_train for pair in columns[name].pair_numbers}
            ),
            "sentences": {name: len(filled.labels) for name, filled in columns.items()},
            "pairs": {name: len(filled.pair_numbers) for name, filled in columns.items()},
            "notes": list(notes),
            "held": dict(held or {}),
            "held_out": {split: dict(sizes) for split, sizes in (held_out or {}).items()},
        }
        write_whole(new / "meta.json", json.dumps(meta, indent=1), private=True)
    return Dataset(folder)


def _fill(
    columns: _Columns,
    instances: Iterable[Instance],
    words: _Numbering,
    entities: _Numbering,
    sources: _Numbering,
    labels: _Numbering,
) -> None:
    for instance in instances:
        columns.tokens.extend([words(token) for token in instance.tokens])
        columns.offsets.append(len(columns.tokens))
        head, tail = instance.head, instance.tail
        columns.spans.extend((head.start, head.end, tail.start, tail.end))
        columns.labels.append(labels(instance.relation))
        pair = (entities(head.id), entities(tail.id))
        columns.pairs.append(columns.pair_numbers.setdefault(pair, len(columns.pair_numbers)))
        columns.sources.append(sources(instance.source))
        columns.expressed.append(-1 if instance.expressed is None else int(instance.expressed))
        columns.types.extend([words(mention.type.lower()) if mention.type else -1 for mention in (head, tail)])


def _read_names(path: Path) -> list[str]:
    names: list[str] = json.loads(path.read_bytes())
    return names


def fact_bags(split: Split, rows: Ints) -> tuple[Ints, Ints]:
    """Rows in bag order, and where each bag starts: a bag is the rows' part of one fact (pair, label). Bags are ordered
    by where their pair first appears among these rows, then by label: a platform that has no other rows than these
    finds the same order.
    """
    return _group(rows, _first_seen(split, rows) * 2**20 + split.labels[rows])


def pair_bags(split: Split, rows: Ints | None = None) -> tuple[Ints, Ints]:
    """All rows, or these, in the order in which their pairs first appear, and where each pair starts."""
    if rows is None:  # pairs are numbered as they appear
        return _group(np.arange(len(split)), split.pairs.astype(np.int64))
    return _group(rows, _first_seen(split, rows))


def pair_facts(split: Split, rows: Ints) -> Ints:
    """The facts of these rows alone, a pair under the number of its bag in `pair_bags`: (F, 2)."""
    _, bags = np.unique(_first_seen(split, rows), return_inverse=True)
    stated = np.stack([bags, split.labels[rows]], axis=1)[split.labels[rows] > 0]
    return np.unique(stated, axis=0).astype(np.int64)


def _first_seen(split: Split, rows: Ints) -> Ints:
    """Where among these rows the pair of each appears first: to a platform that has no other rows it is the same."""
    _, firsts, numbers = np.unique(split.pairs[rows], return_index=True, return_inverse=True)
    return firsts[numbers]


def sentence_bags(split: Split, rows: Ints | None = None) -> tuple[Ints, Ints]:
    """All rows, or these, each a bag of its own."""
    rows = np.arange(len(split)) if rows is None else rows
    return rows, np.arange(len(rows) + 1)


def _group(rows: Ints, keys: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]]) if len(rows) else np.zeros(0, int)
    return rows[order], np.r_[starts, len(rows)].astype(np.int64)


def fact_name(dataset: Dataset, split: Split, row: int) -> str:
    return fact_names(dataset, split, np.array([row]))[0]


def fact_names(dataset: Dataset, split: Split, rows: Ints) -> list[str]:
    """The one place where facts' keys are made: the same on every platform that holds the fact."""
    entities, relations = dataset.entities, [_escaped(name) for name in dataset.relations]
    pairs = split.pair_entities[split.pairs[rows]].tolist()
    return [
        f"{_escaped(entities[head])}\t{relations[label]}\t{_escaped(entities[tail])}"
        for (head, tail), label in zip(pairs, split.labels[rows].tolist(), strict=True)
    ]


def _escaped(part: str) -> str:
    """So that no two facts share a key."""
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
