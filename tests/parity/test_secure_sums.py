"""Runs whose coordinator sees sums alone: the same weights as in one process, and nothing opened for a liar."""

import pytest
import torch

from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from tests.parity.consortium import Consortium, read, write_world

SECURE = ("privacy.sums=secure", "robust.screening=off")
SUMMED = {
    "none": ["extractor.embeddings=trainable"],
    "feddyn": ["extractor.embeddings=trainable"],
    "moon": [],
    "fedadam": [],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("world") / "world")


def trained(execution):
    for _ in execution.rounds():
        pass
    return execution.state["weights"]


def apart(world, folder, *settings, change=None):
    """A federation's weights, with `change` in the place of what its platforms are asked and answer."""
    consortium = Consortium(world, folder / "homes", read(world, *SECURE, *settings))
    if change is not None:
        consortium.carry = change(consortium)
        consortium.engine.carry = consortium.carry
    try:
        consortium.begin()
        return consortium, trained(consortium.execution(folder / "apart"))
    finally:
        consortium.close()


@pytest.mark.parametrize("method", SUMMED)
def test_a_federation_opens_the_same_sums_as_one_process(method, world, tmp_path):
    settings = [f"method.name={method}", *SUMMED[method]]
    together = trained(Execution(prepare(read(world, *SECURE, *settings)), tmp_path / "together"))
    _, learnt = apart(world, tmp_path, *settings)
    assert together.keys() == learnt.keys()
    assert all(torch.equal(learnt[name], value) for name, value in together.items())


@pytest.mark.parametrize("method", SUMMED)
def test_sums_give_the_plain_means_but_for_the_last_digits(method, world, tmp_path):
    settings = [f"method.name={method}", *SUMMED[method], "robust.screening=off", "training.rounds=1"]
    plain = trained(Execution(prepare(read(world, *settings)), tmp_path / "plain"))
    summed = trained(Execution(prepare(read(world, *SECURE, *settings)), tmp_path / "summed"))
    assert all(torch.allclose(summed[name], value, rtol=0, atol=2e-6) for name, value in plain.items())
