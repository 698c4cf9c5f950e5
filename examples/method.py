"""A method of your own, beside FedAvg: the server moves only part of the way to the mean of the platforms' models."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from fedrel import config
from fedrel.algorithms import METHODS, FedAvg, Method
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.protocol import Record, Round, Site, broadcast, named_in


@dataclass(frozen=True)
class HalfStep(FedAvg):
    rate: float = config.number(0.5, above=0, high=1)

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        weights = named_in(state, "weights")
        replies = yield broadcast("train", cohort, weights=weights)
        mean = hub.mean(weights, replies, "weights", by="sentences")
        return {"weights": weights + self.rate * (mean - weights)}


METHODS.own["half-step"] = Method(HalfStep, "none", "", "half of the way")  # a plug-in names it as an entry point

with tempfile.TemporaryDirectory() as folder:
    for settings in (["method.name=fedavg"], ["method.name=half-step"], ["method.name=half-step", "method.rate=0.9"]):
        small = ["data.size=2000", "partition.platforms=5", "training.rounds=4", "extractor.filters=50", *settings]
        run = Execution(prepare(config.read(None, small)), Path(folder) / "-".join(settings))
        scores = [progress.line["dev"]["ap"] for progress in run.rounds()]
        print(f"{' '.join(settings):40} average precision on dev: {', '.join(f'{it:.3f}' for it in scores)}")
