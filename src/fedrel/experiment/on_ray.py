"""What Ray's processes are told of a run, and how each builds the platforms anew from it."""

from __future__ import annotations

from dataclasses import replace

from fedrel import config
from fedrel.engines.ray import Plan
from fedrel.engines.simulator import Simulator
from fedrel.experiment.assembly import Setup, prepare


def plan_of(setup: Setup) -> Plan:
    return Plan(
        setup.algorithm,
        setup.experiment,
        announced=setup.sites.sizes,
        sizes=setup.reply_sizes,
        secret=setup.sites.secret,
        data=setup.dataset.folder.name,
        rebuild=rebuild,
    )


def rebuild(experiment: config.Experiment, secret: bytes) -> tuple[str, Simulator]:
    """In another process: the digest of the data it finds, and all platforms of the same experiment. Sentences that
    people judged are not looked for there: nothing is scored by them, nor logged.
    """
    data = replace(experiment.data, human="", trusted="")
    setup = prepare(replace(experiment, data=data, report=config.Report()))
    setup.sites.secret = secret
    return setup.dataset.folder.name, Simulator(
        setup.algorithm, setup.sites, half=experiment.engine.transport == "half"
    )
