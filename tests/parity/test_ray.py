"""The same experiment gives the same weights, bit for bit, in one process and on a Ray cluster of two nodes."""

import gc
import importlib
import warnings

import pytest
import torch

from fedrel.engines import ray as engine
from fedrel.errors import DivergedError, UserError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from tests.algorithms.tiny import experiment

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module")
def address():
    """Two raylets on loopback, as on two machines."""
    ray = engine._ray()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        utilities = importlib.import_module("ray.cluster_utils")
        node = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 2**20}
        cluster = utilities.Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
        yield cluster.address
        ray.shutdown()
        cluster.shutdown()
        gc.collect()


def settings(method, *more):
    return experiment(method, "pcnn", "engine.workers=2", *more)


def on_ray(method, address, *more):
    return prepare(settings(method, "engine.kind=ray", f"engine.address={address}", *more))


def whole(execution):
    for _ in execution.rounds():
        pass
    return execution.finish()


def same(found, expected):
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("method", ["lazy-mil", pytest.param("fedavg", marks=pytest.mark.slow)])
def test_ray_gives_the_same_weights_as_one_process(method, address, tmp_path):
    here, there = prepare(settings(method)), on_ray(method, address)
    together, apart = Execution(here, tmp_path / "together"), Execution(there, tmp_path / "apart")
    assert len(set(apart._engine.machines)) == 2  # both nodes have a worker, and every platform took part
    expected, found = whole(together), whole(apart)
    assert same(apart.state["weights"], together.state["weights"])
    for key in ("test", "dev", "selection", "bytes", "best_round", "calibration"):
        assert found[key] == expected[key]
    ledgers = [(tmp_path / run / "ledger.jsonl").read_text() for run in ("together", "apart")]
    assert ledgers[0] == ledgers[1]


@pytest.mark.slow
def test_a_resumed_run_on_ray_is_the_uninterrupted_one(address, tmp_path):
    """Of a method whose platforms remember."""
    together = Execution(prepare(settings("scaffold", "training.rounds=3")), tmp_path / "together")
    expected = whole(together)
    begun = Execution(on_ray("scaffold", address, "training.rounds=3"), tmp_path / "apart")
    next(begun.rounds())
    begun.close()
    gone_on = Execution(on_ray("scaffold", address, "training.rounds=3"), tmp_path / "apart", resume=True)
    assert whole(gone_on)["test"] == expected["test"]
    assert same(gone_on.state["weights"], together.state["weights"])
    assert same(gone_on.state["control"], together.state["control"])


@pytest.mark.slow
def test_platforms_of_a_worker_that_died_are_absent_until_the_next_round(address, tmp_path):
    execution = Execution(on_ray("scaffold", address, "training.rounds=4"), tmp_path / "run")
    rounds, ray = execution.rounds(), execution._engine
    assert next(rounds).line["trained"] == sum(execution.setup.sites.sizes.values())
    engine._ray().kill(ray._workers[1])
    left = [name for name, place in ray._place.items() if place == 0]
    assert next(rounds).line["trained"] == sum(execution.setup.sites.sizes[name] for name in left)
    remembered = ray.memories()
    assert sorted(remembered) == sorted(execution.setup.sites)  # the others as they were before
    assert next(rounds).line["trained"] == sum(execution.setup.sites.sizes.values())
    assert not same(ray.memories()["p1"]["control"], remembered["p1"]["control"])
    for worker in ray._workers:
        engine._ray().kill(worker)
    with pytest.raises(UserError, match=r"round 4: 0 of 4 platforms answered train; a worker died: "):
        next(rounds)


@pytest.mark.slow
def test_a_mistake_is_told_as_in_one_process(address, tmp_path):
    told = []
    diverging = ["extractor.activation=relu", "training.lr=1000", "training.weight_decay=0"]
    for setup in (prepare(settings("fedavg", *diverging)), on_ray("fedavg", address, *diverging)):
        with pytest.raises(DivergedError) as error:
            whole(Execution(setup, tmp_path / setup.experiment.engine.kind))
        told.append(str(error.value))
    assert told[0] == told[1]


def test_more_workers_than_the_cluster_has_cores_are_refused(address, tmp_path):
    with pytest.raises(UserError, match=r"engine.workers = 3, and the Ray cluster has 2 cores"):
        Execution(on_ray("fedavg", address, "engine.workers=3"), tmp_path / "run")


def test_an_address_where_nobody_answers_is_refused(refused):
    told = refused("run", "--set", "engine.kind=ray", "--set", "engine.address=127.0.0.1:1", "--set", "data.size=600")
    assert told.startswith('engine.address = "127.0.0.1:1": no Ray answers there (')


def test_without_ray_there_is_one_sentence_that_says_what_to_install(refused, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    told = refused("run", "--set", "engine.kind=ray", "--set", "data.size=600")
    assert told == 'engine.kind = "ray" needs Ray; install it with: pip install "fedrel[ray]"'
