"""Zhang et al., ICML 2022 (FedLC): logits are calibrated by how often a platform sees each class."""

from dataclasses import dataclass, replace

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.learning.losses import Loss, calibrated, cross_entropy
from fedrel.protocol import Record, Site


@dataclass(frozen=True)
class FedLC(FedAvg):
    """Cross-entropy on z_c - tau · n_c^(-1/4); 0 is FedAvg."""

    noisy_units = ("platform",)

    tau: float = number(1.0, low=0, high=1e6)

    def loss(self, site: Site, message: Record) -> Loss:
        counts = site.label_counts()  # (R,)
        return lambda output: cross_entropy(replace(output, logits=calibrated(output.logits, counts, self.tau)))
