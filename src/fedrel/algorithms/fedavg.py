"""McMahan et al., AISTATS 2017: platforms train, the server averages."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedrel.learning.fit import Fitted, fit
from fedrel.learning.losses import Loss
from fedrel.learning.named import Named
from fedrel.learning.proximal import Pull
from fedrel.protocol import Algorithm, Record, Round, Site, broadcast, named_in, task


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """The mean is weighted by how many sentences a platform holds. Denoising, if any, happens inside its model.
    Methods that change the local objective alone say so in `loss` or `pull`.
    """

    noisy_units: ClassVar[tuple[str, ...]] = ("platform", "sentence")

    def start(self, weights: Named) -> Record:
        return {"weights": weights}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        replies = yield broadcast("train", cohort, weights=weights)
        return state | {"weights": hub.mean(weights, replies, "weights", by="sentences")}

    @task(weights="model", sentences="sentences", loss="loss", trains=True)
    def train(self, site: Site, message: Record) -> Record:
        chosen = self.chosen(site, message)
        if chosen is not None and not len(chosen):
            return {}
        weights, fitted = self.learn(site, message, chosen)
        return {"weights": weights, "sentences": len(fitted.sentences), "loss": fitted.loss}

    def learn(self, site: Site, message: Record, chosen: Tensor | None = None) -> tuple[Named, Fitted]:
        """Local epochs from the weights that came with this message, or earlier in the round: the trained weights."""
        loss, pull = self.loss(site, message), self.pull(site, message)
        site.model.load(self.sent(site, message), site.shard)
        model, shard, seed = site.model, site.shard, site.draw("train")
        fitted = fit(
            model, shard, site.training, lr=site.lr, seed=seed, sentences=chosen, loss=loss, pull=pull, clip=site.clip
        )
        if fitted.descent is not None:
            return fitted.descent, fitted
        return site.model.trained(site.shard, fitted.sentences, pull), fitted

    def chosen(self, site: Site, message: Record) -> Tensor | None:
        """The sentences to train on, by their places; None: all, as the model's denoiser sees them."""
        return None

    def loss(self, site: Site, message: Record) -> Loss | None:
        """The local loss; None: the model's own. It may use the model until training begins."""
        return None

    def pull(self, site: Site, message: Record) -> Pull | None:
        """The part of the local objective that depends on the weights alone; None: there is none."""
        return None
