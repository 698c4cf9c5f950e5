"""Remembered evidence: a sentence trains as long as it holds its own against the best evidence for its fact.

z = log p/(1-p), p = p(relation | sentence). Each platform sends, per fact under a blinded key, the highest z among its
own sentences. The server remembers every platform's last word, whether or not it takes part now, and answers with the
highest of all, z*; a sentence trains if z ≥ z* - margin. So the parts of a fact need not be active together, several
good sentences may stay, and one that others outdo does not. A young model judges badly: the margin begins so wide that
nearly every sentence passes, and narrows round by round. Which sentences train never leaves the platform. What is sent
is rounded down, so that nobody recognises a sentence by it; the best of all still trains.

Many facts are stated by no sentence at all, and then the best one is wrong, too. So there may be an absolute bar beside
the relative one: sentences of pairs without a fact share the contexts and state nothing, and for each relation r the
platforms add up z_r and z_r² over theirs. A sentence of r that scores less than `bar` standard deviations above their
mean trains only in a `rest` of the rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.algorithms.best_evidence import answers, best_of_bags, hear, keep, pooled
from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.learning.background import Background
from fedrel.learning.model import HIDDEN
from fedrel.learning.named import Named
from fedrel.protocol import (
    Ask,
    Record,
    Round,
    Scored,
    Site,
    broadcast,
    in_key_order,
    named_in,
    task,
)


@dataclass(frozen=True)
class Evidence(FedAvg):
    """`margin`: of log-odds that a sentence may be behind the best; 0 keeps the best alone. It begins as `wide`, and
    `narrowing` is the share of all rounds that it takes. `memory`: without it only platforms of the same round are
    compared, under keys of that round. `rounding`: z leaves as a multiple of it, rounded down; 0: exactly. `bar`:
    standard deviations above sentences without a relation; it rises to this as the margin narrows. `rest`: the share of
    sentences below it that train all the same, others in every round; with 1 there is no bar.
    """

    selects = True
    view = HIDDEN  # the names are those of the fact, whatever a sentence says: its other words must show it

    margin: float = number(1.0, low=0, high=100)
    wide: float = number(8.0, low=0, high=100)
    narrowing: float = number(0.4, low=0, high=1)
    memory: bool = True
    rounding: float = number(2.0, low=0, high=100)
    bar: float = number(2.5, low=0, high=100)
    rest: float = number(1.0, low=0, high=1)

    def unsettled(self, rounds: int) -> int:
        return max(round(self.narrowing * rounds), int(self.narrowing > 0))

    def margin_at(self, round_: int, rounds: int) -> float:
        """Straight from `wide` to `margin`, and there it stays."""
        return self.margin + (self.wide - self.margin) * self._left(round_, rounds)

    def bar_at(self, round_: int, rounds: int) -> float:
        """Straight from `wide` below `bar` to `bar`, and there it stays."""
        return self.bar - self.wide * self._left(round_, rounds)

    def _left(self, round_: int, rounds: int) -> float:
        """Of the narrowing, 1 at first and 0 in the end."""
        takes = self.unsettled(rounds)
        return max(0.0, 1 - round_ / takes) if takes else 0.0

    def start(self, weights: Named) -> Record:
        nothing = torch.zeros(0, dtype=torch.int64)
        return {"weights": weights, "heard": Named(key=nothing, platform=nothing, best=torch.zeros(0))}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        shown = yield broadcast("show", cohort, weights=weights)
        if not shown:
            return state
        heard = hear(named_in(state, "heard"), shown, hub.everyone, remember=self.memory)
        told = answers(heard, shown)
        if self.rest < 1 and (sums := (yield broadcast("sum_up", list(shown)))):
            bars = Background.of_named(hub.total(sums, "background")).bar(self.bar_at(hub.round, hub.training.rounds))
            told = {platform: {**answer, "bars": Named(z=bars)} for platform, answer in told.items()}
        replies = yield Ask("train", told)
        return {"weights": hub.mean(weights, replies, "weights", by="sentences"), "heard": heard}

    @task(evidence={"key": "i64 n", "best": "f32 n logodds"})
    def show(self, site: Site, message: Record) -> Record:
        """Per fact: the log-odds of its best sentence here. The weights and all log-odds wait for the answer."""
        weights, bag = named_in(message, "weights"), site.shard.bag_of_sentences()
        site.model.load(weights, site.shard)
        summed = site.first_relation if self.rest < 1 else 0  # labels below it; without a bar, none
        z, background = site.model.label_and_background_odds(site.shard, summed, self.view)  # z: (S,)
        fact = site.shard.labels[site.shard.bag_starts[:-1]] >= site.first_relation
        keys = site.lasting_keys() if self.memory else site.fact_keys()
        bags, entry = in_key_order(keys, fact)
        seen = Named(z=z, fact=fact, entry=entry)
        site.scratch |= {"weights": weights, "seen": seen, "background": background.if_enough().named()}
        return {"evidence": Named(key=keys[bags], best=best_of_bags(z, bag, site.shard.bags, self.rounding)[bags])}

    @task(background={"sentences": "i64 counts", "total": "f64 relations sums", "squares": "f64 relations sums"})
    def sum_up(self, site: Site, message: Record) -> Record:
        """What relations score on the sentences without one, if there are enough."""
        return {"background": named_in(site.scratch, "background")}

    @task(weights="model", sentences="sentences", loss="loss", or_nothing=True, trains=True)
    def train(self, site: Site, message: Record) -> Record:
        return super().train(site, message)

    def chosen(self, site: Site, message: Record) -> Tensor:
        seen, bag = named_in(site.scratch, "seen"), site.shard.bag_of_sentences()
        margin = self.margin_at(site.round, site.training.rounds)
        chosen = keep(seen["z"], bag, seen["fact"], named_in(message, "best")["best"][seen["entry"]] - margin)
        fact, states = seen["fact"][bag[chosen]], torch.ones_like(chosen, dtype=torch.bool)
        if "bars" in message:
            states = seen["z"][chosen] >= named_in(message, "bars")["z"][site.shard.labels[chosen]]
        site.select(chosen[fact & states])
        drawn = torch.rand(len(chosen), generator=torch.Generator().manual_seed(site.draw("rest"))) < self.rest
        return chosen[~fact | states | drawn]

    def selection(self, platforms: Mapping[str, Scored]) -> dict[str, Tensor]:
        best = {name: best_of_bags(it.z, it.bag, len(it.key), self.rounding) for name, it in platforms.items()}
        shown = {name: {"evidence": Named(key=it.key, best=best[name])} for name, it in platforms.items()}
        nothing = named_in(self.start(Named()), "heard")
        told = answers(hear(nothing, shown, tuple(platforms), remember=False), shown)
        bars = pooled(seen.background for seen in platforms.values()).bar(self.bar if self.rest < 1 else -torch.inf)
        found = {}
        for name, seen in platforms.items():
            facts = torch.ones(len(seen.key), dtype=torch.bool)
            kept = keep(seen.z, seen.bag, facts, named_in(told[name], "best")["best"] - self.margin)
            found[name] = kept[seen.z[kept] >= bars[seen.labels[kept]]]
        return found
