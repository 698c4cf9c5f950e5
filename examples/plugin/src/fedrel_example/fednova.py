"""Wang et al., NeurIPS 2020 (FedNova): platforms that take more local steps do not pull the mean their way.

d_k = (x - w_k)/τ_k, the mean local step;  x ← x - τ Σ_k p_k d_k  with  τ = Σ_k p_k τ_k  and p_k by sentences.
"""

from dataclasses import dataclass

from fedrel.algorithms import FedAvg, Method
from fedrel.learning.named import apply_patch
from fedrel.protocol import Record, Round, Site, broadcast, named_in, number_in, task


@dataclass(frozen=True)
class FedNova(FedAvg):
    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        x = named_in(state, "weights")
        replies = yield broadcast("train", cohort, weights=x)
        sentences = sum(number_in(reply, "sentences") for reply in replies.values())
        if not sentences:
            return state
        steps = sum(number_in(it, "sentences") / sentences * number_in(it, "steps") for it in replies.values())
        return {"weights": x + steps * (hub.mean(x, replies, "weights", by="sentences") - x)}

    @task(weights="whole model", steps="steps", sentences="sentences", loss="loss", trains=True)
    def train(self, site: Site, message: Record) -> Record:
        """The model after one mean local step, so that engines can compare and check it like any other model."""
        x = named_in(message, "weights")
        weights, fitted = self.learn(site, message)
        stepped = x + (apply_patch(x, weights) - x) / max(fitted.steps, 1)
        return {"weights": stepped, "steps": fitted.steps, "sentences": len(fitted.sentences), "loss": fitted.loss}


METHOD = Method(FedNova, "none", "Wang et al., NeurIPS 2020", "updates normalised by the number of local steps")
