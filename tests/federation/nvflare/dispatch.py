"""A FLARE process without a network: which callbacks a message reaches, with the guard installed.

    python -m tests.federation.nvflare.dispatch LOG      a JSON list of [cell, neighbour, headers] on standard input

Prints, for each, whether NVFlare's own dispatch reached the callback; the guard's refusals go to LOG.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.registry import Callback, Registry
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message

from fedrel.federation.nvflare.guard import Log, install


class Everything(Registry):  # type: ignore[misc]  # nvflare has no types
    """Accepts every message, and remembers it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = False

    def find(self, channel: str, topic: str) -> Callback:
        return Callback(self._reach, (), {})

    def _reach(self, message: Any) -> None:
        self.reached = True


def main() -> None:
    install(Log(Path(sys.argv[1])))
    cells: dict[str, CoreCell] = {}
    results = []
    for name, neighbour, headers in json.load(sys.stdin):
        if name not in cells:
            cells[name] = CoreCell(name, "tcp://localhost:1", False, {}, parent_url="tcp://localhost:2")
        cell = cells[name]
        cell.req_reg = everything = Everything()
        passed: list[str] = []
        cell._forward = lambda *arguments, passed=passed: passed.append("on")
        cell._process_received_msg(Endpoint(neighbour), None, Message(headers, None))
        results.append(everything.reached or bool(passed))
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
