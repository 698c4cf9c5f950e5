"""The messages that FLARE's processes need to run the relay's job; the guard refuses all others.

A cell (a process in FLARE's network) has a name: `server`, `server.JOB`, `SITE`, `SITE.JOB`, `_admin_ID`. A message
arrives from a neighbour, whose name FLARE compares with its certificate; the origin that the message claims must lie
behind that neighbour. So no cell can impersonate another, and no site can reach another. Only the standard library is
used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SERVER = "server"
ADMIN = "_admin_"
ANY = "*"
REQUEST, REPLY, RETURN = "req", "reply", "return"
_TYPE, _ORIGIN, _DESTINATION = "cn__msg_type", "cn__origin", "cn__destination"
_CHANNEL, _TOPIC = "cn__channel", "cn__topic"
STREAM, DATA = "sm__STREAM", "sm__DATA"
_STREAM_CHANNEL, _STREAM_TOPIC = "sm__ch", "sm__tp"  # of the message in a stream; on each of its pieces

Rule = tuple[str, str]  # channel, topic

_BYE: Rule = ("cellnet.channel", "bye")
_STREAMS: set[Rule] = {(STREAM, "sm__ACK"), (STREAM, "sm__ERROR"), ("return_only", ANY)}
_BEAT = "fedrel.beat"

# (receiver, origin) as `kind` names them: the requests that the receiver accepts. For a stream, its message counts.
ALLOWED: dict[tuple[str, str], set[Rule]] = {
    ("client", "server"): {("admin", "admin"), _BYE} | _STREAMS,
    ("client", "own job"): {("admin", "train.notify_job_status"), _BYE} | _STREAMS,
    ("client job", "parent"): {("client_command", "abort"), _BYE},
    ("client job", "server"): {_BYE} | _STREAMS,
    ("client job", "server job"): {("aux_communication", "__end_run__")} | _STREAMS,
    ("server", "client"): {
        *(("task", topic) for topic in ("challenge", "register", "heart_beat", "quit", "report_job_failure")),
        _BYE,
        *_STREAMS,
    },
    ("server", "client job"): {_BYE} | _STREAMS,
    ("server", "admin"): {
        *(("task", topic) for topic in ("challenge", "register", "quit")),
        ("hci_channel", ANY),
        *(("aux_communication", f"ObjectStreamer.{topic}") for topic in ("Request", "Abort")),  # a job is submitted
        _BYE,
        *_STREAMS,
    },
    ("server", "own job"): {
        *(("server_parent_listener", topic) for topic in ("get_clients", "heartbeat", "update_run_status")),
        _BYE,
        *_STREAMS,
    },
    ("server job", "parent"): {("server_command", "abort"), ("server_command", "handle_dead_job"), _BYE} | _STREAMS,
    ("server job", "client job"): {
        ("server_command", "get_task"),
        ("server_command", "submit_update"),
        *(("aux_communication", topic) for topic in ("__job_heartbeat__", "__sync_runner__", "__task_check__", _BEAT)),
        *_STREAMS,
    },
    ("server job", "client"): {(STREAM, "sm__ERROR")},
}
# All commands to a client have the same topic; the message itself says which command it is.
COMMANDS: dict[str, set[str]] = {
    "server": {
        "scheduler.check_resource",
        "scheduler.cancel_resource",
        "train.deploy",
        "train.start_job",
        "train.abort",
    },
    "own job": {"train.notify_job_status"},
}


def objection(cell: str, neighbour: str, headers: Mapping[str, Any]) -> str | None:
    """Why `cell` must refuse a message from `neighbour`; None: it may accept it."""
    origin, destination = headers.get(_ORIGIN), headers.get(_DESTINATION)
    if not isinstance(origin, str) or not isinstance(destination, str):
        return "no origin or no destination"
    if not _behind(cell, neighbour, origin):
        return f"{origin} does not lie behind {neighbour}"
    if destination != cell:
        return None if _may_pass(cell, neighbour, origin, destination) else f"not to be forwarded to {destination}"
    sort = headers.get(_TYPE)
    who = kind(cell, origin)
    if who is None:
        return f"{origin} may not send messages here"
    if sort in (REPLY, RETURN):
        return None
    if sort != REQUEST:
        return f"a message of type {sort!r}"
    channel, topic = asked(headers)
    allowed = ALLOWED.get((_role(cell), who), set())
    if (channel, topic) in allowed or (channel, ANY) in allowed:
        return None
    return f"{channel}/{topic} is not for {who}"


def objection_to_command(cell: str, origin: str, command: str) -> str | None:
    """Why a client must refuse a command on its admin channel; None: it may carry it out."""
    who = kind(cell, origin)
    return None if command in COMMANDS.get(who or "", set()) else f"{command} is not for {who or origin}"


def asked(headers: Mapping[str, Any]) -> Rule:
    """Channel and topic of a message; for a stream, those of the message in it."""
    channel, topic = str(headers.get(_CHANNEL)), str(headers.get(_TOPIC))
    if channel == STREAM and topic == DATA:
        return str(headers.get(_STREAM_CHANNEL)), str(headers.get(_STREAM_TOPIC))
    return channel, topic


def kind(cell: str, origin: str) -> str | None:
    """What `origin` is to `cell`, as in ALLOWED; None: nothing that may send it messages."""
    role, (root, job) = _role(cell), _parts(cell)
    other, other_job = _parts(origin)
    if role == "client":
        if other == SERVER:
            return "server" if not other_job else None
        return "own job" if other == root and other_job else None
    if role == "client job":
        if other == SERVER:
            return "server" if not other_job else "server job" if other_job == job else None
        return "parent" if origin == root else None
    if role == "server":
        if other == SERVER:
            return "own job" if other_job else None
        if other.startswith(ADMIN):
            return "admin" if not other_job else None
        return "client job" if other_job else "client"
    if other == SERVER:
        return "parent" if not other_job else None
    if other.startswith(ADMIN):
        return None
    return "client" if not other_job else "client job" if other_job == job else None


def _role(cell: str) -> str:
    root, job = _parts(cell)
    return ("server" if root == SERVER else "client") + (" job" if job else "")


def _parts(cell: str) -> tuple[str, str]:
    root, _, rest = cell.partition(".")
    return root, rest


def _behind(cell: str, neighbour: str, origin: str) -> bool:
    """Whether a message of this origin can arrive through this neighbour."""
    root, job = _parts(cell)
    if neighbour == SERVER and root != SERVER:
        return _parts(origin)[0] == SERVER
    if job:
        return neighbour == root  # the parent, which has already checked it
    return origin == neighbour or origin.startswith(f"{neighbour}.")


def _may_pass(cell: str, neighbour: str, origin: str, destination: str) -> bool:
    """Whether a parent may forward a message: only between its own jobs and those of the other side."""
    role = _role(cell)
    if role == "client":
        inwards = neighbour == SERVER and destination.startswith(f"{cell}.")
        return inwards or (origin.startswith(f"{cell}.") and _parts(destination)[0] == SERVER)
    if role == "server":
        (near, job), (far, far_job) = _parts(origin), _parts(destination)
        if near == SERVER:
            return bool(job) and far != SERVER and far_job in ("", job)
        return far == SERVER and bool(far_job) and not near.startswith(ADMIN) and job in ("", far_job)
    return False
