"""Server optimisers: the platforms' mean change is a gradient, and the server takes a better step than 1 along it.

FedAvgM: Hsu et al., 2019. FedAdam: Reddi et al., ICLR 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.learning.named import Named
from fedrel.protocol import Record, Round, Site, named_in


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """v ← momentum·v + (avg - x);  x ← x + lr·v."""

    noisy_units: ClassVar[tuple[str, ...]] = ("platform", "sentence")

    momentum: float = number(0.9, low=0, high=0.999)
    lr: float = number(1.0, above=0, high=1e3)

    def start(self, weights: Named) -> Record:
        return {"weights": weights, "v": weights.zeros()}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        x, v = named_in(state, "weights"), named_in(state, "v")
        averaged = yield from super().round(hub, state, cohort)
        v = self.momentum * v + (named_in(averaged, "weights") - x)
        return {"weights": x + self.lr * v, "v": v}


@dataclass(frozen=True)
class FedAdam(FedAvg):
    """Δ = avg - x;  m ← β₁m + (1-β₁)Δ;  v ← β₂v + (1-β₂)Δ²;  x ← x + lr·m/(√v + tau)."""

    noisy_units: ClassVar[tuple[str, ...]] = ("platform", "sentence")

    lr: float = number(0.01, above=0, high=1e3)
    beta1: float = number(0.9, low=0, high=0.999)
    beta2: float = number(0.99, low=0, high=0.9999)
    tau: float = number(1e-3, above=0, high=1e3)

    def start(self, weights: Named) -> Record:
        return {"weights": weights, "m": weights.zeros(), "v": weights.zeros()}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        x, m, v = (named_in(state, name) for name in ("weights", "m", "v"))
        averaged = yield from super().round(hub, state, cohort)
        change = named_in(averaged, "weights") - x
        m = self.beta1 * m + (1 - self.beta1) * change
        v = self.beta2 * v + (1 - self.beta2) * change**2
        root = Named({name: value.sqrt() + self.tau for name, value in v.items()})
        return {"weights": x + self.lr * (m / root), "m": m, "v": v}
