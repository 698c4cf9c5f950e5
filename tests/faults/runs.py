"""Runs that faults are injected into: their settings, and how tests start, watch and compare them."""

import json
import time

from fedrel.protocol.checkpoint import load
from fedrel.protocol.codec import encode

SETTINGS = [
    "data.size=3000",
    "training.rounds=8",
    "training.epochs=6",
    "partition.server=0",
    "method.name=lazy-mil",
    "method.warmup=0",
    "extractor.filters=64",
    "extractor.embeddings=trainable",
    "engine.deadline=15",
    "engine.min_platforms=2",
]
ENDED = ("done", "failed", "stopped")


def learned(federation):
    """The weights after the last round; the best round may be before the fault."""
    return encode({"weights": load(federation.runs / "run" / "checkpoint").state["weights"]})


def begin(federation, *arguments):
    """Submits the run."""
    federation.submit(str(federation.world / "experiment.toml"), "--name", "run", *arguments)


def in_phase(task, rounds=3):
    """Whether a status shows this task after so many rounds."""
    return lambda status: status["round"] >= rounds and status["doing"] == task


def finish(federation, seconds=300):
    """Waits for the end of the run, which must succeed, and returns its status."""
    status = federation.wait("run", lambda status: status["state"] in ENDED, seconds)
    assert status["state"] == "done", f"{status}\n{federation.story()}"
    return status


def failures(status):
    """The number of failures of each platform."""
    return {name: it["failures"] for name, it in status["platforms"].items()}


def took_part(federation):
    """The platforms whose replies were used in the last round."""
    lines = [json.loads(line) for line in (federation.runs / "run" / "ledger.jsonl").read_text().splitlines()]
    return {line["platform"] for line in lines if line["round"] == lines[-1]["round"]}


def tell(case, status, seconds, same):
    """Prints a row of the table of docs/faults.md."""
    failed = {name: count for name, count in failures(status).items() if count}
    result = "equal" if same else "without what was missing"
    print(f"| {case} | {status['attempt']} | {failed or '–'} | {seconds:.0f} | {result} |")


def recovery(federation, happened, rounds):
    """Seconds from the fault until the next round was finished."""
    federation.wait("run", lambda status: status["round"] > rounds or status["state"] in ENDED, 200)
    return time.monotonic() - happened
