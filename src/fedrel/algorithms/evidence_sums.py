"""Remembered evidence where the coordinator knows sums alone: it reads how good the best evidence of a slot is, and
nothing about any platform's (`slot_table.py`).

The slots of facts are others in every `window` of rounds, in which evidence is remembered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from fedrel.algorithms.evidence import Evidence
from fedrel.algorithms.slot_table import SlotTable, slots_in, told, told_in
from fedrel.algorithms.standing_out import compare_relations, nobody_stood_out
from fedrel.config import Experiment
from fedrel.learning.named import Named
from fedrel.protocol import Algorithm, Record, Round, Scored, Site, broadcast, named_in, task


@dataclass(frozen=True)
class EvidenceFromSums(Evidence):
    """`slots`: of a table; 0: as many as the facts call for. `window`: rounds whose evidence is remembered, from the
    first of them on; then keys are new and memory begins anew. A step of z is `rounding`, at least 1.
    """

    slots: int = 0
    window: int = 1

    @classmethod
    def of(cls, evidence: Algorithm, experiment: Experiment) -> Self:
        """With the settings of `evidence`, and those of an experiment's [privacy]."""
        privacy, fraction = experiment.privacy, experiment.training.fraction
        several = max(round(2 / fraction), 1) if fraction < 1 else 1  # so that most platforms have been active
        return cls(**vars(evidence), slots=privacy.slots, window=privacy.window or several)

    @property
    def table(self) -> SlotTable:
        return SlotTable(max(self.rounding, 1.0), self.slots)  # a finer step would make tables large

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.table.sizes

    def sizes_in(self, message: Mapping[str, Named | float]) -> Mapping[str, int]:
        return {"slots": slots_in(message)} if "slots" in message else {}

    def start(self, weights: Named) -> Record:
        heard = Named(step=self.table.empty(), window=torch.tensor(0))
        return {"weights": weights, "heard": heard, "stood": nobody_stood_out()}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights, heard = named_in(state, "weights"), named_in(state, "heard")["step"].cpu()
        window, slots = self.turn(hub.round), heard.shape[1]
        shown = yield broadcast("show", cohort, weights=weights, slots=float(slots))
        if not shown:
            return state
        if not self.memory or int(named_in(state, "heard")["window"]) != window:
            heard = self.table.emptied(slots)
        reached = torch.maximum(heard, self.table.highest(hub.total(shown, "reached")))
        stood, bars = yield from compare_relations(hub, named_in(state, "stood"), shown, self.early)
        replies = yield broadcast("train", shown, **told(reached), **bars)
        mean = hub.mean(weights, replies, "weights", by="sentences")
        larger = self.table.slots_for(reached)
        kept = reached if larger == slots else self.table.emptied(larger)  # where facts lie in it, nobody knows yet
        return {"weights": mean, "heard": Named(step=kept, window=torch.tensor(window)), "stood": stood}

    @task(reached={"random": "i32 tables slots words cyclic"})
    def show(self, site: Site, message: Record) -> Record:
        """For every slot, random numbers that show the step that the best evidence here reaches."""
        evidence = named_in(super().show(site, message), "evidence")
        reached = self.table.reached(evidence["best"])
        slot, numbers = self.table.shown(site, evidence["key"], reached, self.turn(site.round), slots_in(message))
        site.scratch["slots"] = Named(slot=slot)
        return {"reached": numbers}

    @task(weights="model", sentences="sentences", loss="loss", or_nothing=True, trains=True)
    def train(self, site: Site, message: Record) -> Record:
        best = self.table.best_of(told_in(message), named_in(site.scratch, "slots")["slot"])  # (n,) of its own facts
        return super().train(site, {**message, "best": Named(best=self.table.z_of(best))})

    @property
    def lasting(self) -> bool:
        """Whether the keys of facts, from which their slots follow, are the same in all rounds."""
        return self.memory

    def turn(self, round_: int) -> int:
        """What slots change with."""
        return round_ // self.window

    def selection(self, state: Record, platforms: Mapping[str, Scored]) -> dict[str, Tensor]:
        """As with the keys of facts at hand, which a report's own process has."""
        whole = Evidence(**{it.name: getattr(self, it.name) for it in fields(Evidence)})
        return whole.selection(state, platforms)
