"""Acar et al., ICLR 2021 (FedDyn): each platform's objective is bent so that its minimum is the global one.

Platforms add -⟨h_k, w⟩ + α/2·‖w - x‖², then h_k ← h_k - α(w_k - x). The server keeps h ← h - α·|A|/K·(avg - x) and
sends x⁺ = avg - h/α. Means are plain.
"""

from dataclasses import dataclass

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import Experiment, number
from fedrel.learning.named import Named, apply_patch
from fedrel.learning.proximal import Pull, too_strong
from fedrel.protocol import Record, Round, Site, broadcast, named_in, task


@dataclass(frozen=True)
class FedDyn(FedAvg):
    noisy_units = ("platform",)

    alpha: float = number(0.01, above=0, high=1e6)

    def objection(self, experiment: Experiment) -> str | None:
        return too_strong("alpha", self.alpha, experiment.training)

    def start(self, weights: Named) -> Record:
        return {"weights": weights, "h": weights.zeros()}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        x, h = named_in(state, "weights"), named_in(state, "h")
        replies = yield broadcast("train", cohort, weights=x)
        if not replies:
            return state
        average = hub.mean(x, replies, "weights", by=None)
        h = h - self.alpha * len(replies) / hub.platforms * (average - x)
        return {"weights": average - h / self.alpha, "h": h}

    @task(weights="whole model", sentences="sentences", loss="loss", trains=True, plain=True)
    def train(self, site: Site, message: Record) -> Record:
        x, h_k = named_in(message, "weights"), self.own(site, message)
        weights, fitted = self.learn(site, message)
        w_k = apply_patch(x, weights)
        site.memory["h"] = h_k - self.alpha * (w_k - x)
        return {"weights": w_k, "sentences": len(fitted.sentences), "loss": fitted.loss}

    def pull(self, site: Site, message: Record) -> Pull:
        return Pull(strength=self.alpha, push=-1.0 * self.own(site, message))

    def own(self, site: Site, message: Record) -> Named:
        """h_k, which starts at zero."""
        return named_in(site.memory, "h") if "h" in site.memory else named_in(message, "weights").zeros()
