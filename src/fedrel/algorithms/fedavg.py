"""McMahan et al., AISTATS 2017: platforms train, the server averages."""

from dataclasses import dataclass

from torch import Tensor

from fedrel.algorithms.judged import Judged
from fedrel.config import Experiment
from fedrel.learning.fit import Fitted, fit
from fedrel.learning.losses import Loss
from fedrel.learning.named import Named
from fedrel.learning.proximal import Pull
from fedrel.protocol.codec import Record
from fedrel.protocol.round import Round, Site, broadcast, named_in, task


@dataclass(frozen=True)
class FedAvg(Judged):
    """The mean is weighted by how many sentences a platform holds. Denoising, if any, happens inside its model.
    Methods that change the local objective alone say so in `loss` or `pull`.
    """

    @property
    def preparation(self) -> int:
        """Rounds at the start that only prepare the method: none of them is kept as its result."""
        return 0

    def unsettled(self, rounds: int) -> int:
        """Rounds, of a run of so many, in which the method itself still changes: none of them ends a run for lack of
        progress.
        """
        return 0

    def objection(self, experiment: Experiment) -> str | None:
        """Why the method cannot work with these settings, and what to change; none: it can."""
        return None

    def start(self, weights: Named) -> Record:
        return {"weights": weights}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        replies = yield broadcast("train", cohort, weights=weights)
        return state | {"weights": hub.mean(weights, replies, "weights", by="sentences")}

    @task(weights="model", sentences="count", loss="number")
    def train(self, site: Site, message: Record) -> Record:
        chosen = self.chosen(site)
        if chosen is not None and not len(chosen):
            return {}
        weights, fitted = self.learn(site, message, chosen)
        return {"weights": weights, "sentences": len(fitted.sentences), "loss": fitted.loss}

    def learn(self, site: Site, message: Record, chosen: Tensor | None = None) -> tuple[Named, Fitted]:
        """Local epochs from the weights that were sent: what became of them."""
        loss, pull = self.loss(site, message), self.pull(site, message)
        site.model.load(named_in(message, "weights"), site.shard)
        model, shard, seed = site.model, site.shard, site.draw("train")
        fitted = fit(model, shard, site.training, lr=site.lr, seed=seed, sentences=chosen, loss=loss, pull=pull)
        return site.model.trained(site.shard, fitted.sentences, pull), fitted

    def chosen(self, site: Site) -> Tensor | None:
        """The sentences to train on; none: all, as the model's denoiser sees them."""
        return None

    def loss(self, site: Site, message: Record) -> Loss | None:
        """Instead of the model's own; it may use the model until training begins."""
        return None

    def pull(self, site: Site, message: Record) -> Pull | None:
        return None
