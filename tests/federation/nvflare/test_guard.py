"""NVFlare answers many messages from the network; with the guard, only those that the relay's job needs."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.federation.nvflare.callbacks import COMMANDS, REQUESTS, STREAMS, each

pytest.importorskip("nvflare")
from fedrel.federation.nvflare import rules

CELLS = {"client": "p0", "client job": "p0.J", "server": "server", "server job": "server.J"}
_STREAM = {("sm__STREAM", "sm__ACK"), ("sm__STREAM", "sm__ERROR")}
_REPLIES = ("return_only", "server_command:get_task")
_BYE = ("cellnet.channel", "bye")
# Allowed requests by (receiver, origin, neighbour), as names of cells. All others are refused.
ALLOWED = {
    ("client", "server", "server"): {("admin", "admin"), _BYE, _REPLIES, *_STREAM},
    ("client", "p0.J", "p0.J"): {("admin", "train.notify_job_status"), _BYE, _REPLIES, *_STREAM},
    ("client job", "p0", "p0"): {("client_command", "abort"), _BYE},
    ("client job", "server", "server"): {_BYE, _REPLIES, *_STREAM},
    ("client job", "server.J", "server"): {("aux_communication", "__end_run__"), _REPLIES, *_STREAM},
    ("client job", "server.J", "p0"): {("aux_communication", "__end_run__"), _REPLIES, *_STREAM},
    ("server", "p1", "p1"): {
        *(("task", it) for it in ("challenge", "heart_beat", "quit", "register", "report_job_failure")),
        *(_BYE, _REPLIES, *_STREAM),
    },
    ("server", "p1.J", "p1.J"): {_BYE, _REPLIES, *_STREAM},
    ("server", "p1.J", "p1"): {_BYE, _REPLIES, *_STREAM},
    ("server", "_admin_1", "_admin_1"): {
        *(("task", it) for it in ("challenge", "quit", "register")),
        *(("aux_communication", f"ObjectStreamer.{it}") for it in ("Abort", "Request")),
        *(("hci_channel", "command"), _BYE, _REPLIES, *_STREAM),
    },
    ("server", "server.J", "server.J"): {
        *(("server_parent_listener", it) for it in ("get_clients", "heartbeat", "update_run_status")),
        *(_BYE, _REPLIES, *_STREAM),
    },
    ("server job", "server", "server"): {
        *(("server_command", it) for it in ("abort", "handle_dead_job")),
        *(_BYE, _REPLIES, *_STREAM),
    },
    ("server job", "p1.J", "server"): {
        *(("server_command", it) for it in ("get_task", "submit_update")),
        *(("aux_communication", it) for it in ("__job_heartbeat__", "__sync_runner__", "__task_check__")),
        *(("aux_communication", "fedrel.beat"), _REPLIES, *_STREAM),
    },
    ("server job", "p1", "server"): {("sm__STREAM", "sm__ERROR")},
}
# Other attackers: a peer through the server or over its own connection, a cell that claims to be the server, …
STRANGERS = [
    ("client", "p1", "server"),
    ("client", "p1", "p1"),
    ("client", "server", "p1"),
    ("client", "server.J", "server"),
    ("client", "_admin_1", "server"),
    ("client", "p0", "p1"),
    ("client", "p0.J", "server"),
    ("client job", "p1", "server"),
    ("client job", "p1.J", "server"),
    ("client job", "p1.J", "p0"),
    ("client job", "server.K", "server"),
    ("client job", "server.J", "p1"),
    ("client job", "p0", "server"),
    ("client job", "_admin_1", "p0"),
    ("server", "server", "p1"),
    ("server", "p0", "p1"),
    ("server", "server.J", "p1"),
    ("server", "_admin_1", "p1"),
    ("server job", "p1.K", "server"),
    ("server job", "_admin_1", "server"),
    ("server job", "p1.J", "p1"),
]


def headers(origin, destination, channel, topic, *, stream=False, kind="req"):
    found = {"cn__msg_type": kind, "cn__origin": origin, "cn__destination": destination, "cn__from": origin}
    if stream:
        found |= {"cn__channel": "sm__STREAM", "cn__topic": "sm__DATA", "sm__ch": channel, "sm__tp": topic}
    else:
        found |= {"cn__channel": channel, "cn__topic": topic}
    return found


def dispatched(tmp_path, tries):
    """Whether each message reached a callback of NVFlare's, with the guard installed."""
    command = [sys.executable, "-m", "tests.federation.nvflare.dispatch", str(tmp_path / "log.jsonl")]
    done = subprocess.run(command, input=json.dumps(tries), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_each_callback_of_nvflare_is_refused_unless_the_relay_needs_it(tmp_path):
    tries, wanted = [], []
    for receiver, origin, neighbour in [*ALLOWED, *STRANGERS]:
        cell, allowed = CELLS[receiver], ALLOWED.get((receiver, origin, neighbour), set())
        for stream, pairs in ((False, REQUESTS[receiver]), (True, STREAMS[receiver])):
            for pair in each(pairs):
                if pair == ("sm__STREAM", "sm__DATA"):
                    continue  # the message in the stream counts, and is tried too
                tries.append((cell, neighbour, headers(origin, cell, *pair, stream=stream)))
                wanted.append(pair in allowed)
    found = dispatched(tmp_path, tries)
    wrong = [(it, reached) for it, reached, right in zip(tries, found, wanted, strict=True) if reached != right]
    assert wrong == []
    assert 0.03 < sum(wanted) / len(wanted) < 0.2
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(line["why"] and line["origin"] and line["channel"] for line in logged)


@pytest.mark.parametrize(
    "cell, neighbour, origin, destination, passed",
    [
        ("server", "p1", "p1", "p0", False),
        ("server", "p1", "p1", "p0.J", False),
        ("server", "p1.J", "p1.J", "p0.J", False),
        ("server", "_admin_1", "_admin_1", "p0", False),
        ("server", "_admin_1", "_admin_1", "server.J", False),
        ("server", "p1", "server", "p0", False),
        ("server", "p1", "server.J", "p0.J", False),
        ("server", "p1.J", "p1.J", "server.J", True),
        ("server", "p1.J", "p1.J", "server.K", False),
        ("server", "server.J", "server.J", "p0.J", True),
        ("server", "server.J", "server.J", "p0.K", False),
        ("p0", "server", "server.J", "p0.J", True),
        ("p0", "server", "p1.J", "p0.J", False),
        ("p0", "p0.J", "p0.J", "server.J", True),
        ("p0", "p0.J", "p0.J", "p1", False),
        ("p0", "p1", "p1", "p0.J", False),
        ("p0.J", "server", "server.J", "p1", False),
    ],
)
def test_no_site_reaches_another_through_a_third(cell, neighbour, origin, destination, passed):
    for kind in ("req", "reply", "return"):
        found = headers(origin, destination, "admin", "admin", kind=kind)
        assert (rules.objection(cell, neighbour, found) is None) == passed


def test_only_the_server_commands_and_only_what_the_job_needs():
    needed = {f"train.{it}" for it in ("deploy", "start_job", "abort")}
    needed |= {f"scheduler.{it}_resource" for it in ("check", "cancel")}
    for command in COMMANDS:
        assert (rules.objection_to_command("p0", "server", command) is None) == (command in needed)
        assert (rules.objection_to_command("p0", "p0.J", command) is None) == (command == "train.notify_job_status")
        for stranger in ("p1", "p1.J", "server.J", "_admin_1", "p0", ""):
            assert rules.objection_to_command("p0", stranger, command) is not None


@pytest.mark.parametrize("broken", [{}, {"cn__origin": 1, "cn__destination": "p0"}, {"cn__origin": "server"}])
def test_a_message_without_valid_names_is_refused(broken):
    assert rules.objection("p0", "server", broken) is not None


def test_a_reply_is_accepted_only_from_cells_that_can_be_asked():
    for origin, fine in (("server", True), ("p1", False)):
        found = headers(origin, "p0", "task", "heart_beat", kind="reply")
        assert (rules.objection("p0", "server", found) is None) == fine
    assert rules.objection("p0", "server", headers("server", "p0", "admin", "admin", kind="other")) is not None


def test_nvflare_registers_callbacks_where_it_did():
    """A new place in its source may mean a new callback: run the slow test, review it, and change the number."""
    spec = importlib.util.find_spec("nvflare")
    root = Path(spec.origin).parent
    places = Counter()
    for path in root.rglob("*.py"):
        found = len(re.findall(r"\.register_request_cb\(|\.register_blob_cb\(", path.read_text(encoding="utf-8")))
        if found:
            places[path.relative_to(root).parts[0]] += found
    assert places == PLACES


PLACES = {"app_common": 11, "app_opt": 4, "client": 9, "collab": 1, "edge": 3, "fuel": 36, "private": 16}
