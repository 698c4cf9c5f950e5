"""What a real federation costs beside the training itself: one coordinator and three platforms on loopback, mutual TLS.

    python -m benchmarks.exchange [--megabytes 1 10 100] [--rounds 6] [--carrier nvflare]

A method that sends the whole model both ways (FedDyn), with next to nothing to train on and a table of word vectors of
the wanted size; the same rounds are timed in one process, and the difference is the exchange. With `--carrier nvflare`
a FLARE federation (a server and three clients, as the tests make it) carries the messages. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.corpus import opennre
from fedrel.corpus.world import World
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.experiment.parties import federated
from fedrel.federation.kits import provisioning

PLATFORMS = ["p0", "p1", "p2"]
_DIMENSIONS = 50
_SENTENCES = 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--carrier", choices=("https", "nvflare"), default="https")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, carrying(Path(folder), wanted.carrier):
        print(json.dumps(measure(Path(folder), wanted.megabytes, wanted.rounds, wanted.carrier), indent=1))


@contextmanager
def carrying(folder: Path, carrier: str) -> Iterator[None]:
    """Whatever else must run beside our nodes."""
    if carrier == "https":
        yield
        return
    from tests.federation.nvflare.flare import Flare

    flare = Flare(folder / "flare", tuple(PLATFORMS), guarded=True)
    for name in ("coordinator", *PLATFORMS):
        socket_ = folder / "kits" / name / "relay" / "relay.sock"
        flare.relay("server" if name == "coordinator" else name, socket_)
    with flare:
        flare.wait_for_clients()
        flare.submit()
        yield


def measure(folder: Path, megabytes: list[int], rounds: int, carrier: str = "https") -> dict[str, Any]:
    world = write_world(folder / "world")
    begin = time.perf_counter()
    port = free_port()
    provisioning.new(folder / "kits", host="localhost", port=port, platforms=PLATFORMS)
    nodes = [start(folder, name, carrier) for name in ("coordinator", *PLATFORMS)]
    sizes: dict[str, Any] = {}
    try:
        for size in megabytes:
            words = world / "coordinator" / f"{size}.txt"
            words.write_text("\n".join(f"w{number}" for number in range(size * 250_000 // _DIMENSIONS)))
            settings = [f"extractor.vocabulary={words}", f"training.rounds={rounds}"]
            together = round_seconds(alone(world, settings, folder / f"alone-{size}"))
            submitted = time.perf_counter()
            submit(folder, world, settings, f"run-{size}")
            apart = round_seconds(folder / "runs" / f"run-{size}")
            sizes[f"{size} MB"] = {
                "round_in_one_process": statistics.median(together),
                "round_in_the_federation": statistics.median(apart),
                "exchange": statistics.median(apart) - statistics.median(together),
                "submit_to_result": time.perf_counter() - submitted,
            }
    finally:
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.wait(60)
    return {"platforms": len(PLATFORMS), "cores": os.cpu_count(), "seconds": sizes, "all": time.perf_counter() - begin}


def write_world(folder: Path) -> Path:
    """Few sentences for each platform, and a public dev and test."""
    made = World(size=600, seed=1, noise=0.6, evidence=7.0)
    train = list(made.instances("train"))[: _SENTENCES * len(PLATFORMS)]
    parts = {name: train[number :: len(PLATFORMS)] for number, name in enumerate(PLATFORMS)}
    files = {f"{name}/train": part for name, part in parts.items()}
    files |= {f"coordinator/{split}": list(made.instances(split))[:50] for split in ("dev", "test")}
    for name, instances in files.items():
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(opennre.lines(instances)), encoding="utf-8")
    table = {
        "data": {"source": "opennre", "path": str(folder), "relations": made.relations()[1:], "allow_overlap": True},
        "extractor": {"embeddings": "trainable", "filters": 8, "word_dim": _DIMENSIONS},
        "method": {"name": "feddyn"},
        "privacy": {"sums": "off"},
        "training": {"epochs": 1, "lr": 0.01, "patience": 1000},
        "engine": {"device": "cpu", "workers": 1, "save_every": 1000, "min_platforms": 3},
    }
    (folder / "experiment.toml").write_text(config.to_toml(table), encoding="utf-8")
    return folder


def alone(world: Path, settings: list[str], out: Path) -> Path:
    table, _ = config.read_table(world / "experiment.toml")
    execution = Execution(prepare(config.parse(federated(config.override(table, settings)))), out)
    for _ in execution.rounds():
        pass
    return out


def round_seconds(run: Path) -> list[float]:
    """The first round is left out: everything is read and compiled in it."""
    return [json.loads(line)["seconds"] for line in (run / "metrics.jsonl").read_text().splitlines()][1:]


def start(folder: Path, name: str, carrier: str) -> subprocess.Popen[bytes]:
    kind = "coordinator" if name == "coordinator" else "platform"
    more = ["--carrier", carrier, *(["--runs", str(folder / "runs")] if kind == "coordinator" else [])]
    command = [kind, "start", str(folder / "kits" / name), "--data", str(folder / "world" / name), *more]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([sys.executable, "-m", "fedrel.cli", *command], stdout=log, stderr=log)


def submit(folder: Path, world: Path, settings: list[str], run: str) -> None:
    given = [part for setting in settings for part in ("--set", setting)]
    command = ["submit", str(folder / "kits" / "admin"), str(world / "experiment.toml"), *given]
    subprocess.run(
        [sys.executable, "-m", "fedrel.cli", *command, "--name", run, "--follow", "--json"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
