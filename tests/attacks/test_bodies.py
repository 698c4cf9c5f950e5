"""A platform with a valid kit and a modified process: bodies, lengths, sessions, and slow transfers.

| attack | what happens |
|---|---|
| Content-Length too short, too long, negative, huge, missing, twice; chunked; both | refused, nothing is smuggled |
| a gigabyte announced, a gzip bomb | refused before any of it is stored |
| JSON that is deep, huge, not finite, with duplicate keys or lone surrogates | refused, or taken literally |
| a head with a false length | refused |
| another's session, another's request, a flood of sessions and connections | refused; others are not affected |
| headers and bodies that arrive a byte at a time | aborted; others are not affected |
"""

from __future__ import annotations

import gzip
import json
import time

import pytest

from tests.attacks.wire import Wire, address, context, framed, memory, poll, until

pytestmark = pytest.mark.usefixtures("works_after")
slow = pytest.mark.slow
MOST = 50 * 2**20  # bytes that an attack may cost the coordinator's processes


@pytest.fixture
def no_memory(place):
    """Asserts that the attack costs hardly any memory."""
    pids = place.children()
    before = {name: memory(pid) for name, pid in pids.items()}
    yield
    for name, pid in pids.items():
        assert memory(pid) - before[name] < MOST, f"{name} grew"


@slow
@pytest.mark.parametrize(
    "length", ["-1", "+2", "0x2", "2,2", "2 2", "1e1", "", " ", "18446744073709551618", "9" * 30, "٢", "2;q=1"]
)
def test_an_invalid_length_is_refused(place, length):
    raw = b"POST /v1/leave HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length.encode() + b"\r\n\r\n{}"
    with place.wire("p0") as wire:
        wire.send(raw)
        assert wire.answer().status in (0, 400, 411, 413)
        place.named(wire.source)


@slow
@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 2", "Content-Length: 50"),
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 2"),
        ("Transfer-Encoding: chunked",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: xchunked", "Content-Length: 2"),
        ("Transfer-Encoding : chunked", "Content-Length: 2"),
        ("Transfer-Encoding: identity", "Content-Length: 2"),
    ],
    ids=["two lengths", "length first", "chunked first", "chunked", "gzip", "unknown", "a space", "identity"],
)
def test_nothing_is_smuggled_behind_a_body(place, headers):
    """If two parsers disagreed about where a body ends, its rest would be taken for the next request."""
    hidden = b"POST /v1/leave HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    with place.wire("p0") as wire:
        lines = ["POST /v1/leave HTTP/1.1", "Host: localhost", *headers, "", ""]
        wire.send("\r\n".join(lines).encode() + b"0\r\n\r\n" + hidden)
        first = wire.answer()
        assert first.status in (0, 400, 411)
        assert wire.answer().status == 0, "the connection stayed open"
        place.named(wire.source)


@slow
@pytest.mark.parametrize(("announced", "sent"), [(2, 100), (100, 2), (5, 0)], ids=["longer", "cut off", "empty"])
def test_a_body_has_its_announced_length(place, announced, sent):
    with place.wire("p0") as wire:
        head = f"POST /v1/leave HTTP/1.1\r\nHost: localhost\r\nContent-Length: {announced}\r\n\r\n"
        wire.send(head.encode() + b"{}" + b"x" * (sent - 2) if sent else head.encode())
        if sent < announced:
            return
        assert wire.answer().status in (200, 400)
        assert wire.answer().status in (0, 400), "the rest was taken for something"
        place.named(wire.source)


@slow
@pytest.mark.parametrize("path", ["/v1/poll", "/v1/leave", "/v1/reply/1"])
@pytest.mark.parametrize("size", [2**30, 2**40, 10**17])
def test_an_unrequested_gigabyte_is_refused_when_it_is_announced(place, path, size, no_memory):
    with place.wire("p0") as wire:
        answer = wire.ask("POST", path, b"x" * 2**20, length=str(size))
        assert answer.status in (0, 409, 413)
        place.named(wire.source)


@slow
def test_a_gigabyte_of_experiment_is_refused(place, no_memory):
    assert place.ask("admin", "POST", "/v1/submit", b"x" * 2**20, length=str(2**30)).status in (0, 413)
    place.named(place.last_source, "at most")


@slow
@pytest.mark.parametrize("path", ["/v1/poll", "/v1/leave"])
def test_a_gzip_bomb_is_not_decompressed(place, path, no_memory):
    bomb = gzip.compress(bytes(50 * 2**20))
    assert place.ask("p0", "POST", path, bomb, "Content-Encoding: gzip").status == 400
    place.named(place.last_source, "not JSON")


BOMBS = {
    "deep": b'{"session":' + b"[" * 60_000 + b"]" * 60_000 + b"}",
    "deep tables": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "huge number": b'{"session": "%s", "have": %s, "version": "0"}' % (b"a" * 32, b"9" * 100_000),
    "list": b"[1, 2]",
    "text": b'"poll"',
    "nothing": b"",
    "null": b"null",
    "noise": bytes(range(256)),
    "UTF-16": '{"session": ""}'.encode("utf-16"),
    "not finite": b'{"session": "%s", "have": NaN, "version": "0"}' % (b"a" * 32),
    "fraction": b'{"session": "%s", "have": 1.5, "version": "0"}' % (b"a" * 32),
    "short session": b'{"session": "a", "have": 0, "version": "0"}',
    "session of lists": b'{"session": [], "have": 0, "version": "0"}',
    "version of lists": b'{"session": "%s", "have": 0, "version": []}' % (b"a" * 32),
}


@slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_json_that_is_not_a_poll_is_refused(place, bomb, no_memory):
    assert place.ask("p0", "POST", "/v1/poll", BOMBS[bomb]).status == 400
    place.named(place.last_source, "invalid message")


def test_deep_json_crashes_nothing(place, no_memory):
    """Python's parser raises RecursionError at some depth, which must be handled wherever it is used."""
    for name, path in (("p0", "/v1/poll"), ("p0", "/v1/leave"), ("admin", "/v1/submit"), ("admin", "/v1/stop")):
        assert place.ask(name, "POST", path, BOMBS["deep"]).status == 400
        place.named(place.last_source)


@slow
def test_surrogates_and_escapes_in_a_version_are_shown_literally(place):
    evil = "\ud800[/x]\x1b[2J\u202e<script>"
    body = json.dumps({"session": "e" * 32, "have": 0, "version": evil}).encode()
    with place.wire("p1") as wire:
        wire.send(b"POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert until(lambda: "p1" in place.look()["connected"])
        for more in ((), ("--json",)):
            done = place.cli("status", place.kits / "viewer", *more)
            assert done.returncode == 0, done.stderr
            assert not {"\x1b", "\u202e"} & set(done.stdout)
    assert any(it["event"] == "connected" and it["name"] == "p1" for it in place.trail())


@slow
@pytest.mark.parametrize(
    "body",
    [b"", b"\x00", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f{}", b"\x00\x00\x02\x00{}", b"\x10\x00\x00\x00{}"],
    ids=["empty", "one byte", "4 GB", "2 GB", "as long as allowed", "longer than the body"],
)
def test_a_head_with_a_false_length_is_refused(place, body):
    """No request is pending here, which is the first reason for refusal; with one pending: test_lying_platform.py."""
    assert place.ask("p0", "POST", "/v1/reply/1", body).status == 409
    place.named(place.last_source, "not pending")


@slow
def test_a_reply_to_no_pending_request_is_dropped(place):
    for number in (0, 1, 2, 17, 10**17):
        assert place.ask("p0", "POST", f"/v1/reply/{number}", framed({"failed": "x"})).status == 409
        place.named(place.last_source, "not pending")


@slow
def test_a_second_process_with_the_same_kit_cannot_replace_the_first(place):
    with place.wire("p0") as first:
        body = poll("1" * 32)
        first.send(b"POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert until(lambda: "p0" in place.look()["connected"])
        since = place.look()["connected"]["p0"]["since"]
        answer = place.ask("p0", "POST", "/v1/poll", poll("2" * 32))
        assert (answer.status, "another node is running with the kit" in answer.why) == (409, True)
        place.named(place.last_source, "another node")
        assert place.look()["connected"]["p0"]["since"] == since
        place.ask("p0", "POST", "/v1/leave", json.dumps({"session": "2" * 32}).encode())
        assert "p0" in place.look()["connected"], "the leave of another session counted"


@slow
def test_a_session_belongs_to_the_certificate(place):
    with place.wire("p0") as first:
        body = poll("3" * 32)
        until(lambda: "p0" not in place.look()["connected"])
        first.send(b"POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert until(lambda: "p0" in place.look()["connected"])
        place.ask("p1", "POST", "/v1/leave", json.dumps({"session": "3" * 32}).encode())
        assert "p0" in place.look()["connected"], "p1 made p0 leave"


@slow
def test_a_flood_of_sessions_counts_as_one_platform(place, no_memory):
    with place.wire("p2") as wire:
        for number in range(300):
            wire.send(
                b"POST /v1/leave HTTP/1.1\r\nHost: localhost\r\nContent-Length: 47\r\n\r\n"
                + json.dumps({"session": f"{number:032d}"}).encode()
            )
            wire.answer()
    assert list(place.look()["connected"]).count("p2") <= 1


def test_the_connections_of_one_party_are_limited(place):
    """The rest are closed at once, and others are not affected."""
    source, secured = address(), context(place.tls("p2"))
    held = []
    try:
        for _ in range(300):
            held.append(Wire(place.port, secured, source))
        time.sleep(0.3)
        place.still_works(2.0)
        assert place.ask("p1", "POST", "/v1/leave", b"{}").status == 200
        place.named(source, "more than 16 connections")
        assert _open(held) <= 16
    finally:
        for wire in held:
            wire.close()


def _open(wires: list[Wire]) -> int:
    count = 0
    for wire in wires:
        wire.socket.settimeout(0.01)
        try:
            count += wire.socket.recv(1) != b""
        except TimeoutError:
            count += 1
        except OSError:
            pass
    return count


@slow
def test_different_refusals_cannot_flood_the_audit_trail(place):
    """Different lengths give different reasons, each a line of its own, which could push old lines out of the trail."""
    source, before = address(), len(place.trail())
    for number in range(300):
        with place.wire("p2", source) as wire:
            assert wire.ask("POST", "/v1/poll", b"x", length=str(10**9 + number)).status in (0, 413)
    place.named(source, "many other refusals")
    assert len(place.trail()) - before < 100


@slow
def test_endless_headers_are_aborted(place):
    """Sixteen slow connections, the most that one party can have."""
    wires = [place.wire("p2") for _ in range(16)]
    try:
        begun = time.monotonic()
        for wire in wires:
            wire.send(b"POST /v1/poll HTTP/1.1\r\nHost: loc")
        while time.monotonic() - begun < 45 and _open(wires):
            for wire in wires:
                wire.send(b"a")
            place.still_works(2.0)
            assert place.ask("p1", "POST", "/v1/leave", b"{}").status == 200
            time.sleep(3.0)
        assert not _open(wires), "slow headers hold a connection for good"
    finally:
        for wire in wires:
            wire.close()


@slow
def test_a_slow_body_is_aborted(place):
    with place.wire("p2", timeout=60.0) as wire:
        wire.send(b"POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        begun = time.monotonic()
        wire.socket.settimeout(3.0)
        while time.monotonic() - begun < 60:
            wire.send(b"{")
            try:
                answer = wire.answer()
                break
            except TimeoutError:
                place.still_works(2.0)
        assert answer.status in (0, 400)
        assert time.monotonic() - begun < 55
        place.named(wire.source, "too slowly")
