"""Faults in real processes: every case ends by a deadline, with the result of an undisturbed run, bit for bit, or with
one that differs only by the replies that were missing.

`pytest -m slow tests/faults -s` prints the table of docs/faults.md.
"""

import os
import signal
import time

import pytest

from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.audit import read as read_audit
from tests.deployment import Deployment
from tests.faults.runs import begin, failures, finish, in_phase, learned, recovery, tell, took_part
from tests.processes import descendants
from tests.wire import Tap

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# The result is that of an undisturbed run: lost work is repeated.
REPEATED = [
    ("coordinator", "run", "score"),
    ("coordinator", "run", "train"),
    ("coordinator", "network", "score"),
    ("coordinator", "network", "train"),
    ("coordinator", "everything", "score"),
    ("coordinator", "everything", "train"),
    ("p1", "network", "score"),
    ("p1", "network", "train"),
]
# A reply is missing in a round; the platform takes part in later ones.
MISSING = [
    ("p1", "worker", "score"),
    ("p1", "worker", "train"),
    ("p1", "everything", "train"),
]
# Whether a reply is missing depends on the moment; the run finishes, with all platforms again.
EITHER = [
    ("p1", "everything", "score"),  # if it had answered already, it has forgotten that when it is to train
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
        same = learned(federation) == uninterrupted
        tell(f"kill -9 of {who} ({what}) in {when}", status, seconds, same)
        if case in REPEATED:
            assert same, f"{status}\n{federation.story()}"
        if case in MISSING:
            assert not same
            # a killed training process costs one reply; a platform that starts anew may miss a few rounds
            failures = status["platforms"]["p1"]["failures"]
            assert failures == 1 if what == "worker" else failures >= 1
        assert status["attempt"] - before["attempt"] == (who == "coordinator" and what != "network"), status
        assert took_part(federation) == {"p0", "p1", "p2"}, status


def test_a_platform_that_leaves_is_not_waited_for(world, tmp_path):
    with Deployment(tmp_path, world) as federation:
        begin(federation, "--set", "engine.deadline=600", "--set", "training.epochs=600", "--set", "training.rounds=3")
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
        assert seconds < 60, seconds  # of its 600
        assert status["platforms"]["p1"]["failures"] >= 1
        assert "it left" in reasons(federation, "p1"), reasons(federation, "p1")
        tell("SIGTERM of p1 in train", status, seconds, False)


def said(federation, name):
    return (federation.folder / f"{name}.log").read_text()


def reasons(federation, name):
    """Why replies of a platform were missing."""
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
        tell(f"SIGSTOP of {who} for 80 s", status, seconds, learned(federation) == uninterrupted)
        if who == "p1":  # the others did not wait until it continued
            assert seconds < 60, seconds
            failed = failures(status)
            assert failed.pop("p1") >= 1, status
            assert not any(failed.values()), status
        else:
            assert took_part(federation) == {"p0", "p1", "p2"}, status


def test_a_connection_that_breaks_for_a_moment(world, uninterrupted, tmp_path):
    """Nothing is lost, and the platform is not even asked again: it sends its reply when it is back."""
    federation = Deployment(tmp_path, world)
    with Tap("localhost", open_kit(federation.kits / "p1").port) as tap:
        about = federation.kits / "p1" / "kit.json"
        about.write_text(about.read_text().replace(str(tap.target[1]), str(tap.port)))
        with federation:
            begin(federation)
            before = federation.wait("run", in_phase("train"))
            worker = federation.processes("p1")["worker"]
            happened = time.monotonic()
            tap.cut()
            time.sleep(4)
            tap.mend()
            seconds = recovery(federation, happened, before["round"])
            status = finish(federation)
            assert learned(federation) == uninterrupted
            assert not any(failures(status).values()), status
            assert federation.processes("p1")["worker"] == worker
            tell("the connection of p1 breaks for 4 s", status, seconds, True)


def misbehaving(tmp_path, world, who, fault):
    federation = Deployment(tmp_path, world)
    federation.inject(who, FEDREL_FAULT=fault, FEDREL_FAULT_DONE=str(tmp_path / "runs" / ".done"))
    return federation


def test_the_coordinator_dies_while_writing_a_checkpoint(world, uninterrupted, tmp_path):
    with misbehaving(tmp_path, world, "coordinator", "checkpoint") as federation:
        begin(federation)
        before = federation.wait("run", lambda status: (tmp_path / "runs" / ".done").exists())
        happened = time.monotonic()
        seconds = recovery(federation, happened, before["round"])
        status = finish(federation)
        assert status["attempt"] == 2
        assert learned(federation) == uninterrupted
        tell("kill -9 of coordinator (run) while writing a checkpoint", status, seconds, True)


SCORES, WEIGHTS = 8, 9  # replies of the fourth round: one to `begin`, then two per round
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
def test_a_platform_with_an_invalid_reply(kind, number, world, tmp_path):
    with misbehaving(tmp_path, world, "p1", f"reply:{kind}:{number}") as federation:
        begin(federation)
        status = finish(federation)
        assert status["platforms"]["p1"]["failures"] == 1, status
        assert status["platforms"]["p1"]["why"].startswith(REFUSED[kind, number]), status
        assert not any(status["platforms"][other]["failures"] for other in ("p0", "p2"))
        tell(f"p1 answers {kind}", status, 0, False)


@pytest.mark.parametrize("kind", ["garbage", "oversize", "field"])
def test_a_platform_with_an_invalid_reply_to_begin_is_left_out(kind, world, tmp_path):
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


def test_an_outlier_is_left_out_and_its_platform_named(world, tmp_path):
    """In the status, in the audit trail, and in the result."""
    with misbehaving(tmp_path, world, "p1", f"reply:noise:{WEIGHTS}") as federation:
        begin(federation)
        status = finish(federation)
        p1 = status["platforms"]["p1"]
        assert (p1["failures"], p1["suspicions"]) == (0, 1), status
        assert p1["suspicion"].startswith("left out: p1, round 4: its update is"), status
        assert list(status["result"]["suspicions"]) == ["p1"]
        assert not any(status["platforms"][other]["suspicions"] for other in ("p0", "p2")), status
        trail = (federation.kits / "coordinator" / "audit.jsonl").read_text()
        assert '"event": "outlier"' in trail
        tell("p1 sends noise", status, 0, False)


def test_a_platform_that_answers_twice(world, uninterrupted, tmp_path):
    with misbehaving(tmp_path, world, "p1", f"reply:twice:{SCORES}") as federation:
        begin(federation)
        status = finish(federation)
        assert learned(federation) == uninterrupted
        tell("p1 answers twice", status, 0, True)


def test_a_full_disk_on_a_platform(world, tmp_path):
    """Nothing is sent that its ledger cannot record; the others continue."""
    with misbehaving(tmp_path, world, "p1", "disk") as federation:
        begin(federation)
        status = finish(federation)
        assert status["platforms"]["p1"]["failures"] > 3
        assert not any(status["platforms"][other]["failures"] for other in ("p0", "p2"))
        tell("full disk on p1", status, 0, False)
