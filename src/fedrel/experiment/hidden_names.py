"""How a model does on dev where it cannot see whose names are in a sentence: a score to choose methods by without clean
labels.

Dev's labels come from the knowledge base that labelled train, so a model that knows pairs by heart does well there
without reading. With names hidden it has to read, whatever it was trained with; docs/human-truth.md says how closely
people's judgment follows this score, and how little it follows dev's own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrel.encoding import vectors
from fedrel.encoding.shard import Shard
from fedrel.encoding.words import WordEncoding
from fedrel.errors import UserError
from fedrel.evaluation.heldout import rank
from fedrel.evaluation.task import Classification
from fedrel.experiment.assembly import Setup
from fedrel.learning.model import HIDDEN
from fedrel.learning.named import Named

METRIC = "dev_ap_hidden"


def score_without_names(setup: Setup, weights: Named) -> float | None:
    """`ap` on dev with every mention replaced by its stand-in. None: platforms hold dev, its labels are gold, or the
    extractor has no stand-ins.
    """
    if "dev" in setup.at_home or isinstance(setup.evaluation, Classification) or not len(setup.dataset.dev.facts):
        return None
    shard = _dev_with_stand_ins(setup)
    if shard is None:
        return None
    setup.model.load(weights, shard)
    view, setup.model.hidden_view = setup.model.hidden_view, HIDDEN
    try:
        scores = setup.model.score_bags(shard).numpy()
    finally:
        setup.model.hidden_view = view
    return float(rank(scores, setup.dataset.dev.facts).metrics()["ap"]) if np.isfinite(scores).all() else None


def _dev_with_stand_ins(setup: Setup) -> Shard | None:
    encoding = setup.encoding
    if not isinstance(encoding, WordEncoding) or not setup.dataset.has_pairs:
        return None
    if encoding.stand_ins is not None:
        return setup.dev
    named = setup.experiment.extractor.vectors
    try:
        pretrained = None if named == "random" else vectors.load(named)
    except UserError:  # a model to go on from needs its vectors no more
        return None
    encoding = replace(encoding, stand_ins=vectors.stand_ins(encoding.vocabulary, pretrained))
    split = setup.dataset.dev
    return encoding.pack(split, *setup.evaluation.bags(split), encoding.numbers(setup.dataset.words))
