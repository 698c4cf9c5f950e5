"""Replies on disk and in memory are the same replies."""

from dataclasses import replace

import pytest
import torch

from fedrel.algorithms import METHODS
from fedrel.engines import held
from fedrel.engines.held import Held
from fedrel.engines.simulator import Simulator
from fedrel.experiment.assembly import prepare
from fedrel.learning.named import Named, table_patch
from fedrel.protocol.aggregation import mean
from fedrel.protocol.codec import decode, encode
from fedrel.protocol.records import named_in, number_in
from fedrel.protocol.round import drive
from tests.algorithms.tiny import experiment

BASE = Named(words=torch.randn(20, 3, generator=torch.Generator().manual_seed(1)), other=torch.zeros(4))


def reply(number):
    draw = torch.Generator().manual_seed(number)
    rows = torch.randperm(20, generator=draw)[: number % 5].int()
    patch = table_patch("words", rows, torch.randn(len(rows), 3, generator=draw), 1 - number / 100)
    return {"weights": Named(**patch, other=torch.randn(4, generator=draw)), "sentences": number + 1.0, "loss": 0.5}


def hold(replies, limit):
    found = Held(limit)
    for name, record in replies.items():
        payload = encode(record)
        found.add(name, decode(payload), payload)
    return found


@pytest.mark.parametrize("limit", [0, 1_000])
def test_replies_on_disk_have_the_same_mean_to_the_last_bit(limit):
    replies = {f"p{number:02d}": reply(number) for number in range(30)} | {"silent": {}}
    there, here = hold(replies, limit), hold(replies, 2**20)
    assert list(there) == list(replies)
    for by in ("sentences", None):
        found, expected = mean(BASE, there, "weights", by=by), mean(BASE, here, "weights", by=by)
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_numbers_are_at_hand_and_tensors_are_read_when_asked_for(monkeypatch):
    there = hold({"p0": reply(3)}, 0)
    monkeypatch.setattr(held, "decode", lambda payload: pytest.fail("read from disk"))
    [found] = there.values()
    assert set(found) == {"sentences", "loss", "weights"} and len(found) == 3
    assert "weights" in found and "ballot" not in found
    assert number_in(found, "sentences") == 4
    monkeypatch.undo()
    assert torch.equal(named_in(found, "weights")["other"], reply(3)["weights"]["other"])


@pytest.mark.parametrize("method", [name for name in METHODS if name != "centralised"])
def test_every_method_gives_the_same_state_with_its_replies_on_disk(method, monkeypatch):
    states = []
    for limit in (2**30, 0):
        monkeypatch.setattr(held.Held.__init__, "__defaults__", (limit,))
        setup = prepare(experiment(method, "pcnn"))
        state, simulator = setup.algorithm.start(setup.weights), Simulator(setup.algorithm, setup.sites)
        for number in range(2):
            flow = setup.algorithm.round(replace(setup.hub, round=number), state, setup.sampler.cohort(number))
            state = drive(flow, simulator, number)
        states.append(state["weights"])
    here, there = states
    assert all(torch.equal(here[name], there[name]) for name in here)
