"""Lazy MIL where the coordinator knows sums alone: it reads how good the best sentence of a slot is, and nothing about
any platform's (`slot_table.py`).

A platform trains on its best sentence for a fact where that reaches the highest step. So a tie is won by all who share
it, and a fact that shares its slots in both tables with a better one is left out of the round. In every round a fact
has another place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fedrel.algorithms.fedavg import FedAvg
from fedrel.algorithms.lazy_mil import LazyMIL
from fedrel.algorithms.slot_table import SlotTable, slots_in, told, told_in
from fedrel.config import Experiment
from fedrel.denoisers import first_best
from fedrel.learning.named import Named
from fedrel.protocol import Algorithm, Record, Round, Scored, Site, broadcast, named_in, number_in, task


@dataclass(frozen=True)
class LazyMILFromSums(LazyMIL):
    """`slots`: of a table; 0: as many as the facts call for. A step of log-odds is `rounding`, at least 1."""

    slots: int = 0

    @classmethod
    def of(cls, lazy: Algorithm, experiment: Experiment) -> Self:
        """With the settings of `lazy`, and those of an experiment's [privacy]."""
        return cls(**vars(lazy), slots=experiment.privacy.slots)

    @property
    def table(self) -> SlotTable:
        return SlotTable(max(self.rounding, 1.0), self.slots)

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.table.sizes

    def sizes_in(self, message: Mapping[str, Named | float]) -> Mapping[str, int]:
        return {"slots": slots_in(message)} if "slots" in message else {}

    def start(self, weights: Named) -> Record:
        return {**super().start(weights), "slots": float(self.table.empty().shape[1])}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        if hub.round < self.warmup:
            return (yield from FedAvg.round(self, hub, state, cohort))
        weights = named_in(state, "weights")
        shown = yield broadcast("score", cohort, weights=weights, slots=number_in(state, "slots"))
        if not shown:
            return state
        reached = self.table.highest(hub.total(shown, "reached"))
        replies = yield broadcast("train", shown, **told(reached))
        mean = hub.mean(weights, replies, "weights", by="sentences")
        return {"weights": mean, "slots": float(self.table.slots_for(reached))}

    @task(reached={"random": "i32 tables slots words cyclic"})
    def score(self, site: Site, message: Record) -> Record:
        """For every slot, random numbers that show the step that the best sentence here reaches."""
        ballot = named_in(super().score(site, message), "ballot")
        reached = self.table.reached(ballot["score"])
        slot, numbers = self.table.shown(site, ballot["key"], reached, self.turn(site.round), slots_in(message))
        site.scratch["slots"] = Named(slot=slot, reached=reached)
        return {"reached": numbers}

    @task(weights="model", sentences="sentences", loss="loss", or_nothing=True, trains=True)
    def train(self, site: Site, message: Record) -> Record:
        if "reached" in message:
            mine = named_in(site.scratch, "slots")
            won = mine["reached"] >= self.table.best_of(told_in(message), mine["slot"])
            message = {**message, "wins": Named(won=won)}
        return super().train(site, message)

    @property
    def lasting(self) -> bool:
        """Whether the keys of facts, from which their slots follow, are the same in all rounds."""
        return False

    def turn(self, round_: int) -> int:
        """What slots change with."""
        return round_

    def selection(self, state: Record, platforms: Mapping[str, Scored]) -> dict[str, Tensor]:
        best = {name: first_best(seen.z, seen.bag, len(seen.key)) for name, seen in platforms.items()}
        reached = [self.table.reached(seen.z[best[name]]) for name, seen in platforms.items()]
        keys, fact = torch.unique(torch.cat([seen.key for seen in platforms.values()]), return_inverse=True)
        highest = torch.zeros(len(keys), dtype=torch.int64).scatter_reduce_(0, fact, torch.cat(reached), "amax")
        won = torch.cat(reached) == highest[fact]
        parts = torch.split(won, [len(seen.key) for seen in platforms.values()])
        return {name: best[name][part] for name, part in zip(platforms, parts, strict=True)}
