"""Ji et al., IJCNN 2019 (FedAtt): the server attends, layer by layer, to the platforms that moved farthest.

s_k = ‖w - w_k‖,  a = softmax_k(s),  w ← w - ε Σ_k a_k (w - w_k).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import number
from fedrel.learning.named import Named, apply_patch
from fedrel.protocol import Record, Round, Site, broadcast, named_in


@dataclass(frozen=True)
class FedAtt(FedAvg):
    reads_replies = True

    epsilon: float = number(1.2, above=0, high=1e3)

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        replies = yield broadcast("train", cohort, weights=weights)
        models = [apply_patch(weights, named_in(reply, "weights")) for reply in replies.values()]
        return state | {"weights": attend(weights, models, self.epsilon)}


def attend(weights: Named, models: Sequence[Named], epsilon: float) -> Named:
    if not models:
        return weights
    moved = Named()
    for name, layer in weights.items():
        far = torch.stack([layer - model[name] for model in models])  # (k, …)
        attention = torch.softmax(far.flatten(1).norm(dim=1), dim=0)  # (k,)
        moved[name] = layer - epsilon * torch.tensordot(attention, far, dims=1)
    return moved
