"""A run's score on sentences that people judged."""

from __future__ import annotations

from typing import Any

from fedrel.config import WORLD
from fedrel.data.store import sentence_bags
from fedrel.evaluation.human import human_score, judged_sentences
from fedrel.experiment.assembly import LABELS_OF_TEST, Setup, judged_of
from fedrel.feedback.stored_verdicts import rows_by_key
from fedrel.learning.named import Named


def human_scores(setup: Setup, weights: Named) -> dict[str, Any] | None:
    """What the model scores on people's labels; `of`, where these are, the file of data.human or test; and `trained`,
    how many of the sentences are in train, with the labels that it has. None: there are none, or they are on the
    platforms.
    """
    human, dataset = setup.experiment.data.human, judged_of(setup.experiment, setup.dataset)
    if dataset is None:
        human, dataset, by_people = LABELS_OF_TEST, setup.dataset, human == LABELS_OF_TEST
        if LABELS_OF_TEST in setup.at_home or not (dataset.has_na and dataset.has_pairs):
            return None
        if setup.experiment.data.source == WORLD:  # whose truth is nobody's judgment
            return None
    else:
        by_people = True
    rows, stated = judged_sentences(dataset.test, labelled_by_people=by_people)
    if not len(rows):
        return None
    numbers = setup.encoding.numbers(dataset.words)
    shard = setup.encoding.pack(dataset.test, *sentence_bags(dataset.test, rows), numbers)
    setup.model.load(weights, shard)
    found = human_score(setup.model.score_bags(shard).numpy(), stated)
    if found is None:
        return None
    trained = 0
    if dataset is not setup.dataset and setup.sites.here:
        known = rows_by_key(setup.dataset, setup.dataset.train)
        trained = sum(len(places) for key, places in rows_by_key(dataset, dataset.test).items() if key in known)
    return {**found, "of": human, "trained": trained}
