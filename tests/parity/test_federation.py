"""The same experiment gives the same weights, bit for bit, in one process and in a real federation."""

import pytest
import torch

from fedrel.algorithms import METHODS
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.protocol.checkpoint import load, load_weights
from tests.algorithms.tiny import NEEDS
from tests.deployment import Deployment
from tests.parity.consortium import read, write_world

IN_EVERY_TEST = ("evidence",)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    world = write_world(folder / "world")
    with Deployment(folder, world) as running:
        yield running


def marked(method):
    return method if method in IN_EVERY_TEST else pytest.param(method, marks=pytest.mark.slow)


@pytest.mark.parametrize("method", [marked(name) for name in METHODS if name != "centralised"])
def test_a_real_federation_gives_the_same_weights_as_one_process(method, federation, tmp_path):
    settings = [f"method.name={method}", "extractor.embeddings=trainable", *NEEDS.get(method, [])]
    execution = Execution(prepare(read(federation.world, *settings)), tmp_path / "together")
    for _ in execution.rounds():
        pass
    together = execution.finish()
    apart = federation.train(method, *settings)
    there = federation.runs / method / "checkpoint"
    learnt = load(there).state["weights"]
    assert all(torch.equal(learnt[name], value) for name, value in execution.state["weights"].items())
    best = load_weights(there / "best.safetensors")
    assert all(
        torch.equal(best[name], value)
        for name, value in load_weights(tmp_path / "together/checkpoint/best.safetensors").items()
    )
    assert apart["test"] == together["test"]
