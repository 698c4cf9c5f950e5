"""Runs of a few rounds on little data, whose setup and result tests look at."""

from fedrel import config
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution

SMALL = ["data.size=600", "partition.platforms=3", "extractor.filters=8", "training.rounds=3", "engine.device=cpu"]


def finished(folder, *settings):
    setup = prepare(config.read(None, [*SMALL, *settings]))
    run = Execution(setup, folder)
    for _ in run.rounds():
        pass
    return setup, run.finish()
