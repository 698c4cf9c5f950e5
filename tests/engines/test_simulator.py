from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from benchmarks.plain import pad, train
from fedrel.algorithms import FedAvg, LazyMIL
from fedrel.config import Training
from fedrel.engines.simulator import Simulator
from fedrel.errors import DivergedError
from fedrel.learning.fit import fit
from fedrel.learning.model import WORDS
from fedrel.learning.named import Named, apply_patch
from fedrel.protocol.codec import encode
from fedrel.protocol.round import broadcast, drive
from fedrel.protocol.run import run
from fedrel.protocol.sampling import Sampler
from fedrel.protocol.site import Site
from fedrel.protocol.tasks import task, tasks
from fedrel.util.seeds import seeded
from tests.helpers import random_split, shard_of, small_model
from tests.learning.test_fit import plain_copy

TRAINING = Training(epochs=2, batch=5, lr=0.2, lr_decay=0.1, weight_decay=0.01, dropout=0.2)


def federation(platforms=3, seed=1, **model_settings):
    split = random_split(60, seed=4)
    model, weights = small_model(**model_settings)
    parts = np.array_split(np.random.default_rng(seed).permutation(60), platforms)
    sites = {
        f"p{i}": Site(f"p{i}", shard_of(split, np.sort(rows)), model, TRAINING, seed) for i, rows in enumerate(parts)
    }
    hub = Site("server", shard_of(split, []), model, TRAINING, seed)
    return sites, hub, weights


def play(algorithm, sites, hub, weights, rounds=3, fraction=1.0, workers=1):
    simulator = Simulator(algorithm, sites, workers=workers)
    sampler = Sampler(tuple(sites), fraction, 1)
    state = algorithm.start(weights)
    for done in run(algorithm, simulator, sampler, hub, state, range(rounds)):
        state = done.state
    return state["weights"], simulator


def test_fedavg_is_the_mean_weighted_by_sentences():
    sites, hub, weights = federation(dtype=torch.float64)
    after, _ = play(FedAvg(), sites, hub, weights, rounds=1)
    total = weights.zeros()
    for site in sites.values():
        site.model.load(weights, site.shard)
        fitted = fit(site.model, site.shard, TRAINING, lr=0.2, seed=site.draw("train"))
        total = total + apply_patch(weights, site.model.trained(site.shard, fitted.sentences)) * len(site.shard)
    for name in after:
        torch.testing.assert_close(after[name], total[name] / 60, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_a_whole_sparse_round_equals_a_dense_one_with_weight_decay(dtype, tolerance):
    """Against the plain loop: padded sentences, dense gradients, the library's optimiser, whole models averaged."""
    sites, hub, weights = federation(dtype=dtype)
    training = replace(TRAINING, dropout=0.0)
    for site in sites.values():
        site.training = training
    sparse, _ = play(FedAvg(), sites, hub, weights, rounds=1)
    dense = torch.zeros_like(weights[WORDS])
    convolution = torch.zeros_like(weights["encoder.convolution.weight"])
    for site in sites.values():
        with seeded(site.draw("train")):
            shuffles = [torch.randperm(len(site.shard)) for _ in range(training.epochs)]
        batches = [batch for shuffle in shuffles for batch in torch.split(shuffle, training.batch)]
        plain = train(plain_copy(weights), pad(site.shard, 16), batches, lr=0.2, weight_decay=0.01)
        share = len(site.shard) / 60
        dense += share * plain.words.weight.detach()
        convolution += share * plain.convolution.weight.detach().transpose(1, 2).reshape(6, 180)
    torch.testing.assert_close(sparse[WORDS], dense, rtol=0, atol=tolerance)
    torch.testing.assert_close(sparse["encoder.convolution.weight"], convolution, rtol=0, atol=tolerance)


def test_one_platform_is_centralised_training():
    sites, hub, weights = federation(platforms=1, dtype=torch.float64)
    after, _ = play(FedAvg(), sites, hub, weights, rounds=2)
    site = sites["p0"]
    expected = weights
    for number in range(2):
        site.model.load(expected, site.shard)
        here = replace(site, round=number)
        fitted = fit(site.model, site.shard, TRAINING, lr=here.lr, seed=here.draw("train"))
        expected = apply_patch(expected, site.model.trained(site.shard, fitted.sentences))
    for name in after:
        torch.testing.assert_close(after[name], expected[name], rtol=0, atol=1e-12)


def test_the_learning_rate_falls_by_round():
    assert TRAINING.lr_at(0) == 0.2
    assert TRAINING.lr_at(2) == pytest.approx(0.2 * 0.9**2)


def test_runs_repeat_bit_for_bit():
    results = [play(FedAvg(), *federation(), rounds=2, fraction=0.5)[0] for _ in range(2)]
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_only_tasks_can_be_asked_for():
    assert set(tasks(FedAvg())) == {"train", "rank", "classify", "calibrate"}
    sites, _, weights = federation()
    with pytest.raises(KeyError):
        Simulator(FedAvg(), sites)(broadcast("start", ["p0"], weights=weights))


def test_bytes_are_counted_as_encoded():
    sites, hub, weights = federation()
    uploads = []
    simulator = Simulator(FedAvg(), sites, on_upload=uploads.append)
    drive(FedAvg().round(hub, {"weights": weights}, list(sites)), simulator, 0)
    assert simulator.bytes_down == 3 * len(encode({"weights": weights}))
    assert simulator.bytes_up == sum(field.bytes for upload in uploads for field in upload.fields)
    assert [upload.platform for upload in uploads] == ["p0", "p1", "p2"]


def test_uploads_carry_only_the_rows_a_platform_touched():
    sites, hub, weights = federation()
    uploads = []
    simulator = Simulator(FedAvg(), sites, on_upload=uploads.append)
    drive(FedAvg().round(hub, {"weights": weights}, list(sites)), simulator, 0)
    shapes = {field.name: field.shape for field in uploads[0].fields}
    used = len(sites["p0"].shard.vocabulary) - 1
    assert shapes[f"weights/{WORDS}#values"] == (used, 50)
    assert f"weights/{WORDS}" not in shapes


@dataclass(frozen=True)
class Vandal(FedAvg):
    """Writes into the message it was sent."""

    @task
    def train(self, site, message):
        message["weights"]["classifier.bias"] += 1
        return {}


def test_a_task_that_writes_into_its_message_is_caught():
    sites, hub, weights = federation()
    with pytest.raises(RuntimeError, match="wrote into the message"):
        play(Vandal(), sites, hub, weights, rounds=1)


@dataclass(frozen=True)
class Forgetful(FedAvg):
    """Changes its memory, then fails."""

    @task
    def train(self, site, message):
        site.memory["visits"] = 1.0
        raise ValueError("out of luck")


def test_a_task_that_fails_leaves_no_memory():
    sites, hub, weights = federation()
    with pytest.raises(ValueError, match="out of luck"):
        play(Forgetful(), sites, hub, weights, rounds=1)
    assert sites["p0"].memory == {}


@dataclass(frozen=True)
class Counting(FedAvg):
    """Remembers its visits across rounds, and notes within one."""

    @task
    def train(self, site, message):
        assert site.scratch == {}
        site.memory["visits"] = site.memory.get("visits", 0.0) + 1
        site.scratch["note"] = 1.0
        return {}


def test_memory_survives_rounds_and_scratch_does_not():
    sites, hub, weights = federation()
    after, simulator = play(Counting(), sites, hub, weights, rounds=4)
    assert sites["p1"].memory == {"visits": 4.0}
    simulator.end_round()
    assert sites["p1"].scratch == {}
    assert after is weights  # nobody sent weights: the model stays


def test_divergence_names_round_and_platform():
    sites, hub, weights = federation()
    weights["classifier.bias"][0] = torch.nan
    with pytest.raises(DivergedError, match="round 1, platform p0: "):
        play(FedAvg(), sites, hub, weights, rounds=1)


def test_a_cohort_depends_on_seed_and_round_alone():
    names = tuple(f"p{i:02d}" for i in range(20))
    sampler = Sampler(names, 0.2, seed=3)
    assert sampler.cohort(5) == Sampler(tuple(reversed(names)), 0.2, seed=3).cohort(5)
    assert len(sampler.cohort(0)) == 4
    assert sampler.cohort(0) != sampler.cohort(1)
    assert sampler.cohort(0) == sorted(sampler.cohort(0))
    assert len(Sampler(names, 0.001, seed=3).cohort(0)) == 1


def test_named_values_in_messages_are_copies():
    sites, _hub, weights = federation()
    simulator = Simulator(FedAvg(), sites)
    replies = simulator(broadcast("train", ["p0"], weights=weights))
    named = replies["p0"]["weights"]
    assert isinstance(named, Named)
    assert named["classifier.bias"].data_ptr() != sites["p0"].model.classifier.bias.data_ptr()


@pytest.mark.parametrize("algorithm", [FedAvg(), LazyMIL(warmup=1)])
def test_platforms_side_by_side_give_the_same_bits(algorithm):
    outcomes = []
    for workers in (1, 3):
        sites, hub, weights = federation(platforms=5)
        for site in sites.values():
            site.fact_keys = lambda site=site: site.shard.labels[site.shard.bag_starts[:-1]]
        outcomes.append(play(algorithm, sites, hub, weights, rounds=4, workers=workers))
    (one, alone), (three, together) = outcomes
    assert all(torch.equal(one[name], three[name]) for name in one)
    assert (alone.bytes_up, alone.bytes_down) == (together.bytes_up, together.bytes_down)


def test_side_by_side_a_diverged_platform_is_named_and_nothing_is_kept_of_it():
    sites, _, weights = federation()
    weights["classifier.bias"][0] = float("nan")
    with pytest.raises(DivergedError, match="round 1, platform p0"):
        Simulator(FedAvg(), sites, workers=2)(broadcast("train", sites, weights=weights))
    assert all(not site.memory for site in sites.values())
