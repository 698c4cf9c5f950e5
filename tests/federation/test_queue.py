"""Runs take turns, and only what an admin has signed changes that: the node alone, then with all its processes."""

import json
import threading

import pytest

from fedrel.errors import UserError
from fedrel.federation.channel import Blob
from fedrel.federation.https import messages
from fedrel.federation.https.messages import BodyError
from fedrel.federation.https.session import connect
from fedrel.federation.kits.kit import open_kit
from fedrel.federation.nodes.audit import read as read_audit
from fedrel.federation.nodes.coordinator import CoordinatorNode
from fedrel.federation.nodes.status import read_status, status_file, write_status
from fedrel.federation.signing import Command, ForgedError, Signer
from tests.deployment import Deployment
from tests.parity.consortium import write_world

EXPERIMENT = "[training]\nrounds = 1\n"


@pytest.fixture
def node(federation, tmp_path):
    (tmp_path / "runs").mkdir()
    return CoordinatorNode(
        open_kit(federation / "coordinator"), tmp_path / "data", tmp_path / "runs", lambda line: None
    )


def command(node, do, run, experiment="", *, challenge=None, by="admin"):
    kit = open_kit(node.kit.folder.parent / by)
    challenge = node._look(by)["challenge"] if challenge is None else challenge
    envelope = Signer.of(kit).sign(Command(kit.federation, challenge, do, run, experiment))
    return json.dumps(envelope.as_json()).encode()


def submit(node, run, experiment=EXPERIMENT):
    return node._obey("admin", messages.SUBMIT, command(node, "submit", run, experiment))


def stop(node, run):
    return node._obey("admin", messages.STOP, command(node, "stop", run))


def end(node, run, state="done"):
    path = status_file(node.runs, run)
    write_status(path, read_status(path) | {"state": state})


def places(node):
    return {it["run"]: it["place"] for it in node._look("admin")["runs"]}


def test_runs_are_queued_in_the_order_in_which_they_came(node):
    assert [submit(node, run)["place"] for run in ("c", "a", "b")] == [0, 1, 2]
    assert places(node) == {"c": 1, "a": 2, "b": 3}  # none is at work yet
    node.run_at_work = "c"
    assert places(node) == {"c": 0, "a": 1, "b": 2}
    end(node, "c")
    node.run_at_work = ""
    assert [it.run for it in node._queue()] == ["a", "b"]


def test_a_run_that_was_at_work_before_a_crash_goes_on_first(node):
    for run in ("a", "b"):
        submit(node, run)
    end(node, "b", "running")
    assert [it.run for it in node._queue()] == ["b", "a"]


def test_every_run_has_a_number_of_its_own(node):
    submit(node, "a")
    first = read_status(status_file(node.runs, "a"))["run_id"]
    assert len(first) == 32
    end(node, "a", "stopped")
    submit(node, "a", "")
    assert read_status(status_file(node.runs, "a"))["run_id"] == first  # it is the same run
    end(node, "a", "stopped")
    status_file(node.runs, "a").unlink()
    submit(node, "a")
    assert read_status(status_file(node.runs, "a"))["run_id"] != first


def test_a_queued_run_is_stopped_and_gone_on_with(node):
    for run in ("a", "b"):
        submit(node, run)
    assert stop(node, "b") == {"run": "b"}
    assert read_status(status_file(node.runs, "b"))["state"] == "stopped"
    assert [it.run for it in node._queue()] == ["a"]
    with pytest.raises(UserError, match="b is not running"):
        stop(node, "b")
    assert submit(node, "b", "")["place"] == 1
    assert read_status(status_file(node.runs, "b"))["experiment"] == EXPERIMENT


@pytest.mark.parametrize(
    ("state", "experiment", "why"),
    [
        ("queued", EXPERIMENT, "it is running, or waits for its turn"),
        ("queued", "", "it is running, or waits for its turn"),
        ("running", EXPERIMENT, "it is running, or waits for its turn"),
        ("done", EXPERIMENT, "this run is finished; choose another name"),
        ("done", "", "this run is finished; choose another name"),
        ("failed", EXPERIMENT, "there is a run of this name; go on with --resume"),
    ],
)
def test_a_name_stands_for_one_run(node, state, experiment, why):
    submit(node, "a")
    end(node, "a", state)
    with pytest.raises(UserError, match=why):
        submit(node, "a", experiment)


def test_a_folder_that_is_there_is_nobodys_run(node):
    (node.runs / "a").mkdir()
    with pytest.raises(UserError, match="there is a run of this name"):
        submit(node, "a")
    with pytest.raises(UserError, match="the coordinator knows no such run"):
        submit(node, "b", "")


@pytest.mark.parametrize("run", ["../x", "", ".hidden", "a/b", "/etc/passwd", "x" * 81])
def test_a_run_is_called_like_a_folder_of_its_own(node, run):
    with pytest.raises(UserError, match="cannot be the name of a run"):
        submit(node, run)
    assert list(node.runs.iterdir()) == []


def test_a_command_counts_once(node):
    given = command(node, "submit", "a", EXPERIMENT)
    node._obey("admin", messages.SUBMIT, given)
    end(node, "a", "stopped")
    with pytest.raises(ForgedError, match="the command was sent before, or too late"):
        node._obey("admin", messages.SUBMIT, given)
    for challenge in ("", "0" * 32):
        with pytest.raises(ForgedError, match="the command was sent before, or too late"):
            node._obey("admin", messages.SUBMIT, command(node, "submit", "b", EXPERIMENT, challenge=challenge))


def test_a_command_that_waited_too_long_does_not_count(node, monkeypatch):
    given = command(node, "submit", "a", EXPERIMENT)
    node.challenges = {it: since - 1000 for it, since in node.challenges.items()}
    node._look("admin")
    with pytest.raises(ForgedError, match="the command was sent before, or too late"):
        node._obey("admin", messages.SUBMIT, given)


def test_a_command_is_for_what_it_says(node):
    submit(node, "a")
    with pytest.raises(ForgedError, match="signed for something else"):
        node._obey("admin", messages.STOP, command(node, "submit", "a"))
    with pytest.raises(ForgedError, match="signed for something else"):
        node._obey("admin", messages.SUBMIT, command(node, "stop", "b", EXPERIMENT))


@pytest.mark.parametrize("by", ["a", "coordinator"])
def test_nobody_but_an_admin_commands_whoever_carries_it(node, by):
    """The process with the network says who sent it; the signature must agree."""
    given = command(node, "submit", "a", EXPERIMENT, by=by)
    for name in (by, "admin"):
        with pytest.raises(ForgedError, match="signed it, where"):
            node._obey(name, messages.SUBMIT, given)
    with pytest.raises(ForgedError, match="signed it, where"):
        node._obey("someone", messages.SUBMIT, command(node, "submit", "a", EXPERIMENT))


@pytest.mark.parametrize("content", [b"{}", b"[]", b"null", b'{"text": 3}'])
def test_what_is_no_command(node, content):
    with pytest.raises((ForgedError, BodyError)):
        node._obey("admin", messages.SUBMIT, content)


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[" * 100_000, b"1" * 10_000])
def test_what_cannot_be_read_is_refused_and_ends_nothing(node, content, monkeypatch):
    answers = []
    monkeypatch.setattr(CoordinatorNode, "_to_server", lambda self, *it: answers.append(it))
    node._command({"id": 1, "name": "admin", "path": messages.SUBMIT, "address": "127.0.0.1"}, Blob.of(content))
    [(header, payload)] = answers
    assert (header["id"], header["status"]) == (1, 400) and payload.read(9999)
    assert [it["event"] for it in read_audit(node.folder)] == ["refused"]


def test_challenges_do_not_fill_the_memory(node):
    for _ in range(1100):
        node._look("admin")
    assert len(node.challenges) == 1000


def test_a_run_that_never_gets_past_a_round_is_given_up(node, monkeypatch):
    submit(node, "a")
    started = []
    monkeypatch.setattr(CoordinatorNode, "_start", lambda self, status: started.append(status.run))
    node.listening = True
    for _ in range(7):
        node.not_before["conductor"] = 0.0
        node._keep_conductor()
    assert len(started) == 5
    status = read_status(status_file(node.runs, "a"))
    assert status["state"] == "failed" and "started 5 times without getting past round 0" in status["why"]


def test_a_look_shows_the_last_runs_that_ended_and_all_that_did_not(node):
    for number in range(30):
        submit(node, f"r{number}")
        end(node, f"r{number}")
    submit(node, "new")
    shown = [it["run"] for it in node._look("admin")["runs"]]
    assert len(shown) == 21 and shown[0] == "new"


# ------------------------------------------------------------------------------------------ real processes


@pytest.mark.slow
def test_six_runs_submitted_at_once_all_finish_in_their_order(tmp_path):
    world = write_world(tmp_path / "world")
    experiment = (world / "experiment.toml").read_text().replace("rounds = 3", "rounds = 1")
    runs = [f"run{number}" for number in range(6)]
    with Deployment(tmp_path, world, ("p0", "p1")) as federation:
        kit = open_kit(federation.kits / "admin")
        told = {}

        def one(run):
            with connect(kit) as session:
                while True:
                    try:
                        told[run] = session.submit(run, experiment)
                        return
                    except UserError as error:
                        assert "cannot reach the coordinator" in str(error)

        threads = [threading.Thread(target=one, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told.values()) == [0, 1, 2, 3, 4, 5]
        order = sorted(runs, key=lambda run: told[run])
        with connect(kit) as session:
            shown = {it["run"]: it["place"] for it in session.look()["runs"]}
            assert [shown[run] - shown[order[0]] for run in order] == [0, 1, 2, 3, 4, 5]
            session.stop(order[4])
            assert session.state(order[4])["state"] == "stopped"
            session.submit(order[4], "")
            order.append(order.pop(4))  # it goes to the end
            ended = [federation.wait(run, lambda status: status["state"] in ("done", "failed"), 240) for run in order]
    assert [status["state"] for status in ended] == ["done"] * 6, ended
    assert [status["beat"] for status in ended] == sorted(status["beat"] for status in ended)
    assert len({status["run_id"] for status in ended}) == 6
    assert all(status["attempt"] == 1 for status in ended)
