"""Platforms and sentences, many of them: what a round costs, and how much memory it takes.

    python -m benchmarks.scale [--size nyt10] [--platforms 100 1000 10000] [--fractions 0.01 0.1] [--times 1 4 16]

First the same sentences held by more and more platforms. Then more and more sentences, held by as many platforms. Lazy
MIL, which asks every platform of the cohort twice; every figure from a process of its own. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="nyt10", help="of the built-in world: a number of sentences, or nyt10")
    parser.add_argument("--platforms", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--fractions", type=float, nargs="+", default=[0.01, 0.1], help="of platforms a round asks")
    parser.add_argument("--smallest", type=int, default=29_000, help="sentences that are multiplied by --times")
    parser.add_argument("--times", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--set", action="append", default=[], help="more settings, like those of `fedrel run`")
    wanted = parser.parse_args()
    sizes = [wanted.size, *(wanted.smallest * times for times in wanted.times)]
    for size in dict.fromkeys(sizes):  # made once, and found in the cache from then on
        alone(make, f"data.size={size}")
    common = ["method.name=lazy-mil", "method.warmup=0", "training.epochs=1", "training.rounds=3", *wanted.set]

    def row(size: str | int, platforms: int, fraction: float) -> dict[str, Any]:
        cell = [f"data.size={size}", f"partition.platforms={platforms}", f"training.fraction={fraction}"]
        return dict(alone(measure, *cell, *common))

    platforms = [row(wanted.size, count, share) for share in wanted.fractions for count in wanted.platforms]
    sentences = [row(size, min(wanted.platforms), max(wanted.fractions)) for size in sizes[1:]]
    for found in sentences:
        for key in ("sentences_of_cohort", "seconds_per_round", "cpu_seconds_per_round"):
            found[f"{key}_over_first"] = round(found[key] / sentences[0][key], 2)
    print(json.dumps({"cores": os.cpu_count(), "platforms": platforms, "sentences": sentences}, indent=1))


def alone(work: Any, *settings: str) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, list(settings), time.time()).result()


def make(settings: list[str], begin: float) -> None:
    prepare(config.read(None, settings))


def measure(settings: list[str], begin: float) -> dict[str, Any]:
    """`begin`: when the process was asked for."""
    setup = prepare(config.read(None, settings))
    trained: list[float] = []  # processor time when each round came to scoring dev, which is no part of it
    with tempfile.TemporaryDirectory() as folder:
        execution = Execution(
            setup,
            Path(folder) / "run",
            tick=lambda what: trained.append(time.process_time()) if what == "dev" else None,
        )
        started, closed = time.time() - begin, [time.process_time()]
        lines = []
        for progress in execution.rounds():
            lines.append(progress.line)
            closed.append(time.process_time())
        resident = _resident()
        execution.close()
    spent = [after - before for before, after in zip(closed, trained, strict=False)]
    cohort = [setup.sites.sizes[name] for name in lines[-1]["cohort"]]
    return {
        "sentences": len(setup.dataset.train),
        "platforms": len(setup.sites),
        "platforms_of_cohort": len(cohort),
        "sentences_of_cohort": sum(cohort),
        "seconds_to_first_round": round(started, 2),
        # The first round also compiles the loops, where nobody did before
        "seconds_per_round": round(min(line["seconds"] for line in lines[1:] or lines), 2),
        "cpu_seconds_per_round": round(min(spent[1:] or spent), 2),
        "megabytes_up": round(lines[-1]["bytes"]["up"] / 1e6, 1),
        "resident_megabytes": round(resident / 1e6),
        "peak_megabytes": round(_peak() / 1e6),
    }


def _resident() -> int:
    if not Path("/proc/self/statm").exists():
        return _peak()  # elsewhere than on Linux, the standard library knows no better
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
