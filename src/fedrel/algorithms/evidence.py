"""Remembered evidence: a sentence trains as long as it holds its own against the best evidence for its fact.

z = log p/(1-p), p = p(relation | sentence). Each platform sends, per fact under a blinded key, the highest z among its
own sentences. The server remembers every platform's last word, whether or not it takes part now, and answers with the
highest of all, z*; a sentence trains if z ≥ z* - margin. So the parts of a fact need not be active together, several
good sentences may stay, and one that others outdo does not. A young model judges badly: the margin begins so wide that
nearly every sentence passes, and narrows round by round. Which sentences train never leaves the platform. What is sent
is rounded down, so that nobody recognises a sentence by it; the best of all still trains.

Many facts are stated by no sentence at all, and then the best one is wrong, too. So there is an absolute bar beside
the relative one, which says what is *selected*, as stating its fact. Sentences of pairs without a fact share the
contexts and state nothing: platforms add up, for each relation r, z_r and z_r² over these and over the sentences
labelled with r. How far the latter stand out in the first rounds, before they are learnt by heart, tells how many of
them state r; with that, the sums of a later round give a bar on z_r (`Background.bars`). What trains does not depend
on it: the best sentence of a fact that nobody states still shows what such facts are about.

Where a few facts have most of a platform's sentences, one sentence of each fact trains in a round, drawn from those
that are kept; or the model would learn those facts alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.algorithms.best_evidence import (
    answers,
    best_of_bags,
    effective_share,
    hear,
    keep,
    one_of_each,
)
from fedrel.algorithms.fedavg import FedAvg
from fedrel.algorithms.standing_out import SUMS, bars_of, compare_relations, nobody_stood_out, pooled, rounded
from fedrel.config import number
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
    compared, under keys of that round. `rounding`: z leaves as a multiple of it, rounded down; 0: exactly. `early`:
    rounds after the first in which it is found how far relations stand out; 0: there is no bar, platforms send nothing
    for it, and what trains is what is selected. `even`: where the effective number of facts, (Σk)² / Σk² of facts with
    k sentences on a platform, is below this share of them, one sentence of each trains in a round.
    """

    selects = True
    view = HIDDEN  # the names are those of the fact, whatever a sentence says: its other words must show it

    margin: float = number(1.0, low=0, high=100)
    wide: float = number(8.0, low=0, high=100)
    narrowing: float = number(0.4, low=0, high=1)
    memory: bool = True
    rounding: float = number(2.0, low=0, high=100)
    early: int = number(3, low=0, high=1_000_000)
    even: float = number(0.3, low=0, high=1)

    def unsettled(self, rounds: int) -> int:
        return max(round(self.narrowing * rounds), int(self.narrowing > 0))

    def margin_at(self, round_: int, rounds: int) -> float:
        """Straight from `wide` to `margin`, and there it stays."""
        takes = self.unsettled(rounds)
        left = max(0.0, 1 - round_ / takes) if takes else 0.0
        return self.margin + (self.wide - self.margin) * left

    def start(self, weights: Named) -> Record:
        nothing = torch.zeros(0, dtype=torch.int64)
        heard = Named(key=nothing, platform=nothing, best=torch.zeros(0))
        return {"weights": weights, "heard": heard, "stood": nobody_stood_out()}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        shown = yield broadcast("show", cohort, weights=weights)
        if not shown:
            return state
        heard = hear(named_in(state, "heard"), shown, hub.everyone, remember=self.memory)
        told = answers(heard, shown)
        stood, bars = yield from compare_relations(hub, named_in(state, "stood"), shown, self.early)
        replies = yield Ask("train", {platform: answer | bars for platform, answer in told.items()})
        trained = hub.mean(weights, replies, "weights", by="sentences")
        return {"weights": trained, "heard": heard, "stood": stood}

    @task(evidence={"key": "i64 n", "best": "f32 n logodds"})
    def show(self, site: Site, message: Record) -> Record:
        """Per fact: the log-odds of its best sentence here. The weights and all log-odds wait for the answer."""
        weights, bag = named_in(message, "weights"), site.shard.bag_of_sentences()
        site.model.load(weights, site.shard)
        summed = site.first_relation if self.early else 0  # labels below it; without a bar, none
        z, background = site.model.label_and_background_odds(site.shard, summed, self.view)  # z: (S,)
        fact = site.shard.labels[site.shard.bag_starts[:-1]] >= site.first_relation
        keys = site.lasting_keys() if self.memory else site.fact_keys()
        bags, entry = in_key_order(keys, fact)
        states = site.shard.labels >= site.first_relation
        # Rounded to the middle of a step: a relation may have one sentence here, which nobody is to recognise by its z
        background = background.with_own(rounded(z[states], self.rounding), site.shard.labels[states])
        seen = Named(z=z, fact=fact, entry=entry)
        site.scratch |= {"weights": weights, "seen": seen, "background": background.if_enough().named()}
        return {"evidence": Named(key=keys[bags], best=best_of_bags(z, bag, site.shard.bags, self.rounding)[bags])}

    @task(background=SUMS)
    def sum_up(self, site: Site, message: Record) -> Record:
        """What relations score on their own sentences, and on those without one if these are enough."""
        return {"background": named_in(site.scratch, "background")}

    @task(weights="model", sentences="sentences", loss="loss", or_nothing=True, trains=True)
    def train(self, site: Site, message: Record) -> Record:
        return super().train(site, message)

    def chosen(self, site: Site, message: Record) -> Tensor:
        seen, bag = named_in(site.scratch, "seen"), site.shard.bag_of_sentences()
        margin = self.margin_at(site.round, site.training.rounds)
        chosen = keep(seen["z"], bag, seen["fact"], named_in(message, "best")["best"][seen["entry"]] - margin)
        stating = chosen
        if "bars" in message:
            stating = (seen["z"] >= named_in(message, "bars")["z"][site.shard.labels]).nonzero().squeeze(1)
        site.select(stating[seen["fact"][bag[stating]]])
        alone = effective_share(torch.bincount(bag)[seen["fact"]]) < self.even
        return one_of_each(chosen, bag, seen["fact"], site.draw("one")) if alone else chosen

    def selection(self, state: Record, platforms: Mapping[str, Scored]) -> dict[str, Tensor]:
        bars = bars_of(named_in(state, "stood"), pooled(seen.background for seen in platforms.values()), self.early)
        if bars is not None:
            return {name: (it.z >= bars[it.labels]).nonzero().squeeze(1) for name, it in platforms.items()}
        best = {name: best_of_bags(it.z, it.bag, len(it.key), self.rounding) for name, it in platforms.items()}
        shown = {name: {"evidence": Named(key=it.key, best=best[name])} for name, it in platforms.items()}
        nothing = named_in(self.start(Named()), "heard")
        told = answers(hear(nothing, shown, tuple(platforms), remember=False), shown)
        found = {}
        for name, seen in platforms.items():
            facts = torch.ones(len(seen.key), dtype=torch.bool)
            found[name] = keep(seen.z, seen.bag, facts, named_in(told[name], "best")["best"] - self.margin)
        return found
