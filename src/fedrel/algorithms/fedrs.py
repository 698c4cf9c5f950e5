"""Li and Zhan, KDD 2021 (FedRS): classes that a platform lacks are pushed away less."""

from dataclasses import dataclass, replace

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.learning.losses import Loss, cross_entropy, scaled
from fedrel.protocol import Record, Site


@dataclass(frozen=True)
class FedRS(FedAvg):
    """Logits of absent classes are multiplied by alpha; 1 is FedAvg."""

    noisy_units = ("platform",)

    alpha: float = number(0.5, low=0, high=1)

    def loss(self, site: Site, message: Record) -> Loss:
        counts = site.label_counts()  # (R,)
        return lambda output: cross_entropy(replace(output, logits=scaled(output.logits, counts, self.alpha)))
