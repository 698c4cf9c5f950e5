"""The bridge between a node and FLARE's job: who may connect, what it passes on, and what a hostile relay cannot do."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from fedrel.errors import UserError
from fedrel.federation.channel import Blob, Channel, ClosedError
from fedrel.federation.nodes.relay import relay
from fedrel.federation.nvflare import bridge, job, site
from fedrel.federation.nvflare.node_link import VARIABLE, NodeLink, NoSocketError, socket_path

HEAD = {"text": "{}", "certificate": "c", "signature": "s"}


@pytest.fixture
def start(tmp_path):
    """A bridge in a thread, our end of its channel, and a way to connect to it."""
    threads, ends = [], []
    with tempfile.TemporaryDirectory() as short, contextlib.ExitStack() as stack:

        def begin(side, *, users=None):
            node, theirs = Channel.pair()
            listener = stack.enter_context(bridge.listen(Path(short), own=True))
            told = {"users": [os.getuid()] if users is None else users, "spool": str(tmp_path), "name": "p0"}
            thread = threading.Thread(target=side(Channel(theirs), listener, told).run, daemon=True)
            thread.start()
            threads.append((node, thread))
            ends.append(theirs)

            def connect():
                end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                end.connect(str(Path(short) / bridge.SOCKET))
                ends.append(Channel(end))
                return ends[-1]

            return node, connect

        yield begin
        for node, thread in threads:
            with contextlib.suppress(ClosedError):
                node.send({"do": "end"})
            thread.join(5)
            assert not thread.is_alive()
            node.close()
        for end in ends:
            end.close()


def heard(channel, **wanted):
    """The next message with these fields; others are skipped."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        message = channel.receive(until - time.monotonic())
        assert message is not None, wanted
        if all(message.header.get(key) == value for key, value in wanted.items()):
            return message
    raise AssertionError(wanted)


def test_a_request_reaches_the_platforms_node_and_its_reply_comes_back(start):
    node, connect = start(bridge.PlatformSide)
    heard(node, do="state", state="no FLARE job is connected")
    flare = connect()
    hello = heard(flare, do="hello", name="p0")
    assert len(hello.header["session"]) == 32
    flare.send({"do": "state", "state": "connected"})
    heard(node, do="state", state="connected")
    flare.send({"do": "request", "id": 7, "head": HEAD}, Blob.of(b"question"))
    request = heard(node, do="request", id=7)
    assert request.header["head"] == HEAD
    assert request.payload.read(100) == b"question"
    node.send({"do": "reply", "id": 6, "head": {}}, Blob.of(b"late"))
    heard(node, do="unwanted", id=6)
    node.send({"do": "reply", "id": 7, "head": {"envelope": HEAD}}, Blob.of(b"answer"))
    reply = heard(flare, do="reply", id=7)
    assert reply.payload.read(100) == b"answer"
    node.send({"do": "reply", "id": 7, "head": {}}, Blob.of(b"twice"))
    heard(node, do="unwanted", id=7)


def test_flare_gets_a_copy_of_a_payload(start):
    node, connect = start(bridge.PlatformSide)
    flare = connect()
    heard(flare, do="hello")
    question = Blob.of(b"question")
    flare.send({"do": "request", "id": 1, "head": HEAD}, question)
    arrived = heard(node, do="request").payload
    os.pwrite(question.descriptor, b"QUESTION", 0)
    assert arrived.read(100) == b"question"
    answer = Blob.of(b"answer")
    node.send({"do": "reply", "id": 1, "head": {}}, answer)
    theirs = heard(flare, do="reply").payload
    os.pwrite(theirs.descriptor, b"ANSWER", 0)
    assert answer.read(100) == b"answer"


def test_a_process_of_another_user_is_disconnected_unread(start):
    node, connect = start(bridge.PlatformSide, users=[os.getuid() + 1])
    stranger = connect()
    with contextlib.suppress(ClosedError):
        stranger.send({"do": "request", "id": 1, "head": HEAD}, Blob.of(b""))
    assert f"user {os.getuid()}" in heard(node, do="refused").header["why"]
    with pytest.raises(ClosedError):
        while stranger.receive(5) is not None:
            pass
    assert node.receive(0.2) is None


@pytest.mark.parametrize(
    "nonsense",
    [
        {"do": "request", "id": "1", "head": HEAD},
        {"do": "request", "id": 1, "head": "text"},
        {"do": "reply", "id": 1, "head": {}},
        {"do": "end"},
        {"do": 7},
        {},
    ],
)
def test_an_invalid_message_disconnects_the_relay(start, nonsense):
    node, connect = start(bridge.PlatformSide)
    flare = connect()
    heard(flare, do="hello")
    flare.send(nonsense, Blob.of(b"x"))
    message = heard(node, do="state", state="no FLARE job is connected") and node.receive(5)
    assert "sent an invalid message" in message.header["state"]
    assert heard(connect(), do="hello")  # the next relay is accepted


def test_a_payload_that_is_not_a_regular_file_is_not_read(start):
    node, connect = start(bridge.PlatformSide)
    flare = connect()
    reading, writing = os.pipe()
    flare.send({"do": "request", "id": 1, "head": HEAD}, Blob(reading))
    heard(node, do="state", state="no FLARE job is connected")
    assert "sent an invalid message" in node.receive(5).header["state"]
    os.close(writing)


def test_a_new_relay_replaces_the_old(start):
    node, connect = start(bridge.PlatformSide)
    old = connect()
    heard(old, do="hello")
    new = connect()
    heard(new, do="hello")
    with pytest.raises(ClosedError):
        old.receive(5)
    new.send({"do": "request", "id": 1, "head": HEAD}, Blob.of(b""))
    heard(node, do="request", id=1)


# ------------------------------------------------------------------------------------------------ at the coordinator


def tell_members(node, members):
    node.send({"do": "members"}, Blob.of(json.dumps({"members": members, "revoked": []}).encode()))


@pytest.fixture
def coordinator(start):
    node, connect = start(bridge.CoordinatorSide)
    members = {"p0": "platform", "p1": "platform", "admin": "admin"}
    tell_members(node, members)
    time.sleep(0.1)
    flare = connect()
    heard(node, do="relay", here=True)
    return node, flare


def here(flare, name, session="s1"):
    flare.send({"do": "here", "name": name, "session": session, "address": "site", "version": "1"})


def test_the_coordinator_asks_and_is_answered(coordinator):
    node, flare = coordinator
    here(flare, "p0")
    assert heard(node, do="here", name="p0").header["address"] == "FLARE site site"
    node.send({"do": "ask", "to": "p0", "id": 3, "head": HEAD, "most": 10}, Blob.of(b"question"))
    assert heard(flare, do="ask", id=3, to="p0").payload.read(100) == b"question"
    flare.send({"do": "delivered", "name": "p0", "id": 3})
    heard(node, do="delivered", id=3)
    flare.send({"do": "reply", "name": "p0", "id": 2, "head": {}}, Blob.of(b"old"))
    flare.send({"do": "reply", "name": "p1", "id": 3, "head": {}}, Blob.of(b"another's"))
    flare.send({"do": "reply", "name": "p0", "id": 3, "head": {"envelope": HEAD}}, Blob.of(b"answer"))
    reply = node.receive(5)
    assert reply.header == {"do": "reply", "name": "p0", "id": 3, "head": {"envelope": HEAD}}
    assert reply.payload.read(100) == b"answer"
    flare.send({"do": "reply", "name": "p0", "id": 3, "head": {}}, Blob.of(b"twice"))
    node.send({"do": "drop", "to": "p0", "id": 3})
    heard(flare, do="drop", id=3)
    assert node.receive(0.2) is None


def test_a_reply_that_is_too_large_is_not_stored(coordinator):
    node, flare = coordinator
    here(flare, "p0")
    node.send({"do": "ask", "to": "p0", "id": 1, "head": HEAD, "most": 10}, Blob.of(b""))
    flare.send({"do": "reply", "name": "p0", "id": 1, "head": {"envelope": HEAD}}, Blob.of(b"x" * 11))
    reply = heard(node, do="reply", id=1)
    assert reply.header["head"] == {"refused": "11 bytes where at most 10 were expected"}
    assert reply.payload is None


@pytest.mark.parametrize("name", ["admin", "nobody", "x" * 5000])
def test_a_name_that_is_not_a_platforms_is_refused(coordinator, name):
    node, flare = coordinator
    here(flare, name)
    assert "list of members" in heard(node, do="refused").header["why"]
    assert node.receive(0.2) is None


def test_a_revoked_platform_is_gone_and_all_are_when_the_job_ends(coordinator):
    node, flare = coordinator
    for name in ("p0", "p1"):
        here(flare, name)
        heard(node, do="here", name=name)
    tell_members(node, {"p0": "platform"})
    assert heard(node, do="gone", name="p1").header["why"] == "revoked"
    flare.close()
    assert "the FLARE job has gone" in heard(node, do="gone", name="p0").header["why"]
    heard(node, do="relay", here=False)


# ------------------------------------------------------------------------------------------------ set-up


def test_the_relay_reconnects_to_a_restarted_node():
    heard_of, changes = [], []
    with tempfile.TemporaryDirectory() as short:
        link = NodeLink(Path(short) / bridge.SOCKET, heard_of.append, changes.append)
        link.start()
        assert not link.send({"do": "here"})
        for _ in range(2):
            with bridge.listen(Path(short), own=True) as listener:
                connection, _ = listener.accept()
                Channel(connection).send({"do": "hello"})
                until = time.monotonic() + 5
                while not heard_of and time.monotonic() < until:
                    time.sleep(0.01)
                assert heard_of.pop().header == {"do": "hello"}
                connection.close()
        link.close()
    assert changes[:3] == [True, False, True]


def test_where_the_node_is(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(NoSocketError):
        socket_path(tmp_path)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "fedrel.json").write_text('{"relay": "/a/relay.sock"}')
    assert socket_path(tmp_path) == Path("/a/relay.sock")
    monkeypatch.setenv(VARIABLE, "/b/relay.sock")
    assert socket_path(tmp_path) == Path("/b/relay.sock")


def test_a_folder_of_another_user_needs_a_place_outside_the_kit(tmp_path):
    other = str(os.getuid() + 1)
    kit, data = tmp_path / "kit", tmp_path / "data"
    for folder in (kit, data):
        folder.mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    assert relay(kit, None, None).own
    assert "anyone with a certificate" in relay(kit, None, None).warnings([kit])[0]
    foreign = relay(kit, tmp_path / "out", other)
    assert foreign.warnings([kit, data]) == []
    for arguments in ((None, other), (tmp_path / "kit" / "in", None), (tmp_path / ("x" * 120), None), (None, "no one")):
        with pytest.raises(UserError):
            relay(kit, *arguments)


def test_text_that_flare_could_read_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "parents", property(lambda self: ()))  # those of the test are closed
    data, file = tmp_path / "data", tmp_path / "train.jsonl"
    data.mkdir(mode=0o755)
    file.touch()
    file.chmod(0o644)
    foreign = relay(tmp_path / "kit", tmp_path / "out", str(os.getuid() + 1))
    assert len(foreign.warnings([data, file])) == 2
    data.chmod(0o700)
    file.chmod(0o600)
    assert foreign.warnings([data, file]) == []


def test_a_socket_for_our_own_user_is_closed_to_others(tmp_path):
    with tempfile.TemporaryDirectory() as short:
        folder = Path(short) / "in"
        for own, modes in ((True, (0o700, 0o600)), (False, (0o711, 0o666))):
            with bridge.listen(folder, own=own):
                found = (folder.stat().st_mode & 0o777, (folder / bridge.SOCKET).stat().st_mode & 0o777)
                assert found == modes


def test_the_job_names_classes_that_exist_and_carries_no_code(fedrel, tmp_path):
    pytest.importorskip("nvflare")
    assert fedrel("nvflare", "job", "--out", tmp_path / "job").code == 0
    files = [path for path in (tmp_path / "job").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json"}
    for name in (job.CONTROLLER, job.EXECUTOR):
        module, _, cls = name.rpartition(".")
        assert (Path(bridge.__file__).parent / f"{module.rpartition('.')[2]}.py").read_text().count(
            f"class {cls}("
        ) == 1
    assert fedrel("nvflare", "job", "--out", tmp_path / "job").code == 2


@pytest.mark.parametrize("kind, wanted", [("server", job.CONTROLLER), ("client", job.EXECUTOR)])
def test_a_site_is_told_of_the_socket_and_the_class(fedrel, tmp_path, kind, wanted):
    for name in ("local", "startup"):
        (tmp_path / name).mkdir()
    (tmp_path / "startup" / f"fed_{kind}.json").write_text("{}")
    default = tmp_path / "local" / "resources.json.default"
    default.write_text('{"class_allow_list": ["a.B"], "more": 1}')
    for _ in range(2):
        assert fedrel("nvflare", "site", tmp_path, "--relay", "/run/fedrel/relay.sock").code == 0
    found = site._read(tmp_path / "local" / "resources.json")
    assert found == {"class_allow_list": ["a.B", wanted], "more": 1}
    assert socket_path(tmp_path) == Path("/run/fedrel/relay.sock")
    assert default.read_text().count(wanted) == 0


def test_a_folder_that_is_not_a_startup_kit_is_refused(refused, tmp_path):
    assert "not a startup kit" in refused("nvflare", "site", tmp_path, "--relay", "/run/relay.sock")
