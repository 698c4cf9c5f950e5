"""Li et al., MLSys 2020: platforms stay near the global model."""

from dataclasses import dataclass

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import Experiment, number
from fedrel.learning.proximal import Pull, too_strong
from fedrel.protocol import Record, Site


@dataclass(frozen=True)
class FedProx(FedAvg):
    """Adds mu/2 · ‖w - w_global‖² to the local loss."""

    noisy_units = ("platform",)

    mu: float = number(0.01, low=0, high=1e6)

    def objection(self, experiment: Experiment) -> str | None:
        return too_strong("mu", self.mu, experiment.training)

    def pull(self, site: Site, message: Record) -> Pull:
        return Pull(strength=self.mu)
