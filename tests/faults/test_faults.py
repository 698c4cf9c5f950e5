"""What can happen to a federation happens to real processes: every case ends by a deadline, and with a result that is
the uninterrupted one, bit for bit, or differs by what a missing platform explains.

`pytest -m slow tests/faults -s` prints the table of docs/faults.md.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from fedrel.federation.checkpoint import load
from fedrel.federation.codec import encode
from tests.deployment import Deployment
from tests.parity.consortium import write_world
from tests.processes import descendants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
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


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("faults") / "world", *SETTINGS)


@pytest.fixture(scope="module")
def uninterrupted(world, tmp_path_factory):
    """What was learnt; the other runs are compared with it, so that it must not have missed a reply itself."""
    with Deployment(tmp_path_factory.mktemp("uninterrupted"), world) as federation:
        federation.train("warm", "training.rounds=1", "engine.deadline=120")  # on a new machine, loops are compiled
        federation.train("run")
        assert not any(failures(federation.status("run")).values())
        return learnt(federation)


def learnt(federation):
    """After the last round: the best one may lie before whatever happened."""
    return encode({"weights": load(federation.runs / "run" / "checkpoint").state["weights"]})


def begin(federation, *arguments):
    federation.submit(str(federation.world / "experiment.toml"), "--name", "run", *arguments)


def in_phase(task, rounds=3):
    return lambda status: status["round"] >= rounds and status["doing"] == task


def finish(federation, seconds=300):
    status = federation.wait("run", lambda status: status["state"] in ENDED, seconds)
    assert status["state"] == "done", f"{status}\n{federation.story()}"
    return status


def failures(status):
    return {name: it["failures"] for name, it in status["platforms"].items()}


def absent(status):
    return [name for name, it in status["platforms"].items() if it["absent"]]


def tell(case, status, seconds, same):
    failed = {name: count for name, count in failures(status).items() if count}
    result = "equal" if same else "without what was missing"
    print(f"| {case} | {status['attempt']} | {failed or '–'} | {seconds:.0f} | {result} |")


def recovery(federation, happened, rounds):
    """Seconds until the next round was done."""
    federation.wait("run", lambda status: status["round"] > rounds or status["state"] in ENDED, 200)
    return time.monotonic() - happened


# The result is that of an uninterrupted run: what was lost is done again.
REPEATED = [
    ("coordinator", "job", "score"),
    ("coordinator", "job", "train_elected"),
    ("coordinator", "nvflare", "score"),
    ("coordinator", "nvflare", "train_elected"),
    ("coordinator", "everything", "score"),
    ("coordinator", "everything", "train_elected"),
    ("p1", "job", "score"),
    ("p1", "job", "train_elected"),
]
# A reply is missing in a round; the platform takes part in later ones.
MISSING = [
    ("p1", "worker", "score"),
    ("p1", "worker", "train_elected"),
]
# Which replies are missing depends on the moment; the run comes to its end, with all platforms again.
EITHER = [
    ("p1", "nvflare", "score"),
    ("p1", "nvflare", "train_elected"),
    ("p1", "everything", "score"),
    ("p1", "everything", "train_elected"),
    ("p1", "everything", "between rounds"),
]


@pytest.mark.parametrize(("who", "what", "when"), [*REPEATED, *MISSING, *EITHER])
def test_killed(who, what, when, world, uninterrupted, tmp_path):
    case = (who, what, when)
    with Deployment(tmp_path, world) as federation:
        # The others go on meanwhile, and must not be done before it is back.
        begin(federation, *(["--set", "training.rounds=40"] if case in EITHER else []))
        wanted = (lambda status: status["round"] >= 3) if when == "between rounds" else in_phase(when)
        before = federation.wait("run", wanted)
        happened = time.monotonic()
        if what == "everything":
            for pid in [federation.nodes[who].pid, *descendants(federation.nodes[who].pid)]:
                os.kill(pid, signal.SIGKILL)
            federation.nodes[who].wait()
            time.sleep(2)
            federation.start(who)
        else:
            federation.kill(who, what)
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        same = learnt(federation) == uninterrupted
        tell(f"kill -9 of {who} ({what}) in {when}", status, seconds, same)
        if case in REPEATED:
            assert same
        if case in MISSING:
            assert not same
            assert status["platforms"]["p1"]["failures"] == 1
            assert "training process ended with signal 9" in status["platforms"]["p1"]["why"]
        assert status["attempt"] - before["attempt"] == (0 if case in MISSING else 1), status
        assert not absent(status), status


@pytest.mark.parametrize("who", ["p1", "coordinator"])
def test_frozen_for_80_seconds(who, world, uninterrupted, tmp_path):
    with Deployment(tmp_path, world) as federation:
        begin(federation)
        before = federation.wait("run", in_phase("train_elected"))
        happened = time.monotonic()
        frozen = [federation.nodes[who].pid, *descendants(federation.nodes[who].pid)]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(80)
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        tell(f"SIGSTOP of {who} for 80 s", status, seconds, learnt(federation) == uninterrupted)
        if who == "p1":  # the others did not wait for it
            failed = failures(status)
            assert failed.pop("p1") >= 1, status
            assert not any(failed.values()), status
        else:
            assert not absent(status), status


def misbehaving(tmp_path, world, who, fault):
    federation = Deployment(tmp_path, world)
    paths = [str(Path(__file__).with_name("injected")), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    faulty = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "FEDREL_FAULT": fault,
        "FEDREL_FAULT_DONE": str(tmp_path / "done"),
    }
    federation.environments[who] = faulty
    return federation


def test_the_coordinator_dies_in_the_middle_of_a_checkpoint(world, uninterrupted, tmp_path):
    with misbehaving(tmp_path, world, "coordinator", "checkpoint") as federation:
        begin(federation)
        before = federation.wait("run", lambda status: (tmp_path / "done").exists())
        happened = time.monotonic()
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        assert status["attempt"] == 2
        assert learnt(federation) == uninterrupted
        tell("kill -9 of coordinator (job) in the middle of a checkpoint", status, seconds, True)


SCORES, WEIGHTS = 8, 9  # of the fourth round: one answer is the introduction, then there are two a round
REFUSED = {
    ("garbage", SCORES): "refused: ",
    ("nan", SCORES): "refused: ballot/score",
    ("field", SCORES): "refused: 'surprise' is not part of this reply",
    ("nan", WEIGHTS): "refused: weights/",
    ("norm", WEIGHTS): "refused: weights/",
    ("shape", WEIGHTS): "refused: weights/",
    ("dtype", WEIGHTS): "refused: weights/",
    ("oversize", WEIGHTS): "refused: ",
}


@pytest.mark.parametrize(("kind", "number"), REFUSED)
def test_a_platform_that_answers_rubbish(kind, number, world, tmp_path):
    with misbehaving(tmp_path, world, "p1", f"reply:{kind}:{number}") as federation:
        begin(federation)
        status = finish(federation)
        assert status["platforms"]["p1"]["failures"] == 1, status
        assert status["platforms"]["p1"]["why"].startswith(REFUSED[kind, number]), status
        assert not any(status["platforms"][other]["failures"] for other in ("p0", "p2"))
        tell(f"p1 answers {kind}", status, 0, False)


def test_a_platform_that_answers_twice(world, uninterrupted, tmp_path):
    with misbehaving(tmp_path, world, "p1", f"reply:twice:{SCORES}") as federation:
        begin(federation)
        status = finish(federation)
        assert learnt(federation) == uninterrupted
        tell("p1 answers twice", status, 0, True)


def test_a_full_disk_on_a_platform(world, tmp_path):
    """What cannot be written into its ledger does not leave it; the others go on."""
    with misbehaving(tmp_path, world, "p1", "disk") as federation:
        begin(federation)
        status = finish(federation)
        assert status["platforms"]["p1"]["failures"] > 3
        assert not any(status["platforms"][other]["failures"] for other in ("p0", "p2"))
        tell("full disk on p1", status, 0, False)
