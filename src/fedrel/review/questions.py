"""What is a question: a sentence and the relation that a model predicts for it, unless their types rule that out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrel.alignment.kb import KB
from fedrel.corpus import NA, Document
from fedrel.data.store import Dataset, Ints, Split
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Bools, Floats, sigmoid
from fedrel.experiment.saved import SavedModel
from fedrel.extraction.facts import Fact
from fedrel.extraction.knowledge import Knowledge
from fedrel.extraction.supporting import Supporting, supporting
from fedrel.feedback.keys import sentence_key
from fedrel.review.texts import DatasetTexts, FactTexts
from fedrel.util.files import sha256

_AT_ONCE = 8_192  # sentences scored together
_CLOSE = 0.5  # a relation is asked about if it is at least this share as likely as "no relation"
_SUREST = 1e-6  # what the score of a sentence may lack to 0 or 1


@dataclass(frozen=True, slots=True)
class Item:
    """A sentence and its predicted relation, or a text and its predicted label."""

    row: int  # in the texts
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
class Questions:
    """Questions and the sentences that they are about. `digest` identifies the model, `relations` are those that can be
    named instead, and `impossible` counts predictions that are no questions because of the types of their entities.
    """

    items: list[Item]
    texts: DatasetTexts | FactTexts
    digest: str
    relations: tuple[str, ...]
    has_kb: bool
    impossible: int = 0


def of_dataset(
    dataset: Dataset,
    saved: SavedModel,
    digest: str,
    *,
    kb: KB | None = None,
    labels_of_dev: bool = False,
    tick: Callable[[int], None] = lambda done: None,
) -> Questions:
    """Scores every training sentence on its own and asks about the best relation that its types allow; duplicate
    sentences are asked about once. `tick` is called with the number of sentences scored so far. With `labels_of_dev`,
    asks about the sentences of dev and the relations that they are labelled with, whatever the model predicts.

    Raises UserError if model and data are of different kinds, or if there is nothing to ask.
    """
    if dataset.has_pairs != saved.has_pairs:
        kinds = ("plain texts", "sentences with a pair of entities")
        raise UserError(
            f"the data has {kinds[dataset.has_pairs]}, but the model was trained on {kinds[saved.has_pairs]}; "
            "give data of the same kind"
        )
    split, first = dataset.dev if labels_of_dev else dataset.train, int(saved.has_na)
    texts = DatasetTexts(dataset, split, kb)
    types = _Types(texts, saved.relations[first:])
    numbers = {name: number for number, name in enumerate(saved.relations)}
    of_label = np.array([numbers.get(name, 0) for name in dataset.relations])  # the model's number of every label
    items: dict[str, Item] = {}
    impossible = 0
    for rows, scores in _scored(dataset, split, saved):
        calibrated, probability = saved.calibration.log_odds(scores), sigmoid(scores)
        likely = scores[:, first:].argmax(axis=1)
        if not labels_of_dev:
            possible = types.possible(rows)
            impossible += int((~possible[np.arange(len(rows)), likely] & _close(scores, likely + first, first)).sum())
            scores[:, first:][~possible] = -np.inf
        best = scores[:, first:].argmax(axis=1) + first
        top = np.partition(scores, -2, axis=1)[:, -2:]  # (S, 2) the second best and the best
        for place, row in enumerate(rows.tolist()):
            relation = int(of_label[split.labels[row]] if labels_of_dev else best[place])
            if relation < first or scores[place, relation] == -np.inf:
                continue
            stated = labels_of_dev or not first or bool(scores[place, relation] >= scores[place, 0])
            if not stated and probability[place, relation] < _CLOSE * probability[place, 0]:
                continue
            name = saved.relations[relation]
            item = Item(
                row=row,
                key=sentence_key(*texts.sentence(row)),
                relation=name,
                log_odds=float(calibrated[place, relation]),
                margin=float(top[place, 1] - top[place, 0]),
                stated=stated,
                new=not texts.has(row, name),
            )
            items.setdefault(item.key, item)
        tick(int(rows[-1]) + 1)
    if not items and labels_of_dev:
        raise UserError("no sentence that is held out for dev has a relation that the model knows: nothing to review")
    if not items:
        raise UserError("the model predicts no relation for any of these sentences: there is nothing to review")
    relations = tuple(saved.relations[first:])
    return Questions(list(items.values()), texts, digest, relations, kb is not None, impossible)


def of_facts(
    facts: Iterable[Fact],
    digest: str,
    *,
    relations: Iterable[str] = (),
    kb: KB | None = None,
    documents: Iterable[Document] = (),
) -> Questions:
    """Asks about the sentences that support facts, each once, with the relation that it supports best. `relations` are
    what else the model knows, and `documents` the texts that the facts are from, where they are at hand.

    Raises UserError if there is nothing to ask.
    """
    knowledge = Knowledge(kb) if kb is not None else None
    best: dict[str, Supporting] = {}
    names = dict.fromkeys(relations)
    impossible, new, has_kb = 0, set[str](), kb is not None
    for it in supporting(facts):
        fact = it.fact
        names.setdefault(fact.relation)
        if knowledge is not None and not knowledge.allows_ids((fact.head, fact.tail), fact.relation):
            impossible += 1
            continue
        key = sentence_key(it.tokens, it.spans)
        if key not in best or best[key].support.score < it.support.score:
            best[key] = it
            known = fact.known if knowledge is None else knowledge.has_ids((fact.head, fact.tail), fact.relation)
            has_kb = has_kb or known is not None
            (new.discard if known or known is None else new.add)(key)
    if not best:
        raise UserError("no fact whose sentences could be judged: there is nothing to review")
    items = []
    for row, (key, it) in enumerate(best.items()):
        score = min(max(it.support.score, _SUREST), 1 - _SUREST)
        odds = float(np.log(score) - np.log1p(-score))
        items.append(Item(row, key, it.fact.relation, odds, abs(odds), odds >= 0, key in new))
    names.pop(NA, None)
    return Questions(items, FactTexts(list(best.values()), documents, kb), digest, tuple(names), has_kb, impossible)


def digest_of(path: Path) -> str:
    """16 hexadecimal digits that identify a saved model, or a file of facts, by its content: a model's config.json has
    the hashes of its other files. Raises UserError if it cannot be read.
    """
    if path.is_dir():
        path = (path / "model" if (path / "model").is_dir() else path) / "config.json"
    return sha256(path)[:16]


class _Types:
    """Which relations can hold in a row, by the types of its entities."""

    def __init__(self, texts: DatasetTexts, relations: list[str]) -> None:
        self._texts, self._relations = texts, relations
        self._masks: dict[object, Bools] = {}  # by pair of entities, or of their types as the data tells them

    def possible(self, rows: Ints) -> Bools:
        """(S, R) for these rows and the relations."""
        if not self._texts.has_pairs:
            return np.ones((len(rows), len(self._relations)), np.bool_)
        return np.stack([self._mask(row) for row in rows.tolist()])

    def _mask(self, row: int) -> Bools:
        key = self._texts.types(row) if self._texts.kb is None else int(self._texts.split.pairs[row])
        if (found := self._masks.get(key)) is None:
            found = np.array([self._texts.allows(row, name) for name in self._relations], np.bool_)
            self._masks[key] = found
        return found


def _close(scores: Floats, relations: Ints, first: int) -> Bools:
    """(S,) whether these relations would be asked about, were they possible."""
    if not first:
        return np.ones(len(scores), np.bool_)
    chosen = sigmoid(scores[np.arange(len(scores)), relations])
    return np.asarray(chosen >= _CLOSE * sigmoid(scores[:, 0]), np.bool_)


def _scored(dataset: Dataset, split: Split, saved: SavedModel) -> Iterator[tuple[Ints, Floats]]:
    """Batches of rows (S,) with their scores (S, R)."""
    numbers = saved.encoding.numbers(dataset.words)
    for begin in range(0, len(split), _AT_ONCE):
        rows = np.arange(begin, min(begin + _AT_ONCE, len(split)))
        shard = saved.encoding.pack(split, rows, np.arange(len(rows) + 1), numbers)
        saved.model.load(saved.weights, shard)
        yield rows, saved.model.score_bags(shard).numpy().copy()
