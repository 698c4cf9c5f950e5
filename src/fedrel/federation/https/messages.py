"""The six messages of the transport, and how a signed statement and its payload lie in a body.

| message | who | meaning |
|---|---|---|
| POST /v1/poll | platform | "I am here; is there a request for me?" The answer is one, or after a while nothing |
| POST /v1/reply/ID | platform | the answer to that request |
| POST /v1/leave | platform | "I am going": nobody need wait |
| POST /v1/submit | admin | start a run, or go on with one |
| POST /v1/stop | admin | stop a run |
| GET /v1/status | admin, viewer | who is connected, what the runs are doing |

A body is a length (4 bytes, little-endian), a head of that length (JSON), and the payload. Nothing is compressed.
"""

from __future__ import annotations

import json
from typing import Any

POLL, REPLY, LEAVE = "/v1/poll", "/v1/reply/", "/v1/leave"
SUBMIT, STOP, STATUS = "/v1/submit", "/v1/stop", "/v1/status"
ROLES = {
    ("POST", POLL): ("platform",),
    ("POST", REPLY): ("platform",),
    ("POST", LEAVE): ("platform",),
    ("POST", SUBMIT): ("admin",),
    ("POST", STOP): ("admin",),
    ("GET", STATUS): ("admin", "viewer"),
}
LENGTH = 4
MOST_HEAD = 128 * 2**10  # of a poll, or of what stands before a payload
MOST_COMMAND = 2 * 2**20
MOST_STATUS = 64 * 2**20
MOST_PAYLOAD = 16 * 2**30  # of a request; a reply's limit comes with its request
POLL_SECONDS = 10.0  # that an unanswered poll takes
SILENT_SECONDS = 5.0  # after which a platform that does not poll again is gone
REQUEST_HEADER = "Fedrel-Request"  # the number of a request, beside its body
SERVER_ENDED = "the coordinator's own server ended"  # why platforms are gone; what they were to be asked is lost
RETRY = (0.5, 1.0, 2.0, 3.0, 5.0)  # seconds before the next try, the longer the more often it failed


class BodyError(ValueError):
    """A body that is none of ours."""


def head(content: dict[str, Any]) -> bytes:
    text = json.dumps(content).encode()
    return len(text).to_bytes(LENGTH, "little") + text


def head_length(first: bytes) -> int:
    length = int.from_bytes(first, "little")
    if len(first) != LENGTH or length > MOST_HEAD:
        raise BodyError("a head that is too long, or cut off")
    return length


def parse(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise BodyError("a head that is not JSON") from None
    if not isinstance(found, dict):
        raise BodyError("a head that is no table")
    return found
