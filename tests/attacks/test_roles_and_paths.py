"""A member of the federation that sends messages of another role, or malformed requests.

| attack | what happens |
|---|---|
| every message in every role | only the message's own roles are answered; all others get 403, by name |
| other methods, other paths, tricks with dots, slashes, escapes and queries | 404 or 400, never another message |
| bodies with a method that has none, pipelined requests | each is checked separately |
"""

from __future__ import annotations

import pytest

from tests.attacks.wire import poll

pytestmark = pytest.mark.usefixtures("works_after")
slow = pytest.mark.slow

MEMBERS = {"platform": "p0", "admin": "admin", "viewer": "viewer"}
MESSAGES = {
    ("POST", "/v1/poll"): ("platform",),
    ("POST", "/v1/reply/1"): ("platform",),
    ("POST", "/v1/leave"): ("platform",),
    ("POST", "/v1/submit"): ("admin",),
    ("POST", "/v1/stop"): ("admin",),
    ("GET", "/v1/status"): ("admin", "viewer"),
}


@slow
@pytest.mark.parametrize("role", MEMBERS)
@pytest.mark.parametrize(("method", "path"), MESSAGES, ids=lambda it: it.strip("/"))
def test_a_message_is_limited_to_its_roles(place, role, method, path):
    if role in MESSAGES[method, path]:
        body = b"{}" if method == "POST" else b""
        assert place.ask(MEMBERS[role], method, path, body).status in (200, 400, 409)
        return
    answer = place.ask(MEMBERS[role], method, path, poll())
    assert answer.status == 403
    assert f"is not for the role {role}" in answer.why
    place.named(place.last_source, f"is not for the role {role}", f'"name": "{MEMBERS[role]}"')


@slow
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD", "CONNECT", "GET", "PROPFIND"])
@pytest.mark.parametrize("role", MEMBERS)
def test_other_http_methods_are_refused(place, role, method):
    for path in ("/v1/poll", "/v1/submit", "/v1/stop", "/v1/reply/1"):
        target = "localhost:22" if method == "CONNECT" else path
        assert place.ask(MEMBERS[role], method, target).status in (0, 400, 404, 405, 501)
    place.named(place.last_source) if method not in ("CONNECT",) else None


TRICKS = [
    "/",
    "/v1",
    "/v1/",
    "/v1/submit/",
    "/v1/submit?run=x",
    "/v1/status?",
    "/v1/status#x",
    "/V1/SUBMIT",
    "//v1/submit",
    "/v1//submit",
    "/v1/./submit",
    "/v1/reply/../submit",
    "/v1/reply/..%2fsubmit",
    "/v1/reply/%2e%2e/submit",
    "/v1/poll/../submit",
    "/v1/submit%00",
    "/v1/submit%20",
    "/v1/submit;x=1",
    "/v1\\submit",
    "/../../etc/passwd",
    "/v1/reply/",
    "/v1/reply/-1",
    "/v1/reply/1e3",
    "/v1/reply/0x1",
    "/v1/reply/99999999999999999999999999",
    "/v1/reply/1/../../submit",
    "http://localhost/v2/submit",
    "*",
    "submit",
    "/v1/" + "a" * 1500,
    "/" + "a" * 100_000,
]


@slow
@pytest.mark.parametrize("path", TRICKS, ids=lambda path: path[:40])
def test_no_spelling_of_a_path_bypasses_the_roles(place, path):
    """As a platform, which may neither submit runs nor see the status."""
    for method in ("POST", "GET"):
        assert place.ask("p0", method, path, b"{}").status in (0, 400, 403, 404, 409, 411, 414)


@slow
@pytest.mark.parametrize("path", ["/v1/%73ubmit", "/v1/submi%74", "http://elsewhere/v1/submit", "//x/v1/submit"])
def test_other_spellings_of_a_message_have_the_same_rules(place, path):
    answer = place.ask("p0", "POST", path, b"{}")
    assert answer.status in (400, 403, 404)
    place.named(place.last_source)


@slow
@pytest.mark.parametrize(
    "headers",
    [
        ("Host: evil.example",),
        ("Host: a", "Host: b"),
        ("X-Forwarded-For: 10.0.0.1", "X-Real-IP: 10.0.0.1"),
        ("X-Forwarded-User: admin", "Authorization: Basic YWRtaW46YWRtaW4=", "Cookie: session=admin"),
        ("X-HTTP-Method-Override: GET", "X-Original-URL: /v1/status"),
        ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA=="),
        ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"),
        ("Expect: 100-continue",),
    ],
    ids=lambda headers: headers[0].partition(":")[0] + str(len(headers)),
)
def test_no_header_changes_the_callers_identity(place, headers):
    """Only the certificate identifies the caller."""
    answer = place.ask("viewer", "POST", "/v1/submit", b"{}", *headers)
    assert answer.status in (100, 400, 403)
    line = place.named(place.last_source) if answer.status == 403 else None
    assert line is None or line["name"] == "viewer"


@slow
@pytest.mark.parametrize(
    "head",
    [
        "GET /v1/status HTTP/1.1\r\n" + "".join(f"H{number}: x\r\n" for number in range(5000)),
        "GET /v1/status HTTP/1.1\r\nX: " + "a" * 500_000 + "\r\n",
        "GET /v1/status HTTP/9.9\r\nHost: localhost\r\n",
        "POST /v1/submit\r\n",
        "\r\n\r\n\r\nGET\r\n",
        "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\n",
        "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n",
        "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n",
        "POST /v1/submit HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n",
    ],
    ids=["headers", "header", "version", "0.9", "empty", "space", "folded", "nul", "bare line ends"],
)
def test_invalid_http_is_refused(place, head):
    with place.wire("viewer") as wire:
        wire.send(f"{head}\r\n".encode("latin-1"))
        assert wire.answer("GET").status in (0, 400, 403, 404, 411, 431, 505)
        place.named(wire.source)


@slow
def test_a_pipelined_request_is_checked_separately(place):
    """Pipelined: the rights of the first do not carry over to the second."""
    with place.wire("viewer") as wire:
        wire.send(
            b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"
            b"POST /v1/submit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
        )
        assert wire.answer("GET").status == 200
        assert wire.answer().status in (0, 403)
        place.named(wire.source, "/v1/submit is not for the role viewer")
