"""`python -m benchmarks.round`: seconds of a round of Lazy MIL, or of another `--method`, on a world as large as NYT10,
100 platforms, by the share that takes part. Everything a round does is counted: messages, scoring, election, training,
averaging; not evaluation.

With `--rounds 50`, also a whole run with that many rounds at the first share, dev evaluation and checkpoints included.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fedrel import config
from fedrel.encoding.words import WordEncoding
from fedrel.engines.simulator import Simulator
from fedrel.experiment.assembly import Setup, prepare, stacked_platforms, workers_of
from fedrel.experiment.execution import Execution
from fedrel.protocol.records import number_in
from fedrel.protocol.round import Ask, Replies, drive
from fedrel.protocol.sampling import Sampler
from fedrel.util.files import write_atomic


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--size", default="nyt10", help="nyt10, or a number of sentences")
    arguments.add_argument("--vocabulary", type=int, default=114_042, help="words of the model; NYT10's")
    arguments.add_argument("--platforms", type=int, default=100)
    arguments.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.2, 0.5, 1.0])
    arguments.add_argument("--method", default="lazy-mil")
    arguments.add_argument("--repeats", type=int, default=5, help="rounds after the first; the median counts")
    arguments.add_argument("--rounds", type=int, default=0)
    arguments.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    options = arguments.parse_args()
    chosen = [
        f"data.size={options.size}",
        f"partition.platforms={options.platforms}",
        f"method.name={options.method}",
        *(["method.warmup=0"] if options.method == "lazy-mil" else []),
        "training.batch=32",
        "training.epochs=3",
        "training.patience=1000",
    ]
    with tempfile.TemporaryDirectory() as folder:
        chosen.append(f"extractor.vocabulary={vocabulary(chosen, options.vocabulary, Path(folder) / 'words.txt')}")
        begin = time.perf_counter()
        setup = prepare(config.read(None, [*chosen, *options.settings]))
    report: dict[str, Any] = {
        "machine": machine(setup),
        "method": options.method,
        "sentences": len(setup.dataset.train),
        "relations": len(setup.dataset.relations),
        "vocabulary": len(setup.encoding),
        "platforms": len(setup.sites),
        "stacked": bool(stacked_platforms(setup)),
        "seconds_to_prepare": round(time.perf_counter() - begin, 1),
        "shares": {str(share): measure(setup, share, options.repeats) for share in options.shares},
    }
    if options.rounds:
        report["run"] = whole_run(setup, options.shares[0], options.rounds)
    print(json.dumps(report, indent=1))


def vocabulary(settings: list[str], count: int, path: Path) -> Path:
    """The words of the world, and as many that never occur as make it this large."""
    encoding = prepare(config.read(None, settings)).encoding
    assert isinstance(encoding, WordEncoding)
    words = encoding.vocabulary.words[2:]
    write_atomic(path, "\n".join([*words, *(f"unused-{number}" for number in range(count - 2 - len(words)))]))
    return path


def machine(setup: Setup) -> str:
    device = setup.model.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {workers_of(setup.experiment)} cores"
    return f"{name}, torch {torch.__version__}"


def measure(setup: Setup, share: float, repeats: int) -> dict[str, Any]:
    experiment = replace(setup.experiment, training=replace(setup.experiment.training, fraction=share))
    sampler = Sampler(tuple(setup.sites), share, experiment.seed)
    device = setup.model.device
    direct = device.type != "cpu"
    simulator = Simulator(
        setup.algorithm, setup.sites, workers=workers_of(experiment), stacked=stacked_platforms(setup), direct=direct
    )
    phases: dict[str, float] = {}
    trained = 0

    def exchange(ask: Ask) -> Replies:
        nonlocal trained
        begin = now(device)
        replies = simulator(ask)
        phases[ask.task] = phases.get(ask.task, 0.0) + now(device) - begin
        trained += int(sum(number_in(reply, "sentences") for reply in replies.values() if "sentences" in reply))
        return replies

    state = setup.algorithm.start(setup.weights.to(device) if direct else setup.weights)
    spent = []
    for number in range(repeats + 1):
        if number == 1:
            phases.clear()
            trained = 0
        begin = now(device)
        flow = setup.algorithm.round(replace(setup.hub, round=number), state, sampler.cohort(number))
        state = drive(flow, exchange, number)
        spent.append(now(device) - begin)
    return {
        "active": len(sampler.cohort(0)),
        "seconds": round(median(spent[1:]), 3),
        "first_round": round(spent[0], 3),
        "slowest": round(max(spent[1:]), 3),
        "trained_sentences_a_round": trained // repeats,
        "by_phase": {task: round(seconds / repeats, 3) for task, seconds in phases.items()},
        "bytes_up": simulator.bytes_up // (repeats + 1),
        "bytes_down": simulator.bytes_down // (repeats + 1),
    }


def whole_run(setup: Setup, share: float, rounds: int) -> dict[str, Any]:
    training = replace(setup.experiment.training, fraction=share, rounds=rounds)
    again = replace(
        setup, experiment=replace(setup.experiment, training=training), sampler=replace(setup.sampler, fraction=share)
    )
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        execution = Execution(again, Path(folder) / "run")
        scores = [progress.line["dev"][training.metric] for progress in execution.rounds()]
        spent = time.perf_counter() - begin
        return {
            "rounds": rounds,
            "seconds": round(spent, 1),
            "by_phase": {name: round(seconds, 1) for name, seconds in execution.standing.phases.items()},
            f"best dev {training.metric}": round(max(scores), 3),
        }


def now(device: torch.device) -> float:
    """When all that was asked of the device so far is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
