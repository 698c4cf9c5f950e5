"""Sui et al., EMNLP 2021 (Lazy MIL): platforms elect the most reliable sentence of every fact.

Each platform scores its sentences with the global model and sends, per fact, its best score under a blinded
key; the highest score of a fact wins, and its platform alone trains on that sentence in this round. Which
sentence it was never leaves the platform.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.denoisers import first_best
from fedrel.learning.named import Named
from fedrel.protocol import (
    Ask,
    Record,
    Replies,
    Round,
    Scored,
    Site,
    broadcast,
    in_key_order,
    named_in,
    rounded_down,
    task,
)


@dataclass(frozen=True)
class LazyMIL(FedAvg):
    """`na`: pairs without a fact are settled at home ("local") or elected like facts ("elected").
    `warmup`: rounds of plain training before the first election; 0 is the paper. `rounding`: scores leave as multiples
    of it, rounded down; 0 is the paper, where they are exact.
    """

    selects = True

    na: Literal["local", "elected"] = "local"
    warmup: int = number(10, low=0)
    rounding: float = number(2.0, low=0, high=100)

    @property
    def preparation(self) -> int:
        return self.warmup

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        if hub.round < self.warmup:
            return (yield from super().round(hub, state, cohort))
        weights = named_in(state, "weights")
        ballots = yield broadcast("score", cohort, weights=weights)
        if not ballots:
            return state
        wins = elect(ballots, hub.round)
        replies = yield Ask("train", {platform: {"wins": wins[platform]} for platform in ballots})
        return state | {"weights": hub.mean(weights, replies, "weights", by="sentences")}

    @task(ballot={"key": "i64 n", "score": "f32 n logodds"})
    def score(self, site: Site, message: Record) -> Record:
        """Per fact: the log-odds of its best sentence here. The weights and the sentences wait for the result."""
        weights = named_in(message, "weights")
        site.model.load(weights, site.shard)
        best, score = site.model.choose(site.shard)  # (bags,)
        elected = (site.shard.labels[best] >= site.first_relation) | (self.na == "elected")
        keys = site.fact_keys()
        bags, entry = in_key_order(keys, elected)
        site.scratch |= {"weights": weights, "best": Named(sentence=best, elected=elected, entry=entry)}
        return {"ballot": Named(key=keys[bags], score=rounded_down(score[bags], self.rounding))}

    @task(weights="model", sentences="sentences", loss="loss", or_nothing=True, trains=True)
    def train(self, site: Site, message: Record) -> Record:
        return super().train(site, message)

    def chosen(self, site: Site, message: Record) -> Tensor | None:
        if "wins" not in message:
            return None  # a round of the warm-up
        noted = named_in(site.scratch, "best")
        best, won = noted["sentence"], ~noted["elected"]  # what is not elected is settled at home
        won[noted["elected"]] = named_in(message, "wins")["won"][noted["entry"]]
        site.select(best[won])
        return best[won]

    def selection(self, state: Record, platforms: Mapping[str, Scored]) -> dict[str, Tensor]:
        best = {name: first_best(seen.z, seen.bag, len(seen.key)) for name, seen in platforms.items()}
        ballots: Replies = {
            name: {"ballot": Named(key=seen.key, score=rounded_down(seen.z[best[name]], self.rounding))}
            for name, seen in platforms.items()
        }
        wins = elect(ballots, turn=0)
        return {name: best[name][wins[name]["won"]] for name in platforms}


def elect(ballots: Replies, turn: int) -> Mapping[str, Named]:
    """Tells each platform which of its entries hold the highest score of their key. Ties favour nobody for long: they
    go to the first platform, counted from another one with every `turn`.
    """
    given = [(platform, named_in(reply, "ballot")) for platform, reply in ballots.items()]
    first = turn % max(len(given), 1)
    votes = dict(given[first:] + given[:first])
    sizes = [len(vote["key"]) for vote in votes.values()]
    key = torch.cat([vote["key"] for vote in votes.values()])  # (n,) all entries, platform after platform
    score = torch.cat([vote["score"] for vote in votes.values()])
    won = torch.zeros(len(key), dtype=torch.bool)
    keys, group = torch.unique(key, return_inverse=True)
    won[first_best(score, group, len(keys))] = True
    return {platform: Named(won=part) for platform, part in zip(votes, torch.split(won, sizes), strict=True)}
