"""McMahan et al., AISTATS 2017: platforms train, the server averages."""

from dataclasses import dataclass

from fedrel.federation.codec import Record
from fedrel.federation.protocol import Round, Site, broadcast, mean, named_in, task
from fedrel.learning.fit import fit
from fedrel.learning.named import Named


@dataclass(frozen=True)
class FedAvg:
    """The mean is weighted by how many sentences a platform holds. Denoising, if any, happens inside its model."""

    @property
    def preparation(self) -> int:
        """Rounds at the start that only prepare the method: none of them is kept as its result."""
        return 0

    def start(self, weights: Named) -> Record:
        return {"weights": weights}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        replies = yield broadcast("train", cohort, weights=weights)
        return state | {"weights": mean(weights, replies, "weights", by="sentences")}

    @task
    def train(self, site: Site, message: Record) -> Record:
        site.model.load(named_in(message, "weights"), site.shard)
        fitted = fit(site.model, site.shard, site.training, lr=site.lr, seed=site.draw("train"))
        return {
            "weights": site.model.trained(site.shard, fitted.sentences),
            "sentences": len(fitted.sentences),
            "loss": fitted.loss,
        }
