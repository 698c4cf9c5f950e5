"""One world for all faults, and the result of a run without any."""

import pytest

from tests.deployment import Deployment
from tests.faults.runs import SETTINGS, failures, learned
from tests.parity.consortium import write_world


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("faults") / "world", *SETTINGS)


@pytest.fixture(scope="session")
def uninterrupted(world, tmp_path_factory):
    """The weights of an undisturbed run, to compare others with; so it must not have missed a reply itself."""
    with Deployment(tmp_path_factory.mktemp("uninterrupted"), world) as federation:
        federation.train("warm", "training.rounds=1", "engine.deadline=120")  # on a new machine, loops are compiled
        federation.train("run")
        assert not any(failures(federation.status("run")).values())
        return learned(federation)
