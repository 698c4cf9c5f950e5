"""The six messages of the HTTPS transport, and the layout of a body with a signed statement and its payload.

| message | sender | meaning |
|---|---|---|
| POST /v1/poll | platform | "I am here; is there a request for me?" The answer is a request, or after 10 s nothing |
| POST /v1/reply/ID | platform | the reply to request ID |
| POST /v1/leave | platform | "I am leaving; do not wait for me" |
| POST /v1/submit | admin | start or resume a run |
| POST /v1/stop | admin | stop a run |
| GET /v1/status | admin, viewer | which platforms are connected, and the state of the runs |

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
LENGTH = 4  # bytes of a head's length
MOST_HEAD = 128 * 2**10  # bytes of a poll, or of the head before a payload
MOST_COMMAND = 2 * 2**20  # bytes
MOST_STATUS = 64 * 2**20  # bytes
MOST_PAYLOAD = 16 * 2**30  # bytes of a request's payload; the limit for a reply comes with its request
POLL_SECONDS = 10.0  # how long a poll waits for a request
SILENT_SECONDS = 5.0  # after which a platform without an open poll counts as disconnected
REQUEST_HEADER = "Fedrel-Request"  # the HTTP header with the number of a request
RETRY = (0.5, 1.0, 2.0, 3.0, 5.0)  # seconds before the next try, longer after each failure
# Why a platform is no longer connected
LEFT, REVOKED, SILENT = "it left", "revoked", "it stopped polling"
SERVER_ENDED = "the coordinator's network process ended"  # requests that were not delivered are lost


class BodyError(ValueError):
    """A body that does not have the layout of a message."""


def head(content: dict[str, Any]) -> bytes:
    """A head with its length, as they precede a payload."""
    text = json.dumps(content).encode()
    return len(text).to_bytes(LENGTH, "little") + text


def head_length(first: bytes) -> int:
    """The length of a head, from the first 4 bytes of a body. Raises BodyError if it is too long."""
    length = int.from_bytes(first, "little")
    if len(first) != LENGTH or length > MOST_HEAD:
        raise BodyError("the head is too long or cut off")
    return length


def parse(content: bytes) -> dict[str, Any]:
    """The content of a head. Raises BodyError if it is not a JSON object."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise BodyError("the head is not JSON") from None
    if not isinstance(found, dict):
        raise BodyError("the head is not a JSON object")
    return found
