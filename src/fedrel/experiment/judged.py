"""A run's score on sentences that people judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrel.config import WORLD
from fedrel.data.store import Ints, sentence_bags
from fedrel.evaluation.human import human_score, judged_sentences
from fedrel.experiment.assembly import LABELS_OF_TEST, Setup, judged_of
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
    split = dataset.test
    rows, stated = judged_sentences(split, labelled_by_people=by_people)
    if not len(rows):
        return None
    _, firsts, sentence = np.unique(keys_of(dataset, split, rows), return_index=True, return_inverse=True)
    shard = setup.encoding.pack(split, *sentence_bags(split, rows[firsts]), setup.encoding.numbers(dataset.words))
    setup.model.load(weights, shard)
    facts = np.unique(np.stack([sentence, stated], axis=1)[stated > 0], axis=0)
    scores = setup.model.score_bags(shard).numpy()
    trained = None
    if dataset is setup.dataset:
        trained = 0
    elif setup.sites.here:
        trained = len(set(keys_of(dataset, split, rows)) & rows_by_key(setup.dataset, setup.dataset.train).keys())
    return Ranked(scores, facts, of, trained)
