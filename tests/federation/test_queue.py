"""Runs are queued, and only commands that an admin has signed change the queue: the node alone, then real processes."""

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
from fedrel.federation.nodes.run_queue import RunQueue
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
    challenge = node.admins.look(by)["challenge"] if challenge is None else challenge
    envelope = Signer.of(kit).sign(Command(kit.federation, challenge, do, run, experiment))
    return json.dumps(envelope.as_json()).encode()


def submit(node, run, experiment=EXPERIMENT):
    return node.admins.obey("admin", messages.SUBMIT, command(node, "submit", run, experiment))


def stop(node, run):
    return node.admins.obey("admin", messages.STOP, command(node, "stop", run))


def end(node, run, state="done"):
    path = status_file(node.runs, run)
    write_status(path, read_status(path) | {"state": state})


def places(node):
    return {it["run"]: it["place"] for it in node.admins.look("admin")["runs"]}


def test_runs_are_queued_in_the_order_of_submission(node):
    assert [submit(node, run)["place"] for run in ("c", "a", "b")] == [0, 1, 2]
    assert places(node) == {"c": 1, "a": 2, "b": 3}  # none is running yet
    node.queue.at_work = "c"
    assert places(node) == {"c": 0, "a": 1, "b": 2}
    end(node, "c")
    node.queue.at_work = ""
    assert [it.run for it in node.queue.runs()] == ["a", "b"]


def test_a_run_that_was_running_before_a_crash_is_resumed_first(node):
    for run in ("a", "b"):
        submit(node, run)
    end(node, "b", "running")
    assert [it.run for it in node.queue.runs()] == ["b", "a"]


def test_every_run_has_its_own_id(node):
    submit(node, "a")
    first = read_status(status_file(node.runs, "a"))["run_id"]
    assert len(first) == 32
    end(node, "a", "stopped")
    submit(node, "a", "")
    assert read_status(status_file(node.runs, "a"))["run_id"] == first  # the same run
    end(node, "a", "stopped")
    status_file(node.runs, "a").unlink()
    submit(node, "a")
    assert read_status(status_file(node.runs, "a"))["run_id"] != first


def test_a_queued_run_is_stopped_and_resumed(node):
    for run in ("a", "b"):
        submit(node, run)
    assert stop(node, "b") == {"run": "b"}
    assert read_status(status_file(node.runs, "b"))["state"] == "stopped"
    assert [it.run for it in node.queue.runs()] == ["a"]
    with pytest.raises(UserError, match="b is not running"):
        stop(node, "b")
    assert submit(node, "b", "")["place"] == 1
    assert read_status(status_file(node.runs, "b"))["experiment"] == EXPERIMENT


@pytest.mark.parametrize(
    ("state", "experiment", "why"),
    [
        ("queued", EXPERIMENT, "this run is already running or queued"),
        ("queued", "", "this run is already running or queued"),
        ("running", EXPERIMENT, "this run is already running or queued"),
        ("done", EXPERIMENT, "this run is finished; choose another name"),
        ("done", "", "this run is finished; choose another name"),
        ("failed", EXPERIMENT, "there is a run with this name; resume it with --resume"),
    ],
)
def test_a_name_is_used_for_one_run(node, state, experiment, why):
    submit(node, "a")
    end(node, "a", state)
    with pytest.raises(UserError, match=why):
        submit(node, "a", experiment)


def test_an_existing_folder_is_not_overwritten(node):
    (node.runs / "a").mkdir()
    with pytest.raises(UserError, match="there is a run with this name"):
        submit(node, "a")
    with pytest.raises(UserError, match="the coordinator has no such run"):
        submit(node, "b", "")


@pytest.mark.parametrize("run", ["../x", "", ".hidden", "a/b", "/etc/passwd", "x" * 81])
def test_the_name_of_a_run_must_work_as_a_folder(node, run):
    with pytest.raises(UserError, match="cannot be the name of a run"):
        submit(node, run)
    assert list(node.runs.iterdir()) == []


def test_a_command_counts_once(node):
    given = command(node, "submit", "a", EXPERIMENT)
    node.admins.obey("admin", messages.SUBMIT, given)
    end(node, "a", "stopped")
    with pytest.raises(ForgedError, match="challenge was already used or has expired"):
        node.admins.obey("admin", messages.SUBMIT, given)
    for challenge in ("", "0" * 32):
        with pytest.raises(ForgedError, match="challenge was already used or has expired"):
            node.admins.obey("admin", messages.SUBMIT, command(node, "submit", "b", EXPERIMENT, challenge=challenge))


def test_an_expired_command_is_refused(node, monkeypatch):
    given = command(node, "submit", "a", EXPERIMENT)
    node.admins.challenges = {it: since - 1000 for it, since in node.admins.challenges.items()}
    node.admins.look("admin")
    with pytest.raises(ForgedError, match="challenge was already used or has expired"):
        node.admins.obey("admin", messages.SUBMIT, given)


def test_a_command_is_valid_only_for_what_it_says(node):
    submit(node, "a")
    with pytest.raises(ForgedError, match="signed for something else"):
        node.admins.obey("admin", messages.STOP, command(node, "submit", "a"))
    with pytest.raises(ForgedError, match="signed for something else"):
        node.admins.obey("admin", messages.SUBMIT, command(node, "stop", "b", EXPERIMENT))


@pytest.mark.parametrize("by", ["a", "coordinator"])
def test_only_an_admins_signature_counts(node, by):
    """The network process says who sent a command; the signature must agree."""
    given = command(node, "submit", "a", EXPERIMENT, by=by)
    for name in (by, "admin"):
        with pytest.raises(ForgedError, match="signed it instead of"):
            node.admins.obey(name, messages.SUBMIT, given)
    with pytest.raises(ForgedError, match="signed it instead of"):
        node.admins.obey("someone", messages.SUBMIT, command(node, "submit", "a", EXPERIMENT))


@pytest.mark.parametrize("content", [b"{}", b"[]", b"null", b'{"text": 3}'])
def test_invalid_commands_are_refused(node, content):
    with pytest.raises((ForgedError, BodyError)):
        node.admins.obey("admin", messages.SUBMIT, content)


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[" * 100_000, b"1" * 10_000])
def test_an_unreadable_command_is_refused_and_the_node_survives(node, content, monkeypatch):
    answers = []
    monkeypatch.setattr(CoordinatorNode, "_to_server", lambda self, *it: answers.append(it))
    node._command({"id": 1, "name": "admin", "path": messages.SUBMIT, "address": "127.0.0.1"}, Blob.of(content))
    [(header, payload)] = answers
    assert (header["id"], header["status"]) == (1, 400) and payload.read(9999)
    assert [it["event"] for it in read_audit(node.folder)] == ["refused"]


def test_the_number_of_challenges_is_limited(node):
    for _ in range(1100):
        node.admins.look("admin")
    assert len(node.admins.challenges) == 1000


def test_a_run_that_never_gets_past_a_round_is_given_up(node, monkeypatch):
    submit(node, "a")
    started = []
    monkeypatch.setattr(RunQueue, "_start", lambda self, status: started.append(status.run))
    for _ in range(7):
        node.queue.not_before = 0.0
        node.queue.keep()
    assert len(started) == 5
    status = read_status(status_file(node.runs, "a"))
    assert status["state"] == "failed" and "started 5 times without getting past round 0" in status["why"]


def test_the_status_shows_all_unfinished_runs_and_the_last_finished_ones(node):
    for number in range(30):
        submit(node, f"r{number}")
        end(node, f"r{number}")
    submit(node, "new")
    shown = [it["run"] for it in node.admins.look("admin")["runs"]]
    assert len(shown) == 21 and shown[0] == "new"


# ------------------------------------------------------------------------------------------ real processes


@pytest.mark.slow
def test_six_runs_submitted_at_once_finish_in_order(tmp_path):
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
