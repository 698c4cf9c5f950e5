"""Scores by what people say of sentences, beside those by the labels of a knowledge base.

People judge one sentence at a time, so here every sentence is a bag of its own: a relation counts as right only if this
very sentence states it. `ap_human` is the average precision of all (sentence, relation) ranked by their log-odds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints, Split
from fedrel.evaluation.context import ap_interval
from fedrel.evaluation.heldout import rank

METRIC = "ap_human"


def judged_sentences(split: Split, *, labelled_by_people: bool) -> tuple[Ints, Ints]:
    """(J,) the rows of a split that people judged, and (J,) the relation that each states, 0 for none. A sentence that
    is known not to express its label states none; where people chose the labels, all sentences are judged.
    """
    known, labels = np.asarray(split.expressed), np.asarray(split.labels).astype(np.int64)
    rows = np.arange(len(split)) if labelled_by_people else np.flatnonzero(known >= 0)
    return rows, np.where(known[rows] == 0, 0, labels[rows])


def human_score(scores: npt.NDArray[np.floating], facts: Ints) -> dict[str, Any] | None:
    """The score of sentences by `scores` (J, R), log-odds, against the (sentence, relation) that are stated, (F, 2);
    None if there are none.

    `ap_human`, its 95 % `interval` over sentences, and the numbers of `sentences` and of those that are `stating` one
    of the relations.
    """
    if not len(facts):
        return None
    return {
        METRIC: rank(scores, facts).metrics()["ap"],
        "interval": ap_interval(scores, facts),
        "sentences": len(scores),
        "stating": len(np.unique(facts[:, 0])),
    }
