"""Sentences that a trained model selects and rejects for the same fact: the papers' case study."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from torch import Tensor

from fedrel.algorithms import LazyMIL
from fedrel.algorithms.lazy_mil import elect
from fedrel.assembly import Setup
from fedrel.bags import Ints
from fedrel.federation.codec import Record
from fedrel.learning.named import Named

_FACTS, _REJECTED = 12, 4


def final_selection(setup: Setup, weights: Named) -> Ints | None:
    """The training rows of facts that the final model selects, over all platforms; none for methods that use all."""
    if isinstance(setup.algorithm, LazyMIL):
        ballots: dict[str, Record] = {}
        best: dict[str, Tensor] = {}
        for name, site in setup.sites.items():
            setup.model.load(weights, site.shard)
            best[name], score = setup.model.choose(site.shard)
            ballots[name] = {"ballot": Named(key=site.fact_keys(), score=score)}
        won = elect(ballots)
        parts = [setup.sites[name].shard.rows[best[name][won[name]["won"]]] for name in best]
    elif setup.model.denoiser.chooses:
        parts = []
        for site in setup.sites.values():
            setup.model.load(weights, site.shard)
            parts.append(site.shard.rows[setup.model.choose(site.shard)[0]])
    else:
        return None
    rows = np.concatenate(parts)
    return np.sort(rows[np.asarray(setup.dataset.train.labels)[rows] > 0])


def examples(setup: Setup, weights: Named, selected: Ints) -> list[dict[str, Any]]:
    """A few facts, each with a selected sentence and some that lost against it, with their scores."""
    train = setup.dataset.train
    chosen = set(selected.tolist())
    score: dict[int, float] = {}
    holder: dict[int, str] = {}
    by_fact: dict[tuple[int, int], list[int]] = defaultdict(list)
    for name, site in setup.sites.items():
        setup.model.load(weights, site.shard)
        for row, p in zip(site.shard.rows.tolist(), setup.model.label_probabilities(site.shard).tolist(), strict=True):
            score[row], holder[row] = p, name
            if train.labels[row] > 0:
                by_fact[int(train.pairs[row]), int(train.labels[row])].append(row)
    shown: list[dict[str, Any]] = []
    seen: dict[int, int] = defaultdict(int)  # examples by relation, so that they differ
    for (pair, label), rows in sorted(by_fact.items(), key=lambda item: (-len(item[1]), item[0])):
        winners = [row for row in rows if row in chosen]
        losers = sorted((row for row in rows if row not in chosen), key=lambda row: -score[row])
        if not winners or not losers or seen[label] >= 1 + len(shown) // len(setup.dataset.relations):
            continue
        seen[label] += 1
        head, tail = train.pair_entities[pair]
        shown.append(
            {
                "head": setup.dataset.entities[head],
                "relation": setup.dataset.relations[label],
                "tail": setup.dataset.entities[tail],
                "selected": [_sentence(setup, row, score[row], holder[row]) for row in winners[:_REJECTED]],
                "rejected": [_sentence(setup, row, score[row], holder[row]) for row in losers[:_REJECTED]],
            }
        )
        if len(shown) == _FACTS:
            break
    return shown


def _sentence(setup: Setup, row: int, score: float, platform: str) -> dict[str, Any]:
    train = setup.dataset.train
    truth = int(train.expressed[row])
    return {
        "tokens": setup.dataset.sentence(train, row),
        "head": train.spans[row, :2].tolist(),
        "tail": train.spans[row, 2:].tolist(),
        "score": score,
        "platform": platform,
        "expressed": None if truth < 0 else bool(truth),
    }
