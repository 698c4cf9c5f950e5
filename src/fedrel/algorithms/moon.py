"""Li et al., CVPR 2021 (MOON): sentence vectors stay near the global model's and away from the last local model's."""

from dataclasses import dataclass

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.learning.losses import Loss, contrast, cross_entropy
from fedrel.learning.named import apply_patch
from fedrel.protocol import Record, Site, named_in, task


@dataclass(frozen=True)
class Moon(FedAvg):
    """Cross-entropy + mu · contrast. On a platform's first visit its last local model is the global one."""

    noisy_units = ("platform",)

    mu: float = number(1.0, low=0, high=1e6)
    temperature: float = number(0.5, above=0, high=1e6)

    @task(weights="model", sentences="sentences", loss="loss", trains=True)
    def train(self, site: Site, message: Record) -> Record:
        reply = super().train(site, message)
        site.memory["previous"] = apply_patch(named_in(message, "weights"), named_in(reply, "weights"))
        return reply

    def loss(self, site: Site, message: Record) -> Loss:
        # Neither model changes while the platform trains: one pass over its sentences is enough.
        weights = named_in(message, "weights")
        site.model.load(weights, site.shard)
        z_global = site.model.vectors(site.shard)  # (S, H)
        z_previous = z_global
        if "previous" in site.memory:
            site.model.load(named_in(site.memory, "previous"), site.shard)
            z_previous = site.model.vectors(site.shard)
        return lambda output: (
            cross_entropy(output)
            + self.mu
            * contrast(output.vectors, z_global[output.sentences], z_previous[output.sentences], self.temperature)
        )
