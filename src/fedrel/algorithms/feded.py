"""Sui et al., EMNLP 2020 (FedED): platforms upload what they predict on the server's small set, never weights.

The server's model learns from its gold labels and from the platforms together: CE(gold) + KL(q ‖ p), one pass a round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import Experiment, number
from fedrel.learning.fit import fit
from fedrel.learning.losses import cross_entropy, divergence
from fedrel.learning.named import Named, apply_patch
from fedrel.protocol import Record, Round, Site, broadcast, named_in, number_in, task


@dataclass(frozen=True)
class FedED(FedAvg):
    """`teacher`: the platforms' log p averaged ("log-mean", the same as averaging logits), their p averaged
    ("prob-mean"), or the softmax of their averaged p, as the paper's formula has it ("paper-literal").
    """

    needs_common = True

    teacher: Literal["log-mean", "prob-mean", "paper-literal"] = "log-mean"
    temperature: float = number(1.0, above=0, high=1e6)

    def objection(self, experiment: Experiment) -> str | None:
        if not experiment.partition.server:
            return "FedED distils on sentences of the server's own; set partition.server = 0.2"
        return None

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        replies = yield broadcast("predict", cohort, weights=weights)
        if not replies:
            return state
        q = teach([named_in(reply, "log")["p"] for reply in replies.values()], self.teacher, self.temperature)
        q = q.to(hub.model.device)
        hub.model.load(weights, hub.shard)
        fitted = fit(
            hub.model,
            hub.shard,
            replace(hub.training, epochs=1),
            lr=hub.lr,
            seed=hub.draw("distil"),
            loss=lambda output: cross_entropy(output) + divergence(q[output.sentences], output.logits),
        )
        learnt = apply_patch(weights, hub.model.trained(hub.shard, fitted.sentences))
        return {"weights": learnt, "loss": fitted.loss}

    def server_loss(self, state: Record) -> float | None:
        return number_in(state, "loss") if "loss" in state else None

    @task(trains=True, log={"p": "f16 common relations logprob"})
    def predict(self, site: Site, message: Record) -> Record:
        """log p, in 16 bits, of every sentence of the server's: p itself would underflow."""
        assert site.common is not None
        learnt, _ = self.learn(site, message)
        site.model.load(apply_patch(named_in(message, "weights"), learnt), site.common)
        return {"log": Named(p=site.model.log_probabilities(site.common).half())}


def teach(log_p: Sequence[Tensor], teacher: str, temperature: float) -> Tensor:
    """(S, R) the teacher's probabilities from each platform's log p (S, R)."""
    stacked = torch.stack([part.float() for part in log_p])  # (k, S, R)
    if teacher == "log-mean":
        return torch.softmax(stacked.mean(0) / temperature, dim=1)
    averaged = stacked.exp().mean(0)
    if teacher == "paper-literal":
        return torch.softmax(averaged / temperature, dim=1)
    return torch.softmax(averaged.log() / temperature, dim=1)
