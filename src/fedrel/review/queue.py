"""What to show a reviewer, and in which order: a platform's own sentences with the model's predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np

from fedrel.alignment.kb import KB
from fedrel.data.store import Dataset, Ints, Split
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Floats, sigmoid
from fedrel.experiment.saved import SavedModel
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Verdict
from fedrel.pages.wording import Part
from fedrel.util.files import sha256

ORDERS = {
    "uncertain": "least certain first",
    "confident": "most certain first",
    "random": "at random",
    "new": "facts new to the knowledge base",
    "changed": "predictions changed by a newer model",
}
_AT_ONCE = 8_192  # sentences scored together
_CLOSE = 0.5  # a relation is asked about if it is at least this share as likely as "no relation"
_OTHERS = 20  # other sentences of a pair that are shown
_NO_SPACE_BEFORE = frozenset([*".,;:!?)]}%'’”", "''", "'s", "’s", "n't", "n’t"])
_NO_SPACE_AFTER = frozenset([*"([{“", "``"])


@dataclass(frozen=True, slots=True)
class Item:
    """A sentence and its predicted relation, or a text and its predicted label."""

    row: int
    key: str
    relation: str
    log_odds: float  # calibrated
    margin: float  # between the two best log-odds; small: uncertain
    stated: bool  # False: "no relation" scores higher, but not by much
    new: bool  # the knowledge base does not have this fact

    @property
    def confidence(self) -> float:
        """How likely the prediction is right, from 0 to 1."""
        return float(sigmoid(np.array(self.log_odds)))

    @property
    def asked(self) -> tuple[str, str]:
        """(key of the sentence, relation): what a verdict is about, whichever model predicted it."""
        return self.key, self.relation


@dataclass(frozen=True)
class Change:
    """What an older model predicted for a sentence, and the user's verdict on that."""

    relation: str
    verdict: str


@dataclass(frozen=True)
class Progress:
    """How far a user has come in one order."""

    judged: int
    of: int
    counts: Mapping[str, int]  # the user's verdicts, by kind
    changed: int  # judged sentences for which this model predicts something else than the one that was judged

    @property
    def agreement(self) -> float | None:
        """The share of "right" among the user's verdicts other than "don't know"; None if there are none."""
        known = self.counts[RIGHT] + self.counts[WRONG]
        return self.counts[RIGHT] / known if known else None


class Standing:
    """The standing verdicts from one user's point of view: their own, and what others have judged."""

    def __init__(self, verdicts: Iterable[Verdict], user: str) -> None:
        self.mine: dict[tuple[str, str], Verdict] = {}
        self.earlier: dict[str, Verdict] = {}  # by sentence, the user's latest
        self.others: set[tuple[str, str]] = set()
        for verdict in verdicts:
            asked = verdict.key, verdict.relation
            if verdict.user == user:
                self.mine[asked] = self.earlier[verdict.key] = verdict
            else:
                self.others.add(asked)


class Queue:
    """The sentences of one platform, scored once by one model: of train, or of another split."""

    def __init__(
        self,
        dataset: Dataset,
        saved: SavedModel,
        digest: str,
        items: list[Item],
        *,
        has_kb: bool,
        split: Split | None = None,
    ) -> None:
        self.dataset, self.saved, self.digest, self.has_kb = dataset, saved, digest, has_kb
        self.split = dataset.train if split is None else split
        self.items = items
        self._by_asked = {item.asked: item for item in items}
        self._by_key = {item.key: item for item in items}
        self._random = lru_cache(maxsize=16)(self._shuffled)

    @property
    def orders(self) -> dict[str, str]:
        """The orders that can be chosen, by name, with their descriptions."""
        return {name: words for name, words in ORDERS.items() if name != "new" or self.has_kb}

    def find(self, asked: tuple[str, str]) -> Item | None:
        """The item for (key, relation), if this model predicts that."""
        return self._by_asked.get(asked)

    def next(self, standing: Standing, user: str, order: str) -> Item | None:
        """The first item in this order that the user has not judged, or None; those judged by a colleague come last."""
        later = None
        for item in self._ordered(order, user, standing):
            if item.asked not in standing.mine:
                if item.asked not in standing.others:
                    return item
                later = later or item
        return later

    def progress(self, standing: Standing, user: str, order: str) -> Progress:
        """How many items of this order the user has judged, and how."""
        counts = dict.fromkeys((RIGHT, WRONG, UNKNOWN), 0)
        for verdict in standing.mine.values():
            counts[verdict.verdict] += 1
        asked = self._asked(order, standing)
        return Progress(
            judged=sum(it in asked for it in standing.mine),
            of=len(asked),
            counts=counts,
            changed=sum(self._has_changed(verdict) for verdict in standing.earlier.values()),
        )

    def change(self, item: Item, standing: Standing) -> Change | None:
        """What the user judged before, if an older model predicted something else for this sentence; else None."""
        before = standing.earlier.get(item.key)
        if before is None or before.model == self.digest or before.relation == item.relation:
            return None
        return Change(before.relation, before.verdict)

    def parts(self, row: int) -> list[Part]:
        """The text of a sentence, split at the boundaries of head and tail."""
        tokens, spans = _sentence(self.dataset, self.split, row)
        return list(parts(tokens, spans))

    def others(self, item: Item) -> list[list[Part]]:
        """Up to 20 other sentences with the same two entities."""
        if not self.saved.has_pairs:
            return []
        begin, end = np.searchsorted(self._pairs_in_order, self.split.pairs[item.row] + np.array([0, 1]))
        here = self.parts(item.row)
        found: list[list[Part]] = []
        for row in self._rows_by_pair[begin:end].tolist():
            there = self.parts(row)
            if there != here and there not in found and len(found) < _OTHERS:
                found.append(there)
        return found

    def _has_changed(self, before: Verdict) -> bool:
        item = self._by_key.get(before.key)
        return item is not None and before.model != self.digest and before.relation != item.relation

    def _ordered(self, order: str, user: str, standing: Standing) -> list[Item]:
        if order == "random":
            return self._random(user)
        if order == "changed":
            return sorted(self._changed(standing), key=_surest_first)
        return self._orders[order]

    def _asked(self, order: str, standing: Standing) -> frozenset[tuple[str, str]]:
        if order == "changed":
            return frozenset(item.asked for item in self._changed(standing))
        return self._sets["random" if order == "confident" else order]

    def _changed(self, standing: Standing) -> list[Item]:
        """The items of sentences that the user judged when an older model predicted something else, whether or not they
        have judged them again since.
        """
        before = {it.key for it in standing.mine.values() if self._has_changed(it)}
        return [item for key in before if (item := self._by_key.get(key)) is not None]

    @cached_property
    def _orders(self) -> dict[str, list[Item]]:
        stated = [item for item in self.items if item.stated]
        surest = sorted(stated, key=_surest_first)
        return {
            "uncertain": sorted(self.items, key=lambda item: (item.margin, item.key)),
            "confident": surest,
            "new": [item for item in surest if item.new],
        }

    @cached_property
    def _sets(self) -> dict[str, frozenset[tuple[str, str]]]:
        lists = {**self._orders, "random": self._orders["confident"]}
        return {name: frozenset(item.asked for item in items) for name, items in lists.items()}

    def _shuffled(self, user: str) -> list[Item]:
        """The items in an order of the user's own, which does not change between sessions."""

        def draw(item: Item) -> bytes:
            return hashlib.blake2b(f"{user}\n{item.key}".encode(), digest_size=8).digest()

        return sorted(self._orders["confident"], key=draw)

    @cached_property
    def _rows_by_pair(self) -> Ints:
        return np.argsort(self.split.pairs, kind="stable")

    @cached_property
    def _pairs_in_order(self) -> Ints:
        return self.split.pairs[self._rows_by_pair].astype(np.int64)


def build(
    dataset: Dataset,
    saved: SavedModel,
    digest: str,
    *,
    kb: KB | None = None,
    labels_of_dev: bool = False,
    tick: Callable[[int], None] = lambda done: None,
) -> Queue:
    """Scores every training sentence on its own and makes a queue of the predictions; duplicate sentences are asked
    about once. `digest` identifies the model, and `tick` is called with the number of sentences scored so far. With
    `labels_of_dev`, asks about the sentences of dev and the relations that they are labelled with, whatever the model
    predicts.

    Raises UserError if model and data are of different kinds, or if there is nothing to ask.
    """
    if dataset.has_pairs != saved.has_pairs:
        kinds = ("plain texts", "sentences with a pair of entities")
        raise UserError(
            f"the data has {kinds[dataset.has_pairs]}, but the model was trained on {kinds[saved.has_pairs]}; "
            "give data of the same kind"
        )
    split, first = dataset.dev if labels_of_dev else dataset.train, int(saved.has_na)
    known = _Known(dataset, kb)
    numbers = {name: number for number, name in enumerate(saved.relations)}
    of_label = np.array([numbers.get(name, 0) for name in dataset.relations])  # the model's number of every label
    items: dict[str, Item] = {}
    for rows, scores in _scored(dataset, split, saved):
        calibrated, probability = saved.calibration.log_odds(scores), sigmoid(scores)
        best = scores[:, first:].argmax(axis=1) + first
        top = np.partition(scores, -2, axis=1)[:, -2:]  # (S, 2) the second best and the best
        for place, row in enumerate(rows.tolist()):
            relation = int(of_label[split.labels[row]] if labels_of_dev else best[place])
            stated = labels_of_dev or not first or bool(scores[place, relation] >= scores[place, 0])
            if relation < first or (not stated and probability[place, relation] < _CLOSE * probability[place, 0]):
                continue
            name = saved.relations[relation]
            item = Item(
                row=row,
                key=sentence_key(*_sentence(dataset, split, row)),
                relation=name,
                log_odds=float(calibrated[place, relation]),
                margin=float(top[place, 1] - top[place, 0]),
                stated=stated,
                new=not known.has(split, row, name),
            )
            items.setdefault(item.key, item)
        tick(int(rows[-1]) + 1)
    if not items and labels_of_dev:
        raise UserError("no sentence that is held out for dev has a relation that the model knows: nothing to review")
    if not items:
        raise UserError("the model predicts no relation for any of these sentences: there is nothing to review")
    return Queue(dataset, saved, digest, list(items.values()), has_kb=kb is not None, split=split)


def digest_of(folder: Path) -> str:
    """16 hexadecimal digits that identify a saved model by its content: config.json has the hashes of its other files.
    Raises UserError if it cannot be read.
    """
    folder = folder / "model" if (folder / "model").is_dir() else folder
    return sha256(folder / "config.json")[:16]


def parts(tokens: list[str], spans: tuple[int, ...]) -> Iterator[Part]:
    """The text of a sentence, split at the boundaries of head and tail, with spaces as one would type them. `spans` are
    head start, head end, tail start and tail end, in tokens.
    """
    head, tail = range(spans[0], spans[1]), range(spans[2], spans[3])

    def role(place: int) -> str:
        return " ".join(name for name, span in (("head", head), ("tail", tail)) if place in span)

    glued = True
    for name, places in groupby(range(len(tokens)), role):
        text = ""
        for place in places:
            token = tokens[place]
            space = "" if glued or token in _NO_SPACE_BEFORE else " "
            if space and name and not text:
                yield "", space  # so that the marked part begins with its first letter
                space = ""
            text += space + token
            glued = token in _NO_SPACE_AFTER
        yield name, text


def _surest_first(item: Item) -> tuple[float, str]:
    """Sorts the most certain first; of equally certain ones, the key of the sentence, a hash, decides."""
    return -item.log_odds, item.key


def _sentence(dataset: Dataset, split: Split, row: int) -> tuple[list[str], tuple[int, ...]]:
    return dataset.sentence(split, row), tuple(int(place) for place in split.spans[row])


def _scored(dataset: Dataset, split: Split, saved: SavedModel) -> Iterator[tuple[Ints, Floats]]:
    """Batches of rows (S,) with their scores (S, R)."""
    numbers = saved.encoding.numbers(dataset.words)
    for begin in range(0, len(split), _AT_ONCE):
        rows = np.arange(begin, min(begin + _AT_ONCE, len(split)))
        shard = saved.encoding.pack(split, rows, np.arange(len(rows) + 1), numbers)
        saved.model.load(saved.weights, shard)
        yield rows, saved.model.score_bags(shard).numpy()


@dataclass(frozen=True)
class _Known:
    """Looks up facts of the data in the knowledge base, by the entity ids that both use."""

    dataset: Dataset
    kb: KB | None

    def has(self, split: Split, row: int, relation: str) -> bool:
        if self.kb is None or relation not in self._relations:
            return False
        head, tail = (self.kb.numbers.get(self.dataset.entities[n]) for n in split.pair_entities[split.pairs[row]])
        if head is None or tail is None:
            return False
        number = self._relations[relation]
        found = self.kb.relations_between(head, tail)
        return number in found or (number in self.kb.symmetric and number in self.kb.relations_between(tail, head))

    @cached_property
    def _relations(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.kb.relations)} if self.kb is not None else {}
