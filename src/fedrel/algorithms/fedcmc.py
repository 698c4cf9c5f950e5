"""FedCMC: platforms contrast their sentences with major classifier vectors, for labels that lie unevenly.

The more sentences of class c a platform holds, the less its classifier vector of c resembles those of other classes:
d_{k,c} = mean over i≠c of cos(Θ_{k,c}, Θ_{k,i}). The major vector of c is that of the platform with the smallest.
Platforms add mu · mean_i -log softmax(h_i·Θ̂)_y to their loss, which reaches the encoder alone.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import Experiment, number
from fedrel.learning.losses import Loss, cross_entropy, to_rows
from fedrel.learning.named import Named
from fedrel.protocol import Record, Replies, Round, Site, broadcast, named_in

CLASSIFIER = "classifier.weight"


@dataclass(frozen=True)
class FedCMC(FedAvg):
    reads_replies = True

    vectors: Literal["major", "minor", "random", "none"] = "major"
    mu: float = number(1.0, low=0, high=1e6)

    def objection(self, experiment: Experiment) -> str | None:
        if experiment.extractor.bias:
            return "FedCMC compares classifier vectors, which a bias would bend; set extractor.bias = false"
        return None

    def start(self, weights: Named) -> Record:
        return {"weights": weights, "vectors": Named(chosen=weights[CLASSIFIER])}

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        replies = yield broadcast("train", cohort, weights=weights, vectors=named_in(state, "vectors"))
        if not replies:
            return state
        classifiers = torch.stack([named_in(reply, "weights")[CLASSIFIER] for reply in replies.values()])  # (k, R, H)
        distance = similarity(classifiers)  # (k, R)
        return {
            "weights": hub.mean(weights, replies, "weights", by="sentences"),
            "vectors": Named(chosen=self.choose(classifiers, distance, hub.draw("vectors"))),
            "trace": by_platform(replies, distance),
        }

    def trace(self, state: Record) -> Named | None:
        return named_in(state, "trace") if "trace" in state else None

    def choose(self, classifiers: Tensor, distance: Tensor, seed: int) -> Tensor:
        """(R, H) of every class, the row of one platform."""
        platforms, classes = distance.shape
        if self.vectors == "random":
            picked = torch.randint(platforms, (classes,), generator=torch.Generator().manual_seed(seed))
        else:
            picked = distance.argmax(0) if self.vectors == "minor" else distance.argmin(0)
        return classifiers[picked, torch.arange(classes)]

    def loss(self, site: Site, message: Record) -> Loss | None:
        if self.vectors == "none":
            return None
        chosen = named_in(message, "vectors")["chosen"].to(site.model.device)
        return lambda output: cross_entropy(output) + self.mu * to_rows(output.vectors, chosen, output.labels)


def similarity(classifiers: Tensor) -> Tensor:
    """d (k, R) from classifiers (k, R, H): the mean cosine of a class's vector with those of the other classes."""
    unit = classifiers / classifiers.norm(dim=2, keepdim=True).clamp(min=1e-12)
    cosines = unit @ unit.transpose(1, 2)  # (k, R, R)
    own = cosines.diagonal(dim1=1, dim2=2)
    others: Tensor = (cosines.sum(2) - own) / max(classifiers.shape[1] - 1, 1)
    return others


def by_platform(replies: Replies, distance: Tensor) -> Named:
    """d by platform, for those who look at a run."""
    return Named({f"similarity/{platform}": row for platform, row in zip(replies, distance, strict=True)})
