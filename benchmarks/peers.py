"""`python -m benchmarks.peers`: the same FedAvg federation, once as a Flower user would write it and once as ours.

Its text is that of benchmarks.round: ten of the hundred platforms of the built-in world as large as NYT10; or random.
Flower's side (benchmarks/flower) runs in Flower's own simulation, with as many clients side by side as there are cores:
sentences padded to 128, `nn.Embedding`, `nn.Conv1d`, `torch.optim.SGD`, the whole model as an array record both ways.
It has an environment of its own, made on first use and kept in the cache folder. Ours is the simulator. Both have the
same sentences, starting weights and order of batches, so both must end with the same weights: it is an error if not.
The first round of either, in which everything is started, read or compiled, is not counted. Ours runs twice, before
and after. On a machine that does other things too, compare CPU seconds; Flower's are those of its training loop alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.plain import LENGTH, pad, plain_weights
from benchmarks.round import vocabulary
from benchmarks.train import RELATIONS, random_shard
from fedrel import config
from fedrel.algorithms import FedAvg
from fedrel.config import Engine, Experiment, Extractor, Training
from fedrel.encoding.packed import PackedShard
from fedrel.engines.simulator import Simulator
from fedrel.experiment.assembly import prepare, workers_of
from fedrel.experiment.models import build_model
from fedrel.learning.model import WORDS
from fedrel.learning.named import Named
from fedrel.protocol.records import named_in
from fedrel.protocol.run import run
from fedrel.protocol.sampling import Sampler
from fedrel.protocol.site import Site
from fedrel.util.files import atomic_folder, cache_folder, write_atomic
from fedrel.util.parallel import cores
from fedrel.util.seeds import generator

ROOT = Path(__file__).parents[1]
TOLERANCE = {"float32": 1e-3, "float64": 1e-9}  # rounding now and then lets another token win a maximum
SWITCHES = {  # nothing is reported to anybody, and nothing is installed in passing
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

Weights = Mapping[str, npt.NDArray[Any]]  # by the plain model's names


@dataclass(frozen=True)
class Work:
    """What both sides do."""

    text: str = "world"  # or random: sentences of 15 to 70 words
    platforms: int = 10
    sentences: int = 1_000  # of random text on a platform, give or take a half
    rounds: int = 4
    epochs: int = 1
    batch: int = 32
    lr: float = 0.1
    weight_decay: float = 1e-5
    vocabulary: int = 114_042  # NYT10's
    relations: int = RELATIONS
    seed: int = 1
    precision: str = "float32"


@dataclass(frozen=True)
class Federation:
    """Ours, ready to run."""

    work: Work
    sites: Mapping[str, Site]
    hub: Site
    weights: Named  # to start from

    @classmethod
    def of(cls, work: Work) -> Federation:
        draw = np.random.default_rng(work.seed)
        if work.text == "world":
            shards = world_shards(work)
        else:
            sizes = draw.integers(work.sentences // 2, work.sentences * 3 // 2, work.platforms, endpoint=True)
            shards = [random_shard(int(size), work.vocabulary, draw) for size in sizes]
        table = torch.randn(work.vocabulary, 50, generator=generator(work.seed, torch.device("cpu"))) * 0.1
        table[0] = 0
        dtype = getattr(torch, work.precision)
        model = build_model(Extractor(), "none", work.relations, table, work.seed).to(dtype)
        training = Training(
            epochs=work.epochs,
            batch=work.batch,
            lr=work.lr,
            lr_decay=0.0,
            weight_decay=work.weight_decay,
            dropout=0.0,
        )
        sites = {f"p{i}": Site(f"p{i}", shard, model, training, work.seed) for i, shard in enumerate(shards)}
        hub = Site("server", random_shard(1, work.vocabulary, draw), model, training, work.seed)
        return cls(work, sites, hub, Named(model.weights() | {WORDS: table.to(dtype)}))

    @property
    def sentences(self) -> int:
        """That a round trains on."""
        return self.work.epochs * sum(len(site.shard) for site in self.sites.values())

    def orders(self, site: Site) -> Tensor:
        """(rounds, epochs, S) the order in which training reads the platform's sentences."""
        drawn = []
        for number in range(self.work.rounds):
            draw = generator(replace(site, round=number).draw("train"), torch.device("cpu"))
            drawn += [torch.randperm(len(site.shard), generator=draw) for _ in range(self.work.epochs)]
        return torch.stack(drawn).view(self.work.rounds, self.work.epochs, len(site.shard))

    def write(self, folder: Path) -> None:
        """For benchmarks/flower."""
        write_atomic(folder / "work.json", json.dumps(asdict(self.work)))
        write_arrays(folder / "start.npz", plain_weights(self.weights))
        for number, site in enumerate(self.sites.values()):
            assert isinstance(site.shard, PackedShard)
            write_arrays(folder / f"{number}.npz", vars(pad(site.shard)) | {"orders": self.orders(site)})


def world_shards(work: Work) -> list[PackedShard]:
    """What the first platforms hold of the world as large as NYT10, divided among ten times as many."""
    settings = ["data.size=nyt10", f"partition.platforms={10 * work.platforms}", "engine.device=cpu"]
    with tempfile.TemporaryDirectory() as folder:
        words = vocabulary(settings, work.vocabulary, Path(folder) / "words.txt")
        setup = prepare(config.read(None, [*settings, f"extractor.vocabulary={words}"]))
    assert (len(setup.encoding), len(setup.dataset.relations)) == (work.vocabulary, work.relations)
    shards = [setup.sites[name].shard for name in list(setup.sites)[: work.platforms]]
    assert all(isinstance(shard, PackedShard) and int(shard.starts.diff().max()) <= LENGTH for shard in shards)
    return [shard for shard in shards if isinstance(shard, PackedShard)]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    for name, value in asdict(Work()).items():
        choices = {"precision": list(TOLERANCE), "text": ["world", "random"]}.get(name)
        if name != "relations":
            arguments.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, choices=choices)
    arguments.add_argument("--client-cores", type=int, default=1, help="of every Flower client")
    options = vars(arguments.parse_args())
    each = options.pop("client_cores")
    work = Work(**options)
    report = compare(work, each)
    print(json.dumps(report, indent=1))
    if report["largest_difference"] > TOLERANCE[work.precision]:
        raise SystemExit("the final weights differ: this is not the same federation")


def compare(work: Work, client_cores: int = 1) -> dict[str, Any]:
    if work.rounds < 2:
        raise SystemExit("--rounds: at least 2, since the first is not counted")
    python = environment(lambda line: print(line, file=sys.stderr, flush=True))
    federation = Federation.of(work)
    load = os.getloadavg()[0]
    before, our_weights = in_a_process(run_ours, work)
    flower, flower_weights = run_flower(federation, python, client_cores)
    after, _ = in_a_process(run_ours, work)
    flower_rate, our_rate = flower.summary(federation), before.joined(after).summary(federation)
    return {
        "machine": f"{cores()} cores, torch {torch.__version__}, load before {load:.1f}",
        "work": asdict(work),
        "sentences_per_round": federation.sentences,
        "flower": {"version": version_in(python), **flower_rate},
        "ours": our_rate,
        "ours_over_flower": round(flower_rate["seconds_per_round"] / our_rate["seconds_per_round"], 1),
        "in_cpu_seconds": round(flower_rate["cpu_seconds_per_round"] / our_rate["cpu_seconds_per_round"], 1),
        "largest_difference": largest_difference(our_weights, flower_weights),
        "largest_change": largest_difference(as_arrays(plain_weights(federation.weights)), our_weights),
    }


@dataclass(frozen=True)
class Timing:
    seconds: list[float]  # of every round but the first
    cpu_seconds: list[float]
    start_up: float  # until a second round could begin, less a usual round
    more: dict[str, Any]

    def joined(self, other: Timing) -> Timing:
        return replace(self, seconds=self.seconds + other.seconds, cpu_seconds=self.cpu_seconds + other.cpu_seconds)

    def summary(self, federation: Federation) -> dict[str, Any]:
        usual = median(self.seconds)
        return {
            "seconds_per_round": round(usual, 4),
            "rounds": [round(seconds, 4) for seconds in self.seconds],
            "cpu_seconds_per_round": round(median(self.cpu_seconds), 4),
            "start_up_seconds": round(self.start_up, 1),
            "sentences_per_second": round(federation.sentences / usual),
            **self.more,
        }


def in_a_process(measure: Callable[[Work], tuple[Timing, Weights]], work: Work) -> tuple[Timing, Weights]:
    """Of its own: the memory that one measurement frees slows the next down."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
        return alone.submit(measure, work).result()


def run_ours(work: Work) -> tuple[Timing, Weights]:
    torch.set_num_threads(1)
    begin = time.perf_counter()
    federation = Federation.of(work)
    prepared = time.perf_counter() - begin
    workers = workers_of(Experiment(engine=Engine(device="cpu")))
    weights, spent, spent_cpu, bytes_up = simulate(federation, workers)
    more = {
        "side_by_side": workers,
        "threads_each": torch.get_num_threads(),
        "megabytes_up_per_round": round(bytes_up / work.rounds / 1e6, 1),
    }
    timing = Timing(spent[1:], spent_cpu[1:], prepared + spent[0] - median(spent[1:]), more)
    return timing, as_arrays(plain_weights(weights))


def simulate(federation: Federation, workers: int) -> tuple[Named, list[float], list[float], int]:
    """The last weights; the seconds of every round, also of CPU; the bytes that were uploaded."""
    algorithm = FedAvg()
    simulator = Simulator(algorithm, federation.sites, workers=workers)
    sampler = Sampler(tuple(federation.sites), 1.0, federation.work.seed)
    state = algorithm.start(federation.weights)
    spent, ends_cpu = [], [time.process_time()]
    for done in run(algorithm, simulator, sampler, federation.hub, state, range(federation.work.rounds)):
        state = done.state
        spent.append(done.seconds)
        ends_cpu.append(time.process_time())
    return named_in(state, "weights"), spent, np.diff(ends_cpu).tolist(), simulator.bytes_up


def run_flower(federation: Federation, python: Path, client_cores: int) -> tuple[Timing, Weights]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        federation.write(folder)
        begin = time.time()
        process = subprocess.run(
            [python, "-m", "benchmarks.flower", folder, str(cores()), str(client_cores)],
            cwd=ROOT,
            env=without_ours(os.environ) | SWITCHES | {"FLWR_HOME": str(folder / "home")},
            capture_output=True,
            text=True,
        )
        if process.returncode or not (folder / "flower.json").exists():
            raise SystemExit(f"Flower's side failed:\n{process.stderr[-4_000:]}")
        told = json.loads((folder / "flower.json").read_text())
        with np.load(folder / "end.npz") as end:
            weights = {name: end[name] for name in end.files}
    ends = told["ends"]  # of the start and of every round
    spent = np.diff(ends[1:]).tolist()
    # FedAvg's mean of what platforms say weighs each by its sentences: all their seconds, over all sentences
    sentences = federation.sentences // federation.work.epochs
    training, training_cpu = (
        [line[key] * sentences for line in told["told"][1:]] for key in ("seconds-a-sentence", "cpu-seconds-a-sentence")
    )
    side_by_side = min(cores() // client_cores, federation.work.platforms)
    whole = sum(value.nbytes for value in weights.values())
    more = {
        "of_which_training_loop": round(median(training) / side_by_side, 4),
        "side_by_side": side_by_side,
        "threads_each": round(told["told"][-1]["threads"]),
        "megabytes_up_per_round": round(federation.work.platforms * whole / 1e6, 1),
    }
    return Timing(spent, training_cpu, ends[1] - begin - median(spent), more), weights


def environment(say: Callable[[str], None]) -> Path:
    """The python of an environment with Flower and the same torch and numpy as ours: made once, kept in the cache.
    Flower's own requirements exclude the versions that ours is tested with, so it cannot share ours.
    """
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["peers"]
    same = [f"{name}=={version(name)}" for name in ("torch", "numpy")]
    key = hashlib.sha256(" ".join([sys.version, *wanted, *same]).encode()).hexdigest()[:12]
    folder = cache_folder() / f"peers-{key}"
    if not folder.exists():
        say(f"installing {', '.join(wanted + same)} into an environment of its own, {folder}: some minutes, once …")
        with atomic_folder(folder, keep_existing=True) as growing:
            begin = time.perf_counter()
            call([sys.executable, "-m", "venv", growing])
            call([growing / "bin" / "python", "-m", "pip", "install", "--quiet", *wanted, *same])
            say(f"installed in {time.perf_counter() - begin:.0f} s")
    return folder / "bin" / "python"


def call(command: list[str | Path]) -> None:
    process = subprocess.run(command, env=without_ours(os.environ), capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{process.stderr[-2_000:]}")


def version_in(python: Path) -> str:
    code = "from importlib.metadata import version; print(version('flwr'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def without_ours(variables: Mapping[str, str]) -> dict[str, str]:
    """Without what would lead Python to our own packages."""
    return {name: value for name, value in variables.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, npt.NDArray[Any]]:
    return {name: value.numpy() for name, value in tensors.items()}


def write_arrays(path: Path, tensors: Mapping[str, Tensor]) -> None:
    np.savez(path, allow_pickle=False, **as_arrays(tensors))


def largest_difference(one: Weights, other: Weights) -> float:
    assert one.keys() == other.keys()
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


if __name__ == "__main__":
    main()
