"""Whole runs whose platforms train as one program, beside the same runs one by one."""

import threading

import pytest
import torch

from fedrel.algorithms import METHODS
from fedrel.config import Experiment
from fedrel.engines.simulator import Simulator
from fedrel.errors import DivergedError
from fedrel.experiment.assembly import prepare, read_experiment
from fedrel.experiment.execution import Execution
from fedrel.stacked.training import StackedTrainer
from tests.algorithms.tiny import experiment

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def run(settings: Experiment, folder, *, at_once=None, say=lambda line: None):
    execution = Execution(prepare(settings), folder, say=say)
    assert isinstance(execution._engine, Simulator)
    if at_once:
        execution._engine.stacked = at_once
    for _ in execution.rounds():
        pass
    return execution


def assert_close(one, other, tolerance):
    for name, value in one.state["weights"].items():
        torch.testing.assert_close(other.state["weights"][name].cpu(), value.cpu(), rtol=tolerance, atol=tolerance)


def settings_of(method, kind, *more):
    return experiment(method, kind, "training.dropout=0.3", *more)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["pcnn", pytest.param("text", marks=pytest.mark.slow)])
def test_every_method_learns_the_same_as_one_by_one(method, kind, tmp_path):
    alone = run(settings_of(method, kind, "engine.stacked=off"), tmp_path / "alone")
    together = run(settings_of(method, kind, "engine.stacked=on"), tmp_path / "together")
    assert together._engine.stacked and not alone._engine.stacked
    assert_close(alone, together, 2e-3 if kind == "text" else 1e-4)  # AdamW makes small differences larger
    assert together.standing.bytes_up == alone.standing.bytes_up
    assert together.finish()["test"].keys() == alone.finish()["test"].keys()


def test_the_same_seed_gives_the_same_result_twice(tmp_path):
    runs = [run(settings_of("lazy-mil", "pcnn", "engine.stacked=on"), tmp_path / name) for name in ("one", "two")]
    first, second = (execution.state["weights"] for execution in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_cohort_larger_than_the_capacity_goes_in_waves(tmp_path):
    alone = run(settings_of("fedavg", "pcnn", "engine.stacked=off"), tmp_path / "alone")
    waves = run(settings_of("fedavg", "pcnn", "engine.stacked=on"), tmp_path / "waves", at_once=3)
    assert_close(alone, waves, 1e-4)


def test_without_memory_for_all_it_goes_on_with_fewer_and_says_so(tmp_path, monkeypatch):
    """Memory for two platforms, as a small GPU would have it."""
    whole = StackedTrainer._train

    def cramped(self, works):
        if len(works) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, works)

    monkeypatch.setattr(StackedTrainer, "_train", cramped)
    said = []
    alone = run(settings_of("fedavg", "pcnn", "engine.stacked=off"), tmp_path / "alone")
    split = run(settings_of("fedavg", "pcnn", "engine.stacked=on"), tmp_path / "split", say=said.append)
    assert_close(alone, split, 1e-4)
    assert said == ["4 platforms at once are too many for the GPU's memory; from now on 2"]


def test_a_run_that_diverges_names_the_platform_and_leaves_no_thread(tmp_path):
    before = threading.active_count()
    wild = settings_of(
        "fedavg", "pcnn", "engine.stacked=on", "training.lr=1000", "extractor.activation=relu", "training.rounds=30"
    )
    with pytest.raises(DivergedError, match=r"round \d+, platform \S+: the (loss is|weights are) not"):
        run(wild, tmp_path / "run")
    assert threading.active_count() == before


def test_a_run_that_was_saved_under_the_old_key_loads(tmp_path):
    execution = run(settings_of("fedavg", "pcnn", "engine.stacked=on"), tmp_path / "run")
    path = tmp_path / "run" / "experiment.toml"
    text = path.read_text()
    assert text.count('stacked = "on"') == 1
    path.write_text(text.replace('stacked = "on"', 'cohort = "on"'))
    assert read_experiment(path) == execution.setup.experiment


@needs_gpu
@pytest.mark.parametrize(
    "method",
    ["none", "one", "ave", "att", "att-own", "att-ra", "lazy-mil", "evidence", "fedprox", "scaffold", "fedcmc", "moon"],
)
def test_a_gpu_learns_what_the_cpu_learns(method, tmp_path):
    cpu = run(settings_of(method, "pcnn", "engine.device=cpu"), tmp_path / "cpu")
    gpu = run(settings_of(method, "pcnn", "engine.device=cuda", "engine.precision=float32"), tmp_path / "gpu")
    assert gpu._engine.stacked
    assert_close(cpu, gpu, 1e-3)
    one_by_one = settings_of(method, "pcnn", "engine.device=cuda", "engine.stacked=off", "engine.precision=float32")
    assert_close(cpu, run(one_by_one, tmp_path / "one by one"), 1e-3)
