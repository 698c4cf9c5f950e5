"""A reference: the server trains on its own small set, as if there were no platforms."""

from dataclasses import dataclass

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import Experiment
from fedrel.learning.named import apply_patch
from fedrel.protocol import Record, Round, Site, named_in, number_in


@dataclass(frozen=True)
class ServerOnly(FedAvg):
    """A round is as many epochs as a platform would train."""

    def objection(self, experiment: Experiment) -> str | None:
        return None if experiment.partition.server else "the server has no sentences; set partition.server = 0.2"

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        yield from ()  # nobody is asked
        weights, fitted = self.learn(hub, state)
        return {"weights": apply_patch(named_in(state, "weights"), weights), "loss": fitted.loss}

    def server_loss(self, state: Record) -> float | None:
        return number_in(state, "loss") if "loss" in state else None
