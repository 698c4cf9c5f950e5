"""Karimireddy et al., ICML 2020 (SCAFFOLD): control variates correct the drift of the platforms.

y ← y - η(g - c_k + c);  c_k⁺ = c_k - c + (x - y)/(S·η);  c ← c + |A|/K · mean Δc. Means are plain, the server's step 1.
"""

from dataclasses import dataclass

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import Experiment
from fedrel.learning.named import Named, apply_patch
from fedrel.learning.proximal import Pull
from fedrel.protocol import Record, Round, Site, broadcast, named_in, task


@dataclass(frozen=True)
class Scaffold(FedAvg):
    def objection(self, experiment: Experiment) -> str | None:
        if experiment.training.optimizer != "sgd":
            return 'SCAFFOLD corrects plain gradient steps; set training.optimizer = "sgd", and a training.lr to match'
        return None

    def start(self, weights: Named) -> Record:
        return {"weights": weights, "control": weights.zeros()}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        x, c = named_in(state, "weights"), named_in(state, "control")
        replies = yield broadcast("train", cohort, weights=x, control=c)
        change = hub.mean(c.zeros(), replies, "change", by=None)
        return {
            "weights": hub.mean(x, replies, "weights", by=None),
            "control": c + len(replies) / hub.platforms * change,
        }

    @task(weights="whole model", change="difference", sentences="sentences", loss="loss", trains=True)
    def train(self, site: Site, message: Record) -> Record:
        x, c, c_k = named_in(message, "weights"), named_in(message, "control"), self.own(site, message)
        weights, fitted = self.learn(site, message)
        y = apply_patch(x, weights)
        new = c_k - c + (x - y) / (fitted.steps * site.lr) if fitted.steps else c_k
        site.memory["control"] = new
        return {"weights": y, "change": new - c_k, "sentences": len(fitted.sentences), "loss": fitted.loss}

    def pull(self, site: Site, message: Record) -> Pull:
        return Pull(push=named_in(message, "control") - self.own(site, message))

    def own(self, site: Site, message: Record) -> Named:
        """c_k, which starts at zero."""
        if "control" in site.memory:
            return named_in(site.memory, "control")
        return named_in(message, "control").zeros()
