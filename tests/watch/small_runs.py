"""Folders of runs as a run writes them, line by line, and statuses as a coordinator keeps them."""

from __future__ import annotations

import json
import os
import platform
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from fedrel.watch.server import Source, create_app

TOML = """seed = 1

[method]
name = "evidence"

[training]
rounds = 20
metric = "ap"
"""
SUSPICION = {"platform": "p1", "task": "train", "what": "length", "value": 9.0, "limit": 4.0, "left_out": True}


def line(round_: int, **more: Any) -> dict[str, Any]:
    """A line of metrics.jsonl: in every round two of three platforms, and a score that grows."""
    return {
        "round": round_,
        "dev": {"ap": round_ / 40, "auc": 0.1},
        "loss": 2.0 / round_,
        "selection": None if round_ == 1 else {"precision": 0.5 + round_ / 50, "base_rate": 0.375},
        "cohort": [f"p{round_ % 3}", f"p{(round_ + 1) % 3}"],
        "trained": 100 + round_,
        "bytes": {"up": 1_000, "down": 2_000},
        "seconds": 2.0,
        **more,
    }


def begin(folder: Path, **progress: Any) -> Path:
    """A run that is about to begin its first round, in this process."""
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(TOML)
    for log in ("metrics.jsonl", "ledger.jsonl"):
        (folder / log).write_text("")
    return say(folder, **progress)


def say(folder: Path, **progress: Any) -> Path:
    """What the run is doing."""
    plain = {"state": "running", "doing": "train p2", "round": 0, "best_round": 0, "began": 1e9, "resumed": []}
    here = {"pid": os.getpid(), "host": platform.node(), "beat": time.time()}
    (folder / "progress.json").write_text(json.dumps({**plain, **here, **progress}))
    return folder


def add(folder: Path, round_: int, **more: Any) -> None:
    """A round has ended."""
    written = line(round_, **more)
    with (folder / "ledger.jsonl").open("a") as ledger:
        for name in written["cohort"]:
            ledger.write(json.dumps({"round": round_, "platform": name, "bytes": 500}) + "\n")
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps(written) + "\n")


def finish(folder: Path, best: int) -> None:
    """The run is over."""
    test = {"ap": 0.6123}
    (folder / "result.json").write_text(json.dumps({"metric": "ap", "best_round": best, "test": test}))
    (folder / "report.html").write_text("<!doctype html><title>the report</title><p style='color: red'>done</p>")
    (folder / "progress.json").unlink()


def status(**more: Any) -> dict[str, Any]:
    """What a coordinator says of a run after its third round, in which a platform is asked to train."""
    now = 1_000_000.0
    platforms = {
        "quick": {"bytes": 5_000, "failures": 0, "seen": now - 9, "why": "", "took": 1.0, "rounds": 3},
        "asked": {"bytes": 4_000, "failures": 0, "seen": now - 30, "why": "", "asked": now - 5, "rounds": 3},
        "slow": {"bytes": 4_000, "failures": 0, "seen": now - 90, "why": "", "asked": now - 60, "rounds": 2},
        "strict": {"bytes": 0, "failures": 2, "seen": now - 9, "failed": now - 8, "why": "the platform refuses: no"},
        "broken": {"bytes": 0, "failures": 1, "seen": now - 9, "failed": now - 8, "why": "out of memory"},
        "absent": {"bytes": 0, "failures": 1, "seen": 0.0, "failed": now - 8, "why": "no answer by the deadline"},
        "odd": {"bytes": 9, "failures": 0, "seen": now - 9, "why": "", "suspicions": 1, "suspected": 3},
        "away": {"bytes": 9, "failures": 0, "seen": now - 99, "why": ""},
        "idle": {"bytes": 9, "failures": 0, "seen": now - 99, "why": ""},
    }
    found = {
        "run": "together",
        "state": "running",
        "why": "",
        "round": 3,
        "rounds": 20,
        "metric": "ap",
        "score": 0.25,
        "best_round": 2,
        "doing": "train",
        "beat": now,
        "silent": 0.0,
        "cohort": ["quick", "odd"],
        "platforms": platforms,
        "history": [],
        "events": [
            {"time": now - 8, "round": 3, "what": "no reply used", "platform": "broken", "why": "out of memory"}
        ],
        "result": {},
        "folder": "/srv/runs/together",
    }
    return {**found, **more}


CONNECTED: dict[str, dict[str, Any]] = {name: {} for name in status()["platforms"] if name != "away"}
NOW = 1_000_000.0


@contextmanager
def serving(source: Source, *, token: str | None = None) -> Iterator[str]:
    """The address of a real server, in a thread."""
    app = create_app(source, token=token)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
