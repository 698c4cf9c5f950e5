"""The reference: all text in one place, which is what the platforms must not do."""

from dataclasses import dataclass
from typing import Literal

from fedrel.algorithms.fedavg import FedAvg


@dataclass(frozen=True)
class Centralised(FedAvg):
    """One platform that holds everything, the server's sentences too; a round is its local epochs."""

    pools_text = True

    denoiser: Literal["none", "one", "ave", "att", "att-ra"] = "none"
