"""The reference: all text in one place, which is what the platforms must not do."""

from dataclasses import dataclass

from fedrel.algorithms.fedavg import FedAvg
from fedrel.config import Experiment
from fedrel.denoisers import DENOISERS
from fedrel.errors import suggest


@dataclass(frozen=True)
class Centralised(FedAvg):
    """One platform that holds everything, the server's sentences too; a round is its local epochs."""

    pools_text = True

    denoiser: str = "none"

    def objection(self, experiment: Experiment) -> str | None:
        if self.denoiser not in DENOISERS:
            return f'method.denoiser = "{self.denoiser}" is no denoiser{suggest(self.denoiser, DENOISERS)}'
        return None
