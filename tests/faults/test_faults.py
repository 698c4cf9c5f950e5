"""What can happen to a federation happens to real processes: every case ends by a deadline, and with a result that is
the uninterrupted one, bit for bit, or differs by what a missing platform explains.

`pytest -m slow tests/faults -s` prints the table of docs/faults.md.
"""

import json
import os
import signal
import time

import pytest

from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.audit import read as read_audit
from fedrel.protocol.checkpoint import load
from fedrel.protocol.codec import encode
from tests.deployment import Deployment
from tests.parity.consortium import write_world
from tests.processes import descendants
from tests.wire import Tap

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


def took_part(federation):
    """Whose replies were used in the last round."""
    lines = [json.loads(line) for line in (federation.runs / "run" / "ledger.jsonl").read_text().splitlines()]
    return {line["platform"] for line in lines if line["round"] == lines[-1]["round"]}


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
    ("coordinator", "run", "score"),
    ("coordinator", "run", "train"),
    ("coordinator", "network", "score"),
    ("coordinator", "network", "train"),
    ("coordinator", "everything", "score"),
    ("coordinator", "everything", "train"),
    ("p1", "network", "score"),
    ("p1", "network", "train"),
    ("p1", "everything", "score"),
]
# A reply is missing in a round; the platform takes part in later ones.
MISSING = [
    ("p1", "worker", "score"),
    ("p1", "worker", "train"),
    ("p1", "everything", "train"),
]
# Which replies are missing depends on the moment; the run comes to its end, with all platforms again.
EITHER = [
    ("p1", "everything", "between rounds"),
]


@pytest.mark.parametrize(("who", "what", "when"), [*REPEATED, *MISSING, *EITHER])
def test_killed(who, what, when, world, uninterrupted, tmp_path):
    case = (who, what, when)
    with Deployment(tmp_path, world) as federation:
        begin(federation)
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
            assert same, f"{status}\n{federation.story()}"
        if case in MISSING:
            assert not same
            assert status["platforms"]["p1"]["failures"] == 1
        assert status["attempt"] - before["attempt"] == (who == "coordinator" and what != "network"), status
        assert took_part(federation) == {"p0", "p1", "p2"}, status


def test_a_platform_that_leaves_is_not_waited_for(world, tmp_path):
    with Deployment(tmp_path, world) as federation:
        begin(federation, "--set", "engine.deadline=600", "--set", "training.epochs=60", "--set", "training.rounds=3")
        before = federation.wait("run", in_phase("train", 1))
        for name in ("p0", "p2"):
            os.kill(federation.processes(name)["worker"], signal.SIGSTOP)
        federation.nodes["p1"].terminate()
        happened = time.monotonic()
        status = federation.wait(
            "run", lambda status: "p1 disconnected: it left" in said(federation, "coordinator"), 10
        )
        gone = time.monotonic() - happened
        for name in ("p0", "p2"):
            os.kill(federation.processes(name)["worker"], signal.SIGCONT)
        federation.nodes["p1"].wait(20)
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        assert gone < 3, gone
        assert seconds < 60, seconds  # of 600 that it had
        assert status["platforms"]["p1"]["failures"] >= 1
        assert "it left" in trouble(federation, "p1"), trouble(federation, "p1")
        tell("SIGTERM of p1 in train", status, seconds, False)


def said(federation, name):
    return (federation.folder / f"{name}.log").read_text()


def trouble(federation, name):
    """Why its replies were missing."""
    lines = read_audit(federation.kits / "coordinator")
    return {it["why"] for it in lines if it["event"] == "failure" and it["name"] == name}


@pytest.mark.parametrize("who", ["p1", "coordinator"])
def test_frozen_for_80_seconds(who, world, uninterrupted, tmp_path):
    with Deployment(tmp_path, world) as federation:
        begin(federation)
        before = federation.wait("run", in_phase("train"))
        happened = time.monotonic()
        frozen = [federation.nodes[who].pid, *descendants(federation.nodes[who].pid)]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        seconds = recovery(federation, happened, before["round"]) if who == "p1" else 0.0
        time.sleep(happened + 80 - time.monotonic())
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        if who == "coordinator":
            seconds = recovery(federation, happened + 80, before["round"])
        status = finish(federation)
        tell(f"SIGSTOP of {who} for 80 s", status, seconds, learnt(federation) == uninterrupted)
        if who == "p1":  # the others did not wait for its end
            assert seconds < 60, seconds
            failed = failures(status)
            assert failed.pop("p1") >= 1, status
            assert not any(failed.values()), status
        else:
            assert took_part(federation) == {"p0", "p1", "p2"}, status


def test_a_connection_that_breaks_for_a_moment(world, uninterrupted, tmp_path):
    """Nothing is lost, and the platform is not even asked again: it brings its answer when it is back."""
    federation = Deployment(tmp_path, world)
    with Tap("localhost", open_kit(federation.kits / "p1").port) as line:
        about = federation.kits / "p1" / "kit.json"
        about.write_text(about.read_text().replace(str(line.target[1]), str(line.port)))
        with federation:
            begin(federation)
            before = federation.wait("run", in_phase("train"))
            worker = federation.processes("p1")["worker"]
            happened = time.monotonic()
            line.cut()
            time.sleep(4)
            line.mend()
            seconds = recovery(federation, happened, before["round"])
            status = finish(federation)
            assert learnt(federation) == uninterrupted
            assert not any(failures(status).values()), status
            assert federation.processes("p1")["worker"] == worker
            tell("the connection of p1 breaks for 4 s", status, seconds, True)


def misbehaving(tmp_path, world, who, fault):
    federation = Deployment(tmp_path, world)
    federation.inject(who, FEDREL_FAULT=fault, FEDREL_FAULT_DONE=str(tmp_path / "runs" / ".done"))
    return federation


def test_the_coordinator_dies_in_the_middle_of_a_checkpoint(world, uninterrupted, tmp_path):
    with misbehaving(tmp_path, world, "coordinator", "checkpoint") as federation:
        begin(federation)
        before = federation.wait("run", lambda status: (tmp_path / "runs" / ".done").exists())
        happened = time.monotonic()
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        assert status["attempt"] == 2
        assert learnt(federation) == uninterrupted
        tell("kill -9 of coordinator (run) in the middle of a checkpoint", status, seconds, True)


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


@pytest.mark.parametrize("kind", ["garbage", "oversize", "field"])
def test_a_platform_that_joins_with_rubbish_is_left_out(kind, world, tmp_path):
    with misbehaving(tmp_path, world, "p1", f"begin:{kind}") as federation:
        begin(federation, "--set", "training.rounds=2")
        status = finish(federation)
        mine = status["platforms"]["p1"]
        assert mine["failures"] >= 5, status
        wanted = (
            "bytes where at most 65,536 were expected" if kind == "oversize" else "in a way that nobody understands"
        )
        assert wanted in mine["why"], status
        assert took_part(federation) == {"p0", "p2"}
        assert not any(status["platforms"][other]["failures"] for other in ("p0", "p2"))
        tell(f"p1 joins with {kind}", status, 0, False)


def test_an_update_that_is_out_of_line_is_left_out_and_its_platform_named(world, tmp_path):
    """In the status, in the audit trail, and in the result."""
    with misbehaving(tmp_path, world, "p1", f"reply:noise:{WEIGHTS}") as federation:
        begin(federation)
        status = finish(federation)
        p1 = status["platforms"]["p1"]
        assert (p1["failures"], p1["suspicions"]) == (0, 1), status
        assert p1["suspicion"].startswith("left out: p1, round 4: its update is"), status
        assert list(status["result"]["suspicions"]) == ["p1"]
        assert not any("suspicions" in status["platforms"][other] for other in ("p0", "p2"))
        trail = (federation.kits / "coordinator" / "audit.jsonl").read_text()
        assert '"event": "outlier"' in trail
        tell("p1 sends noise", status, 0, False)


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
