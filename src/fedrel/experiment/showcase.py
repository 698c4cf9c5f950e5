"""Sentences that a trained model selects and rejects for the same fact: the papers' case study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrel.data.store import Ints, fact_bags
from fedrel.denoisers import first_best
from fedrel.evaluation.calibration import sigmoid
from fedrel.experiment.assembly import Setup
from fedrel.learning.named import Named
from fedrel.protocol.algorithm import Scored
from fedrel.protocol.codec import Record

_FACTS, _REJECTED = 12, 4


@dataclass(frozen=True)
class Showcase:
    """What the final model makes of every training sentence. S training rows."""

    scores: npt.NDArray[np.float32]  # (S,) log-odds of p(label | sentence)
    holders: npt.NDArray[np.int32]  # (S,) the platform, by its place in the order of names
    selected: Ints  # rows of facts that were selected


def look(setup: Setup, weights: Named, state: Record) -> Showcase | None:
    """Scores every sentence where it lies and selects as the method does; none for methods that use all sentences."""
    if not setup.algorithm.selects and not setup.model.denoiser.chooses:
        return None
    train = setup.dataset.train
    scores = np.zeros(len(train), dtype=np.float32)
    holders = np.zeros(len(train), dtype=np.int32)
    platforms: dict[str, Scored] = {}
    for number, (name, site) in enumerate(setup.sites.items()):
        setup.model.load(weights, site.shard)
        z, background = setup.model.label_and_background_odds(site.shard, site.first_relation, setup.algorithm.view)
        scores[site.shard.rows], holders[site.shard.rows] = z.numpy(), number
        labels, bag = site.shard.labels, site.shard.bag_of_sentences()
        states = labels >= site.first_relation
        background = background.with_own(z[states], labels[states])
        platforms[name] = Scored(z, labels, background, bag, site.lasting_keys())
    if setup.algorithm.selects:
        places = setup.algorithm.selection(state, platforms)
    else:  # the denoiser chooses within bags
        places = {name: first_best(seen.z, seen.bag, len(seen.key)) for name, seen in platforms.items()}
    selected = np.concatenate([setup.sites.rows_in_order(name)[it.numpy()] for name, it in places.items()])
    return Showcase(scores, holders, np.sort(selected[np.asarray(train.labels)[selected] >= int(setup.dataset.has_na)]))


def choices(setup: Setup, weights: Named, platforms: Iterable[str]) -> Ints:
    """The training rows that a denoiser which chooses within bags would choose there with these weights."""
    rows = []
    for site in (setup.sites[name] for name in platforms):
        setup.model.load(weights, site.shard)
        rows.append(site.shard.rows[setup.model.choose(site.shard)[0].numpy()])
    return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


def examples(setup: Setup, seen: Showcase) -> list[dict[str, Any]]:
    """A few facts with much evidence, of different relations: who was selected, and who lost against them."""
    train = setup.dataset.train
    is_selected = np.zeros(len(train), dtype=bool)
    is_selected[seen.selected] = True
    rows, starts = fact_bags(train, np.flatnonzero(np.asarray(train.labels) >= int(setup.dataset.has_na)))
    shown: list[dict[str, Any]] = []
    per_relation = Counter[int]()
    for bag in np.argsort(starts[:-1] - starts[1:], kind="stable"):  # the largest first
        fact = rows[starts[bag] : starts[bag + 1]]
        fact = fact[np.argsort(-seen.scores[fact], kind="stable")]
        winners, losers = fact[is_selected[fact]], fact[~is_selected[fact]]
        label = int(train.labels[fact[0]])
        if not len(winners) or not len(losers) or per_relation[label] > len(shown) // len(setup.dataset.relations):
            continue
        per_relation[label] += 1
        head, tail = train.pair_entities[train.pairs[fact[0]]]
        shown.append(
            {
                "head": setup.dataset.entities[head],
                "relation": setup.dataset.relations[label],
                "tail": setup.dataset.entities[tail],
                "selected": [_sentence(setup, seen, int(row)) for row in winners[:_REJECTED]],
                "rejected": [_sentence(setup, seen, int(row)) for row in losers[:_REJECTED]],
            }
        )
        if len(shown) == _FACTS:
            break
    return shown


def _sentence(setup: Setup, seen: Showcase, row: int) -> dict[str, Any]:
    train = setup.dataset.train
    truth = int(train.expressed[row])
    return {
        "tokens": setup.dataset.sentence(train, row),
        "head": train.spans[row, :2].tolist(),
        "tail": train.spans[row, 2:].tolist(),
        "score": float(sigmoid(seen.scores[row])),
        "platform": list(setup.sites)[seen.holders[row]],
        "expressed": None if truth < 0 else bool(truth),
    }
