"""A malicious member of a FLARE federation: a genuine client that logs in, and then sends what no client sends.

    python -m tests.federation.nvflare.rogue ARGUMENTS OF FLARE'S CLIENT    a JSON list of what to try on standard input

Each try is {"to", "channel", "topic", "command", "body", "stream"}: `command` goes inside a message for the admin
channel; `stream` sends it as large messages are sent. The answers are printed as one line of JSON.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.private.admin_defs import Message as AdminMessage
from nvflare.private.fed.client.fed_client import FederatedClient

_PATIENCE = 1.0


def attempt(cell: Any, what: dict[str, Any]) -> dict[str, Any]:
    payload: Any = what.get("body", "")
    if what.get("command"):
        payload = AdminMessage(topic=what["command"], body=payload)
    send = cell.send_request if what.get("stream") else cell.core_cell.send_request
    found = send(what["channel"], what["topic"], what["to"], Message(payload=payload), timeout=_PATIENCE)
    body = getattr(found.payload, "body", found.payload)
    return {**what, "code": found.get_header(MessageHeaderKey.RETURN_CODE), "answer": str(body)}


def attack(cell: Any) -> None:
    print("\n" + json.dumps([attempt(cell, what) for what in json.load(sys.stdin)]), flush=True)
    os._exit(0)


def main() -> None:
    start_heartbeat = FederatedClient.start_heartbeat

    def and_attack(self: Any, *arguments: Any, **more: Any) -> None:
        start_heartbeat(self, *arguments, **more)
        threading.Thread(target=attack, args=(self.cell,), daemon=True).start()

    FederatedClient.start_heartbeat = and_attack
    runpy.run_module("nvflare.private.fed.app.client.client_train", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
