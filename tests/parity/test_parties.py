"""Platforms that read their own folder alone, and answer requests, train what one process would have trained."""

from dataclasses import replace

import pytest
import torch

from fedrel.algorithms import METHODS
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from tests.algorithms.tiny import NEEDS, tiny_bert
from tests.parity.consortium import PLATFORMS, Consortium, read, write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("federation") / "world")


def settings(method, kind):
    chosen = [f"method.name={method}", f"extractor.kind={kind}", *NEEDS.get(method, [])]
    if kind == "bert":
        small = [f"extractor.weights={tiny_bert()}", "extractor.max_length=32"]
        return ["training.optimizer=adamw", "training.lr=0.001", *small, *chosen]
    return [*chosen, "extractor.embeddings=trainable"]


BERT = ("evidence", "scaffold", "feded")  # the others take longer than they tell; slow tests have them
CASES = [(name, "pcnn") for name in METHODS if name != "centralised"] + [
    pytest.param(name, "bert", marks=[] if name in BERT else pytest.mark.slow)
    for name in METHODS
    if name != "centralised"
]


def weights_of(execution):
    for _ in execution.rounds():
        pass
    return execution.state["weights"]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_every_method_gives_the_same_weights_as_one_process(method, kind, world, tmp_path):
    experiment = read(world, *settings(method, kind))
    together = weights_of(Execution(prepare(experiment), tmp_path / "together"))
    apart = Consortium(world, tmp_path / "homes", experiment)
    apart.begin()
    execution = apart.execution(tmp_path / "apart")
    assert same(weights_of(execution), together)
    assert not apart.failures
    assert set(apart.coordination.joined) == set(PLATFORMS)
    assert execution.finish()["rounds"] == 3
    apart.close()


def test_how_far_relations_stand_out_is_known_from_sums_over_platforms(world, tmp_path):
    experiment = read(world, *settings("evidence", "pcnn"), "method.early=2", "method.narrowing=0")
    together = Execution(prepare(experiment), tmp_path / "together")
    weights = weights_of(together)
    consortium = Consortium(world, tmp_path / "homes", experiment)
    consortium.begin()
    apart = consortium.execution(tmp_path / "apart")
    assert same(weights_of(apart), weights)
    assert same(apart.state["stood"], together.state["stood"])
    assert int(apart.state["stood"]["rounds"]) == 2 and apart.state["stood"]["total"].any()
    consortium.close()


@pytest.mark.parametrize("method", ["lazy-mil", "scaffold", "feded"])
def test_numbers_that_travel_in_16_bits(method, world, tmp_path):
    experiment = read(world, *settings(method, "pcnn"))
    halved = replace(experiment, engine=replace(experiment.engine, transport="half"))
    exact = Execution(prepare(experiment), tmp_path / "exact")
    exact_weights = weights_of(exact)
    together = Execution(prepare(halved), tmp_path / "together")
    apart = Consortium(world, tmp_path / "homes", halved)
    apart.begin()
    weights = weights_of(together)
    assert same(weights_of(apart.execution(tmp_path / "apart")), weights)
    assert not same(weights, exact_weights)
    apart_by = torch.cat([(weights[name] - value).abs().flatten() for name, value in exact_weights.items()])
    assert apart_by.mean() < 0.05  # some elections went the other way
    if method == "scaffold":  # nothing but weights travels
        assert together.standing.bytes_up < 0.55 * exact.standing.bytes_up
    apart.close()


def test_glove_vectors_that_stay_as_they_are(world, tmp_path):
    lazy = ["method.name=lazy-mil", "method.warmup=1"]
    experiment = read(world, *lazy, "extractor.vectors=glove", "extractor.embeddings=frozen")
    together = weights_of(Execution(prepare(experiment), tmp_path / "together"))
    apart = Consortium(world, tmp_path / "homes", experiment)
    apart.begin()
    assert same(weights_of(apart.execution(tmp_path / "apart")), together)
    apart.close()
