"""Which party may send which message to the coordinator's network process, and what it never accepts. The test plays
its node.
"""

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
from tests.coordinator_server import SESSION, CoordinatorServer, why
from tests.deployment import free_port
from tests.kits import certificate_in, certify, take

MESSAGES = [*messages.ROLES, ("POST", f"{messages.REPLY}1")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    provisioning.new(folder / "kits", host="localhost", port=free_port(), platforms=["a", "b", "c"])
    provisioning.add(folder / "kits", "eve", "viewer")
    with CoordinatorServer(folder / "kits", folder) as opened:
        yield opened


@pytest.fixture(autouse=True)
def hang_up(server):
    yield
    server.hang_up()


@pytest.fixture
def call(server):
    return lambda kit, method, path, body=b"{}": server.link(kit).call(method, path, body)


def heard(server, kit, method, path):
    """The answer to a message; the node accepts every command that reaches it."""
    answers = []
    link = server.link(kit)
    thread = threading.Thread(target=lambda: answers.append(link.call(method, path, b"{}")))
    thread.start()
    while thread.is_alive():
        with contextlib.suppress(AssertionError):
            told = server.hear("command", 0.05)
            assert (told.header["name"], told.header["path"]) == (kit, path)
            answer = {"do": "answer", "id": told.header["id"], "status": 200}
            server.child.channel.send(answer, Blob.of(b"{}"))
    return answers[0]


@pytest.mark.parametrize("kit", ["a", "admin", "eve"])
@pytest.mark.parametrize(("method", "path"), MESSAGES, ids=lambda it: str(it))
def test_every_message_is_limited_to_its_roles(server, kit, method, path):
    known = messages.REPLY if path.startswith(messages.REPLY) else path
    role = {"a": "platform", "admin": "admin", "eve": "viewer"}[kit]
    answer = heard(server, kit, method, path)
    if role not in messages.ROLES[method, known]:
        assert why(answer) == f"403 {known} is not for the role {role}"
    else:
        assert answer.status != 403, why(answer)


def test_a_platform_may_not_command_and_a_viewer_may_only_see_the_status():
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
def test_there_are_exactly_six_messages(call, method, path):
    answer = call("a", method, path)
    assert answer.status in (400, 403, 404, 405), answer


def test_a_party_that_is_not_a_member_is_told_so(server, tmp_path):
    provisioning.add(server.kits, "late", "platform")
    answer = server.link("late").call("POST", messages.POLL, b"{}")
    assert why(answer) == "403 late (platform) is not in the coordinator's list of members"
    assert not answer.final
    server.hear("refused", name="late")
    server.tell_members()
    assert server.link("late").call("POST", messages.POLL, b"{}").status == 400


def test_the_same_name_in_another_role_is_refused(server, tmp_path):
    """A platform's key with a forged admin's certificate of the same name."""
    posing = shutil.copytree(server.kits / "a", tmp_path / "a")
    certify(server.kits, posing, since=timedelta(days=-1), until=timedelta(days=9), role="admin")
    assert "not in the coordinator's list of members" in why(server.link(posing).call("GET", messages.STATUS))


# ------------------------------------------------------------------------------------- platforms connect and leave


@pytest.fixture
def platform(server):
    """A connected platform, and its link."""
    link, fetched = server.link("b"), []
    thread = threading.Thread(target=lambda: fetched.append(server.poll(link)))
    thread.start()
    server.hear("here", name="b")
    server.ask("b", 1)
    thread.join()
    [found] = fetched
    assert isinstance(found, Fetched) and found.payload.read(100) == b"question" and found.head == {"n": 1}
    yield link
    link.call("POST", messages.LEAVE, json.dumps({"session": SESSION}).encode())
    server.hear("gone", name="b")
    server.past.clear()


def test_a_reply_is_passed_on_once(server, platform):
    assert platform.reply(1, {"answer": "yes"}, Blob.of(b"content")).status == 200
    told = server.hear("reply", name="b", id=1)
    assert told.header["head"] == {"answer": "yes"} and told.payload.read(100) == b"content"
    for number in (1, 2, 10**17):
        assert why(platform.reply(number, {}, Blob.of(b""))) == "409 a reply to a request that is not pending"


def test_a_reply_to_a_withdrawn_request_is_refused(server, platform):
    server.child.channel.send({"do": "drop", "to": "b", "id": 1})
    time.sleep(0.1)
    assert why(platform.reply(1, {}, Blob.of(b""))) == "409 a reply to a request that is not pending"


def test_one_platform_cannot_answer_for_another(server, platform):
    link = server.link("c")
    assert why(link.reply(1, {"answer": "forged"}, Blob.of(b""))) == "409 a reply to a request that is not pending"


def test_a_reply_that_is_too_long_is_refused_before_it_is_read(server, platform):
    """By its announced length: not a byte of it is stored."""
    answer = platform.reply(1, {}, Blob.of(b"x" * (messages.MOST_HEAD + 10_000)))
    assert why(answer).startswith("413 ") and "bytes where at most 100 were expected" in why(answer)
    told = server.hear("reply", name="b", id=1)
    assert "bytes where at most 100 were expected" in told.header["head"]["refused"] and told.payload is None


@pytest.mark.parametrize("body", [b"", b"\0\0", b"\xff\xff\xff\xff", b"\x02\0\0\0[]", b"\x02\0\0\0{", b"\x01\0\0\0{"])
def test_an_invalid_reply_is_refused(server, platform, body):
    answer = platform.call("POST", f"{messages.REPLY}1", body)
    assert why(answer).startswith(("400 the head", "400 the body"))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"{", b'{"session": "x", "have": 0, "version": ""}', b'{"session": 3, "have": 0}']
)
def test_an_invalid_poll_is_refused(call, body):
    assert call("c", "POST", messages.POLL, body).status == 400


def test_a_kit_that_is_used_twice(server, platform):
    again = server.link("b")
    assert why(server.poll(again, session="f" * 32)) == "409 another node is running with the kit of b; stop it first"


def test_a_broken_connection_is_noticed_at_once(server):
    link = server.link("c")

    def poll():
        with pytest.raises(UnreachableError):
            server.poll(link)

    thread = threading.Thread(target=poll)
    thread.start()
    server.hear("here", name="c")
    began = time.monotonic()
    link._connection.sock.shutdown(socket.SHUT_RDWR)
    assert server.hear("gone", name="c").header["why"] == "the connection broke"
    assert time.monotonic() - began < 2
    thread.join()


def test_a_message_that_is_too_long_is_refused(call):
    assert call("admin", "POST", messages.SUBMIT, b"x" * (messages.MOST_COMMAND + 1)).status == 413
    assert call("c", "POST", messages.LEAVE, b"x" * (messages.MOST_HEAD + 1)).status == 413


# ---------------------------------------------------------------------------------- certificates in use


def test_outsiders_fail_the_handshake_and_the_node_is_told_why(server, tmp_path):
    provisioning.new(tmp_path / "other", host="localhost", port=1, platforms=["a"])
    late, outside, nobody = (
        shutil.copytree(server.kits / "a", tmp_path / name) for name in ("late", "outside", "nobody")
    )
    certify(server.kits, late, since=timedelta(days=-9), until=timedelta(days=-2))
    take(tmp_path / "other/a", outside)
    shutil.copy(server.kits / "a/sign/sign.crt", nobody / "tls/node.crt")
    shutil.copy(server.kits / "a/sign/sign.key", nobody / "tls/node.key")
    for kit, reason in (
        (late, "certificate has expired"),
        (outside, "unable to get local issuer certificate"),
        (nobody, "unsuitable certificate purpose"),
    ):
        with pytest.raises(UnreachableError, match=r"refuses this kit's certificate|broke|cannot be reached"):
            server.link(kit).call("POST", messages.LEAVE, b"{}")
        wanted = f"its certificate is not from this federation, or not currently valid: {reason}"
        server.hear("refused", name="", address="127.0.0.1", why=wanted)
    with socket.create_connection(("localhost", server.kit.port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""
    server.hear("refused", name="", why="it speaks plain text, not TLS")


def test_a_renewed_certificate_is_presented_without_a_restart(server):
    before = server.serial()
    assert before == certificate_in(server.kits / "coordinator").serial_number
    provisioning.renew(server.kits, ["coordinator", "a"])
    server.hear("certificate", 5.0)
    after = server.serial()
    assert after == certificate_in(server.kits / "coordinator").serial_number != before
    assert server.link("a").call("POST", messages.LEAVE, b"{}").status == 200


def test_a_half_written_certificate_changes_nothing(server):
    path, before = server.kits / "coordinator/tls/node.crt", server.serial()
    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    assert "the new certificate" in server.hear("refused", 5.0, name="", address="").header["why"]
    assert server.serial() == before
    path.write_bytes(whole)
    server.hear("certificate", 5.0)


def test_a_revoked_party_is_disconnected_at_once_and_told_permanently(server):
    """Must be the last test in this file."""
    link, ended = server.link("b"), []

    def poll():
        with pytest.raises(UnreachableError):
            server.poll(link, 10**6, "e" * 32)
        ended.append(time.monotonic())

    thread = threading.Thread(target=poll)
    thread.start()
    server.hear("here", name="b")
    provisioning.revoke(server.kits, "b")
    began = time.monotonic()
    server.tell_members()
    assert server.hear("gone", name="b").header["why"] == "revoked"
    thread.join(5)
    assert ended and ended[0] - began < 2
    answer = server.poll(server.link("b"))
    assert isinstance(answer, Answer) and answer.final
    assert why(answer) == "403 b has been revoked"


def test_a_link_says_why_there_is_no_answer(tmp_path, made):
    kit = open_kit(made / "a")
    link = Link("localhost", free_port(), kit.folder / "tls")
    with pytest.raises(UnreachableError, match="is the coordinator running, and is the port open from here"):
        link.call("POST", messages.LEAVE)
    with pytest.raises(UnreachableError, match=r"the host name nowhere\.invalid cannot be resolved; is it right"):
        Link("nowhere.invalid", 1, kit.folder / "tls").call("POST", messages.LEAVE)
