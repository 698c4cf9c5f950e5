"""The guard (optional): FLARE's own client or server, with a filter for everything that comes from the network.

    python -m fedrel.federation.nvflare.guard client -m WORKSPACE -s fed_client.json --set …
    python -m fedrel.federation.nvflare.guard server -m WORKSPACE -s fed_server.json --set …

replace `nvflare.private.fed.app.client.client_train` and `….server.server_train`, with the same arguments. Job
processes are started with the filter too. A message that rules.py does not allow is refused before its content is
decoded, and recorded in guard.jsonl in the workspace. Meant for a FLARE federation that only serves fedrel: other kinds
of jobs may need messages that are not allowed here.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessageType, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.private.admin_defs import error_reply
from nvflare.private.defs import new_cell_message
from nvflare.private.fed.client.admin import FedAdminAgent

from fedrel.federation.nvflare import rules

LOG = "guard.jsonl"
MODULE = "fedrel.federation.nvflare.guard"
_APP = "nvflare.private.fed.app"
PROGRAMS = {
    "client": f"{_APP}.client.client_train",
    "client-job": f"{_APP}.client.worker_process",
    "server": f"{_APP}.server.server_train",
    "server-job": f"{_APP}.server.runner_process",
}
_MOST_KINDS = 10_000  # different refusals that are counted separately
_SHOWN = 200  # characters of a value


class Log:
    """Records the first, tenth, hundredth, … occurrence of the same refusal, so that refusals cannot fill the disk."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def refused(self, cell: str, neighbour: str, origin: str, asked: rules.Rule, why: str) -> None:
        key = tuple(str(part)[:_SHOWN] for part in (cell, neighbour, origin, *asked, why))
        with self._lock:
            if key not in self._counts and len(self._counts) >= _MOST_KINDS:
                key = ("", "", "", "", "", "other refusals")
            self._counts[key] += 1
            count = self._counts[key]
            if str(count).strip("0") != "1":
                return
            names = ("cell", "neighbour", "origin", "channel", "topic", "why")
            line = {"time": time.time(), "pid": os.getpid(), **dict(zip(names, key, strict=True)), "count": count}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def install(log: Log) -> None:
    """Installs the filter in this process, irrevocably."""
    receive, dispatch = CoreCell._process_received_msg, FedAdminAgent._dispatch_request

    def filtered(self: Any, endpoint: Any, connection: Any, message: Any) -> Any:
        cell, headers = self.my_info.fqcn, message.headers or {}
        why = rules.objection(cell, endpoint.name, headers)
        if why is None:
            return receive(self, endpoint, connection, message)
        origin = str(headers.get(MessageHeaderKey.ORIGIN))
        log.refused(cell, endpoint.name, origin, rules.asked(headers), why)
        _answer(self, endpoint, headers)
        return None

    def dispatched(self: Any, request: Any) -> Any:
        cell = self.cell.core_cell.my_info.fqcn
        origin, command = str(request.get_header(MessageHeaderKey.ORIGIN)), str(getattr(request.payload, "topic", ""))
        why = rules.objection_to_command(cell, origin, command)
        if why is None:
            return dispatch(self, request)
        log.refused(cell, "", origin, ("admin", command), why)
        return new_cell_message({}, error_reply("refused by the site's guard"))

    CoreCell._process_received_msg = filtered
    FedAdminAgent._dispatch_request = dispatched
    _guard_jobs(ClientProcessJobLauncher, "client-job")
    _guard_jobs(ServerProcessJobLauncher, "server-job")


def _answer(cell: Any, endpoint: Any, headers: dict[str, Any]) -> None:
    """Answers a refused request, so that its sender does not wait for a timeout."""
    asked = headers.get(MessageHeaderKey.MSG_TYPE) == MessageType.REQ
    mine = headers.get(MessageHeaderKey.DESTINATION) == cell.my_info.fqcn
    if not (asked and mine and headers.get(MessageHeaderKey.REPLY_EXPECTED)):
        return
    reply = make_reply(ReturnCode.UNAUTHENTICATED, error="refused by the site's guard")
    reply.add_headers(
        {
            MessageHeaderKey.CHANNEL: headers.get(MessageHeaderKey.CHANNEL),
            MessageHeaderKey.TOPIC: headers.get(MessageHeaderKey.TOPIC),
            MessageHeaderKey.FROM_CELL: cell.my_info.fqcn,
            MessageHeaderKey.TO_CELL: endpoint.name,
            MessageHeaderKey.ORIGIN: cell.my_info.fqcn,
            MessageHeaderKey.DESTINATION: headers.get(MessageHeaderKey.ORIGIN),
            MessageHeaderKey.REQ_ID: headers.get(MessageHeaderKey.REQ_ID, ""),
            MessageHeaderKey.MSG_TYPE: MessageType.REPLY,
            MessageHeaderKey.ROUTE: [(cell.my_info.fqcn, time.time())],
        }
    )
    cell._send_reply(reply, endpoint)


def _guard_jobs(launcher: Any, kind: str) -> None:
    command = launcher.get_command
    plain, guarded = f"-m {PROGRAMS[kind]} ", f"-m {MODULE} {kind} "

    def get_command(self: Any, job_meta: Any, fl_ctx: Any) -> str:
        found = str(command(self, job_meta, fl_ctx))
        if found.count(plain) != 1:
            raise RuntimeError(f"the guard does not support the way this version of FLARE starts a job: {found}")
        return found.replace(plain, guarded)

    launcher.get_command = get_command


def main() -> None:
    """Installs the filter and runs FLARE's program."""
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        raise SystemExit(f"usage: python -m {MODULE} client|server FLARE_ARGUMENTS")
    kind, arguments = sys.argv[1], sys.argv[2:]
    workspace = next((after for it, after in pairwise(arguments) if it in ("-m", "--workspace")), "")
    if not workspace:
        raise SystemExit("the guard needs FLARE's -m WORKSPACE, for its log")
    install(Log(Path(workspace) / LOG))
    sys.argv = [sys.argv[0], *arguments]
    runpy.run_module(PROGRAMS[kind], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
