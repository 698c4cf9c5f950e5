"""A run's score on sentences that people judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrel.config import WORLD
from fedrel.data.store import Dataset, Ints, sentence_bags
from fedrel.encoding.shard import Shard
from fedrel.errors import UserError
from fedrel.evaluation.heldout import rank
from fedrel.evaluation.human import human_score, judged_sentences
from fedrel.experiment.assembly import LABELS_OF_TEST, Setup, judged_of, trusted_of
from fedrel.feedback.stored_verdicts import keys_of, rows_by_key
from fedrel.learning.named import Named

SOME_OF_TEST = "test, as far as it is judged"


@dataclass(frozen=True)
class Ranked:
    """How a model scores J sentences that people judged. A sentence that stands in several rows, with a relation each,
    counts once, and states all of them.
    """

    scores: npt.NDArray[np.floating]  # (J, R) log-odds
    facts: Ints  # (F, 2) which sentence states which relation
    of: str  # where people's labels are
    trained: int | None  # how many of the sentences are in train, with the labels that it has; None: not known here


def human_scores(setup: Setup, weights: Named) -> dict[str, Any] | None:
    """What the model scores on people's labels, and `of` and `trained` as in `Ranked`. None: there are no such labels,
    or they are on the platforms.
    """
    ranked = ranked_by_people(setup, weights)
    found = None if ranked is None else human_score(ranked.scores, ranked.facts)
    return None if ranked is None or found is None else {**found, "of": ranked.of, "trained": ranked.trained}


def ranked_by_people(setup: Setup, weights: Named) -> Ranked | None:
    """None: there are no labels by people, or they are on the platforms."""
    if not (setup.dataset.has_na and setup.dataset.has_pairs):
        return None
    human, dataset = setup.experiment.data.human, judged_of(setup.experiment, setup.dataset)
    by_people, of = bool(human), human or SOME_OF_TEST
    if dataset is None:
        dataset = setup.dataset
        # The truth of the built-in world is nobody's judgment
        if LABELS_OF_TEST in setup.at_home or (not by_people and setup.experiment.data.source == WORLD):
            return None
    judged = _judged(setup, dataset, by_people=by_people)
    if judged is None:
        return None
    trained = 0 if dataset is setup.dataset else _in_train(setup, judged.keys)
    return Ranked(judged.scores(setup, weights), judged.facts, of, trained)


class Trusted:
    """The sentences of data.trusted, by which the rounds of a run are chosen."""

    def __init__(self, judged: _Judged, file: str, trained: int | None) -> None:
        self._judged, self._file, self._trained = judged, file, trained

    @classmethod
    def of(cls, setup: Setup) -> Trusted | None:
        """UserError if none of the sentences states a relation, or if train has any of them: a model that has read a
        sentence with the label in question would be judged by what it knows by heart.
        """
        file, dataset = setup.experiment.data.trusted, trusted_of(setup.experiment, setup.dataset)
        if dataset is None:
            return None
        judged = _judged(setup, dataset, by_people=True)
        if judged is None or not len(judged.facts):
            raise UserError(f"{file}: none of its sentences states its relation, so no round can be chosen by them")
        if trained := _in_train(setup, judged.keys):
            raise UserError(
                f"{file}: {trained:,} of its sentences are in train as well; judge held-out ones: "
                "fedrel review --purpose dev"
            )
        return cls(judged, file, trained)

    def score(self, setup: Setup, weights: Named) -> float:
        """`ap_human` on these sentences."""
        return float(rank(self._judged.scores(setup, weights), self._judged.facts).metrics()["ap"])

    def scores(self, setup: Setup, weights: Named) -> dict[str, Any]:
        """`ap_human` with its interval, and where the sentences are."""
        found = human_score(self._judged.scores(setup, weights), self._judged.facts)
        assert found is not None  # there are facts
        return {**found, "of": self._file, "trained": self._trained}


@dataclass(frozen=True)
class _Judged:
    """J distinct sentences that people judged."""

    shard: Shard
    facts: Ints  # (F, 2) which sentence states which relation
    keys: set[str]

    def scores(self, setup: Setup, weights: Named) -> npt.NDArray[np.floating]:
        """(J, R) log-odds."""
        setup.model.load(weights, self.shard)
        found: npt.NDArray[np.floating] = setup.model.score_bags(self.shard).numpy()
        return found


def _judged(setup: Setup, dataset: Dataset, *, by_people: bool) -> _Judged | None:
    """Of the test split of a data set; None if nobody judged any of it."""
    split = dataset.test
    rows, stated = judged_sentences(split, labelled_by_people=by_people)
    if not len(rows):
        return None
    keys, firsts, sentence = np.unique(keys_of(dataset, split, rows), return_index=True, return_inverse=True)
    shard = setup.encoding.pack(split, *sentence_bags(split, rows[firsts]), setup.encoding.numbers(dataset.words))
    facts = np.unique(np.stack([sentence, stated], axis=1)[stated > 0], axis=0)
    return _Judged(shard, facts, set(keys.tolist()))


def _in_train(setup: Setup, keys: set[str]) -> int | None:
    """How many of these sentences are in train; None: not known here."""
    return len(keys & rows_by_key(setup.dataset, setup.dataset.train).keys()) if setup.sites.here else None
