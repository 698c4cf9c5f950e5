"""Remembered evidence where the coordinator knows sums alone: it reads how good the best evidence of a slot is, and
nothing about any platform's.

A fact falls into one slot of each of several tables, by a hash of its blinded key, which is another one in every
`window` of rounds. z is cut into steps. In every slot a platform has one number a step: a random one, never 0, in all
steps that its best sentence for a fact of the slot reaches, 0 above. Of the sum over platforms, mod 2^32, the highest
step that is not 0 is the highest that anybody reaches (but for one case in 2^32), and random numbers do not tell how
many do. The coordinator sends back one byte a slot. Facts that share a slot can only make it look better than it is,
so z* of a fact is the least over its tables. Slots are always as many, and always in the same places: neither the
number of facts nor their order leaves a platform.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from fedrel.algorithms.evidence import Evidence
from fedrel.algorithms.standing_out import compare_relations, nobody_stood_out
from fedrel.config import Experiment
from fedrel.learning.named import Named
from fedrel.protocol import Algorithm, Record, Round, Scored, Site, broadcast, named_in, task
from fedrel.protocol.slots import TABLES, highest, random_up_to, slots_of

_LOWEST, _HIGHEST = -12.0, 12.0  # z beyond these counts as these


@dataclass(frozen=True)
class EvidenceFromSums(Evidence):
    """`slots`: of a table, some times as many as there are facts. `window`: rounds whose evidence is remembered, from
    the first of them on; then keys are new and memory begins anew. A step of z is `rounding`, at least 1.
    """

    slots: int = 4096
    window: int = 1

    @classmethod
    def of(cls, evidence: Algorithm, experiment: Experiment) -> Self:
        """With the settings of `evidence`, and those of an experiment's [privacy]."""
        privacy, fraction = experiment.privacy, experiment.training.fraction
        several = max(round(2 / fraction), 1) if fraction < 1 else 1  # so that most platforms have been active
        return cls(**vars(evidence), slots=privacy.slots, window=privacy.window or several)

    @property
    def step(self) -> float:
        return max(self.rounding, 1.0)  # a finer one would make tables large

    @property
    def steps(self) -> int:
        return int((_HIGHEST - _LOWEST) // self.step) + 1

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"tables": TABLES, "slots": self.slots, "steps": self.steps}

    def start(self, weights: Named) -> Record:
        return {"weights": weights, "heard": self._nothing(0), "stood": nobody_stood_out()}

    def _nothing(self, window: int) -> Named:
        return Named(step=torch.zeros(TABLES, self.slots, dtype=torch.uint8), window=torch.tensor(window))

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights, heard = named_in(state, "weights"), named_in(state, "heard")
        shown = yield broadcast("show", cohort, weights=weights)
        if not shown:
            return state
        window = hub.round // self.window
        if not self.memory or int(heard["window"]) != window:
            heard = self._nothing(window)
        reached = torch.maximum(heard["step"].cpu(), highest(hub.total(shown, "reached")["random"]))
        told: Record = {"reached": Named(step=reached)}
        stood, bars = yield from compare_relations(hub, named_in(state, "stood"), shown, self.early)
        replies = yield broadcast("train", shown, **told, **bars)
        mean = hub.mean(weights, replies, "weights", by="sentences")
        return {"weights": mean, "heard": Named(step=reached, window=torch.tensor(window)), "stood": stood}

    @task(reached={"random": "i32 tables slots steps cyclic"})
    def show(self, site: Site, message: Record) -> Record:
        """For every slot, random numbers in the steps that the best evidence here reaches."""
        evidence = named_in(super().show(site, message), "evidence")
        slot = slots_of(evidence["key"], site.round // self.window, self.slots)  # (tables, n)
        reached = ((evidence["best"] - _LOWEST) / self.step).floor().long().clamp(-1, self.steps - 1) + 1
        site.scratch["slots"] = Named(slot=slot)
        return {"reached": Named(random=random_up_to(slot, reached, self.slots, self.steps))}

    @task(weights="model", sentences="sentences", loss="loss", or_nothing=True, trains=True)
    def train(self, site: Site, message: Record) -> Record:
        step = named_in(message, "reached")["step"].long()  # (tables, slots)
        best = step.gather(1, named_in(site.scratch, "slots")["slot"]).amin(0)  # (n,) of its own facts
        z = torch.where(best > 0, _LOWEST + (best - 1) * self.step, -torch.inf)
        return super().train(site, {**message, "best": Named(best=z)})

    def readable(self, random: Tensor, round_: int) -> tuple[Tensor, Tensor]:
        """What anybody reads from a sum of random numbers: the slots of the first table that somebody has evidence in,
        (n,) numbers that are others in every window, and how good the best of it is (n,).
        """
        step = highest(random)[0].long()
        (taken,) = step.nonzero(as_tuple=True)
        return taken + self.slots * (round_ // self.window), _LOWEST + (step[taken] - 1) * self.step

    def selection(self, state: Record, platforms: Mapping[str, Scored]) -> dict[str, Tensor]:
        """As with the keys of facts at hand, which a report's own process has."""
        whole = Evidence(**{it.name: getattr(self, it.name) for it in fields(Evidence)})
        return whole.selection(state, platforms)
