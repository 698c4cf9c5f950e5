"""Who may say what to the coordinator's process with the network, and what it never takes in. The test is its node."""

import contextlib
import json
import shutil
import socket
import threading
import time
from datetime import timedelta

import pytest

from fedrel.federation.channel import Blob
from fedrel.federation.https import messages
from fedrel.federation.https.client import Answer, Fetched, Link, UnreachableError
from fedrel.federation.kits import provisioning
from fedrel.federation.kits.kit import open_kit
from tests.deployment import free_port
from tests.door import SESSION, Door, why
from tests.kits import certificate_in, certify, take

MESSAGES = [*messages.ROLES, ("POST", f"{messages.REPLY}1")]


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door")
    provisioning.new(folder / "kits", host="localhost", port=free_port(), platforms=["a", "b", "c"])
    provisioning.add(folder / "kits", "eve", "viewer")
    with Door(folder / "kits", folder) as opened:
        yield opened


@pytest.fixture(autouse=True)
def hang_up(door):
    yield
    door.hang_up()


@pytest.fixture
def call(door):
    return lambda kit, method, path, body=b"{}": door.link(kit).call(method, path, body)


def heard(door, kit, method, path):
    """What somebody is told; the node says yes to every command that gets past the door."""
    answers = []
    link = door.link(kit)
    thread = threading.Thread(target=lambda: answers.append(link.call(method, path, b"{}")))
    thread.start()
    while thread.is_alive():
        with contextlib.suppress(AssertionError):
            told = door.hear("command", 0.05)
            assert (told.header["name"], told.header["path"]) == (kit, path)
            answer = {"do": "answer", "id": told.header["id"], "status": 200}
            door.child.channel.send(answer, Blob.of(b"{}"))
    return answers[0]


@pytest.mark.parametrize("kit", ["a", "admin", "eve"])
@pytest.mark.parametrize(("method", "path"), MESSAGES, ids=lambda it: str(it))
def test_every_message_is_for_some_roles_alone(door, kit, method, path):
    known = messages.REPLY if path.startswith(messages.REPLY) else path
    role = {"a": "platform", "admin": "admin", "eve": "viewer"}[kit]
    answer = heard(door, kit, method, path)
    if role not in messages.ROLES[method, known]:
        assert why(answer) == f"403 {known} is not for a {role}"
    else:
        assert answer.status != 403, why(answer)


def test_a_platform_only_brings_and_fetches_and_a_viewer_only_looks():
    may = {
        role: {path for (_, path), roles in messages.ROLES.items() if role in roles} for role in ("platform", "viewer")
    }
    assert may == {"platform": {messages.POLL, messages.REPLY, messages.LEAVE}, "viewer": {messages.STATUS}}
    assert not any("coordinator" in roles for roles in messages.ROLES.values())


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", "/"), ("GET", "/v1/poll"), ("POST", "/v1/status"), ("PUT", "/v1/submit"), ("DELETE", "/v1/stop")),
        *(("POST", "/v1/submit/"), ("POST", "/v1/poll?x=1"), ("GET", "/etc/passwd"), ("GET", "/v1/../etc/passwd")),
        *(("POST", "/V1/poll"), ("POST", "//v1/poll"), ("CONNECT", "localhost:22"), ("POST", "/v1/reply")),
    ],
)
def test_there_are_six_messages_and_no_other(call, method, path):
    answer = call("a", method, path)
    assert answer.status in (400, 403, 404, 405), answer


def test_whoever_is_no_member_is_told_so(door, tmp_path):
    provisioning.add(door.kits, "late", "platform")
    answer = door.link("late").call("POST", messages.POLL, b"{}")
    assert why(answer) == "403 late (platform) is not among the members that the coordinator knows"
    assert not answer.final
    door.hear("refused", name="late")
    door.tell_members()
    assert door.link("late").call("POST", messages.POLL, b"{}").status == 400


def test_the_same_name_in_another_role_is_another(door, tmp_path):
    """A platform's key with an admin's certificate of the same name, had somebody made one."""
    posing = shutil.copytree(door.kits / "a", tmp_path / "a")
    certify(door.kits, posing, since=timedelta(days=-1), until=timedelta(days=9), role="admin")
    assert "not among the members" in why(door.link(posing).call("GET", messages.STATUS))


# ------------------------------------------------------------------------------------- platforms come and go


@pytest.fixture
def platform(door):
    """A connected platform, and its link."""
    link, fetched = door.link("b"), []
    thread = threading.Thread(target=lambda: fetched.append(door.poll(link)))
    thread.start()
    door.hear("here", name="b")
    door.ask("b", 1)
    thread.join()
    [found] = fetched
    assert isinstance(found, Fetched) and found.payload.read(100) == b"question" and found.head == {"n": 1}
    yield link
    link.call("POST", messages.LEAVE, json.dumps({"session": SESSION}).encode())
    door.hear("gone", name="b")
    door.past.clear()


def test_a_reply_is_passed_on_once(door, platform):
    assert platform.reply(1, {"answer": "yes"}, Blob.of(b"content")).status == 200
    told = door.hear("reply", name="b", id=1)
    assert told.header["head"] == {"answer": "yes"} and told.payload.read(100) == b"content"
    for number in (1, 2, 10**17):
        assert why(platform.reply(number, {}, Blob.of(b""))) == "409 an answer that nobody waits for"


def test_a_request_that_was_withdrawn_needs_no_answer(door, platform):
    door.child.channel.send({"do": "drop", "to": "b", "id": 1})
    time.sleep(0.1)
    assert why(platform.reply(1, {}, Blob.of(b""))) == "409 an answer that nobody waits for"


def test_one_platform_cannot_answer_for_another(door, platform):
    link = door.link("c")
    assert why(link.reply(1, {"answer": "forged"}, Blob.of(b""))) == "409 an answer that nobody waits for"


def test_too_much_is_refused_before_it_is_read(door, platform):
    """The line of the server's own disk: not a byte of it is kept."""
    answer = platform.reply(1, {}, Blob.of(b"x" * (messages.MOST_HEAD + 10_000)))
    assert why(answer).startswith("413 ") and "bytes where at most 100 were expected" in why(answer)
    told = door.hear("reply", name="b", id=1)
    assert "bytes where at most 100 were expected" in told.header["head"]["refused"] and told.payload is None


@pytest.mark.parametrize("body", [b"", b"\0\0", b"\xff\xff\xff\xff", b"\x02\0\0\0[]", b"\x02\0\0\0{", b"\x01\0\0\0{"])
def test_a_reply_that_is_none(door, platform, body):
    answer = platform.call("POST", f"{messages.REPLY}1", body)
    assert why(answer).startswith(("400 a head", "400 a body"))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"{", b'{"session": "x", "have": 0, "version": ""}', b'{"session": 3, "have": 0}']
)
def test_a_poll_that_is_none(call, body):
    assert call("c", "POST", messages.POLL, body).status == 400


def test_a_kit_that_is_in_use_twice(door, platform):
    again = door.link("b")
    assert why(door.poll(again, session="f" * 32)) == "409 another node runs with the kit of b; stop it first"


def test_a_connection_that_breaks_is_noticed_at_once(door):
    link = door.link("c")

    def poll():
        with pytest.raises(UnreachableError):
            door.poll(link)

    thread = threading.Thread(target=poll)
    thread.start()
    door.hear("here", name="c")
    began = time.monotonic()
    link._connection.sock.shutdown(socket.SHUT_RDWR)
    assert door.hear("gone", name="c").header["why"] == "the connection broke"
    assert time.monotonic() - began < 2
    thread.join()


def test_a_message_that_is_too_long_to_be_one(call):
    assert call("admin", "POST", messages.SUBMIT, b"x" * (messages.MOST_COMMAND + 1)).status == 413
    assert call("c", "POST", messages.LEAVE, b"x" * (messages.MOST_HEAD + 1)).status == 413


# ---------------------------------------------------------------------------------- certificates in use


def test_strangers_do_not_get_past_the_handshake_and_the_node_is_told_why(door, tmp_path):
    provisioning.new(tmp_path / "other", host="localhost", port=1, platforms=["a"])
    late, outside, nobody = (
        shutil.copytree(door.kits / "a", tmp_path / name) for name in ("late", "outside", "nobody")
    )
    certify(door.kits, late, since=timedelta(days=-9), until=timedelta(days=-2))
    take(tmp_path / "other/a", outside)
    shutil.copy(door.kits / "a/sign/sign.crt", nobody / "tls/node.crt")
    shutil.copy(door.kits / "a/sign/sign.key", nobody / "tls/node.key")
    for kit, reason in (
        (late, "certificate has expired"),
        (outside, "unable to get local issuer certificate"),
        (nobody, "unsuitable certificate purpose"),
    ):
        with pytest.raises(UnreachableError, match=r"refuses this kit's certificate|broke|cannot be reached"):
            door.link(kit).call("POST", messages.LEAVE, b"{}")
        wanted = f"its certificate is not of this federation, or not valid now: {reason}"
        door.hear("refused", name="", address="127.0.0.1", why=wanted)
    with socket.create_connection(("localhost", door.kit.port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""
    door.hear("refused", name="", why="it speaks plain text, not TLS")


def test_a_renewed_certificate_is_shown_without_a_restart(door):
    before = door.serial()
    assert before == certificate_in(door.kits / "coordinator").serial_number
    provisioning.renew(door.kits, ["coordinator", "a"])
    door.hear("certificate", 5.0)
    after = door.serial()
    assert after == certificate_in(door.kits / "coordinator").serial_number != before
    assert door.link("a").call("POST", messages.LEAVE, b"{}").status == 200


def test_half_a_certificate_changes_nothing(door):
    path, before = door.kits / "coordinator/tls/node.crt", door.serial()
    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    assert "a new certificate" in door.hear("refused", 5.0, name="", address="").header["why"]
    assert door.serial() == before
    path.write_bytes(whole)
    door.hear("certificate", 5.0)


def test_who_is_shut_out_is_cut_off_at_once_and_told_for_good(door):
    """The last test here."""
    link, ended = door.link("b"), []

    def poll():
        with pytest.raises(UnreachableError):
            door.poll(link, 10**6, "e" * 32)
        ended.append(time.monotonic())

    thread = threading.Thread(target=poll)
    thread.start()
    door.hear("here", name="b")
    provisioning.revoke(door.kits, "b")
    began = time.monotonic()
    door.tell_members()
    assert door.hear("gone", name="b").header["why"] == "shut out"
    thread.join(5)
    assert ended and ended[0] - began < 2
    answer = door.poll(door.link("b"))
    assert isinstance(answer, Answer) and answer.final
    assert why(answer) == "403 b was shut out of the federation"


def test_a_link_says_why_nobody_answers(tmp_path, made):
    kit = open_kit(made / "a")
    link = Link("localhost", free_port(), kit.folder / "tls")
    with pytest.raises(UnreachableError, match="is the coordinator running, and is the port open from here"):
        link.call("POST", messages.LEAVE)
    with pytest.raises(UnreachableError, match=r"no machine is called nowhere\.invalid; is the name right"):
        Link("nowhere.invalid", 1, kit.folder / "tls").call("POST", messages.LEAVE)
