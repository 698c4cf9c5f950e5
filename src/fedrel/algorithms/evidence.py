"""Remembered evidence: a sentence trains as long as it holds its own against the best evidence for its fact.

z = log p/(1-p), p = p(relation | sentence). Each platform sends, per fact under a blinded key, the highest z among its
own sentences. The server remembers every platform's last word, whether or not it takes part now, and answers with the
highest of all, z*; a sentence trains if z ≥ z* - margin. So the parts of a fact need not be active together, several
good sentences may stay, and one that others outdo does not. A young model judges badly: the margin begins so wide that
nearly every sentence passes, and narrows round by round. Which sentences train never leaves the platform.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.learning.fit import fit
from fedrel.learning.named import Named
from fedrel.protocol.codec import Record
from fedrel.protocol.round import Ask, Replies, Round, Site, broadcast, named_in, task


@dataclass(frozen=True)
class Evidence(FedAvg):
    """`margin`: of log-odds that a sentence may be behind the best; 0 keeps the best alone. It begins as `wide`, and
    `narrowing` is the share of all rounds that it takes. `memory`: without it only platforms of the same round are
    compared, under keys of that round.
    """

    margin: float = number(1.0, low=0, high=100)
    wide: float = number(8.0, low=0, high=100)
    narrowing: float = number(0.4, low=0, high=1)
    memory: bool = True

    def unsettled(self, rounds: int) -> int:
        return max(round(self.narrowing * rounds), int(self.narrowing > 0))

    def margin_at(self, round_: int, rounds: int) -> float:
        """Straight from `wide` to `margin`, and there it stays."""
        takes = self.unsettled(rounds)
        left = max(0.0, 1 - round_ / takes) if takes else 0.0
        return self.margin + (self.wide - self.margin) * left

    def start(self, weights: Named) -> Record:
        nothing = torch.zeros(0, dtype=torch.int64)
        return {"weights": weights, "heard": Named(key=nothing, platform=nothing, best=torch.zeros(0))}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        shown = yield broadcast("show", cohort, weights=weights)
        if not shown:
            return state
        heard = hear(named_in(state, "heard"), shown, hub.everyone, remember=self.memory)
        replies = yield Ask("train_kept", answers(heard, shown))
        return {"weights": hub.mean(weights, replies, "weights", by="sentences"), "heard": heard}

    @task(evidence={"key": "i64 n", "best": "f32 n logodds"})
    def show(self, site: Site, message: Record) -> Record:
        """Per fact: the log-odds of its best sentence here. The weights and all log-odds wait for the answer."""
        weights = named_in(message, "weights")
        site.model.load(weights, site.shard)
        z = torch.logit(site.model.label_probabilities(site.shard).double(), eps=1e-12).float()  # (S,)
        bag = site.shard.bag_of_sentences()
        best = torch.full((site.shard.bags,), -torch.inf).scatter_reduce_(0, bag, z, "amax")
        fact = site.shard.labels[site.shard.bag_starts[:-1]] >= site.first_relation
        site.scratch |= {"weights": weights, "seen": Named(z=z, best=best, fact=fact)}
        keys = site.lasting_keys() if self.memory else site.fact_keys()
        return {"evidence": Named(key=keys[fact], best=best[fact])}

    @task(weights="model", sentences="count", loss="number", or_nothing=True)
    def train_kept(self, site: Site, message: Record) -> Record:
        seen, bag = named_in(site.scratch, "seen"), site.shard.bag_of_sentences()
        bar = named_in(message, "best")["best"] - self.margin_at(site.round, site.training.rounds)
        bar = torch.full_like(seen["best"], -torch.inf).masked_scatter(seen["fact"], bar)  # no fact, no bar
        chosen = (seen["z"] >= bar[bag]).nonzero().squeeze(1)
        if not len(chosen):
            return {}
        site.scratch["selected"] = Named(sentence=chosen[seen["fact"][bag[chosen]]])
        site.model.load(named_in(site.scratch, "weights"), site.shard)
        fitted = fit(site.model, site.shard, site.training, lr=site.lr, seed=site.draw("train"), sentences=chosen)
        return {"weights": site.model.trained(site.shard, chosen), "sentences": len(chosen), "loss": fitted.loss}


def hear(heard: Named, shown: Replies, everyone: tuple[str, ...], *, remember: bool) -> Named:
    """What all platforms said last: those of this round anew, others as before."""
    heard = heard.to(torch.device("cpu"))  # where replies are, and a resumed state may not be
    said = {everyone.index(platform): named_in(reply, "evidence") for platform, reply in shown.items()}
    kept = ~torch.isin(heard["platform"], torch.tensor(list(said))) & remember
    return Named(
        key=torch.cat([heard["key"][kept], *(entry["key"] for entry in said.values())]),
        platform=torch.cat([heard["platform"][kept], *(torch.full_like(it["key"], who) for who, it in said.items())]),
        best=torch.cat([heard["best"][kept], *(entry["best"] for entry in said.values())]),
    )


def answers(heard: Named, shown: Replies) -> dict[str, Record]:
    """For each platform, the best of everybody's evidence for its own facts, in its own order."""
    keys, place = torch.unique(heard["key"], return_inverse=True)
    best: Tensor = torch.full((len(keys),), -torch.inf).scatter_reduce_(0, place, heard["best"], "amax")
    asked = {platform: named_in(reply, "evidence")["key"] for platform, reply in shown.items()}
    return {platform: {"best": Named(best=best[torch.searchsorted(keys, key)])} for platform, key in asked.items()}
