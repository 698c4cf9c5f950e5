"""What NVFlare's log means for whoever runs a node: it tries for ever, and says why only to those who know it well."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fedrel.errors import ShutOutError, UserError
from fedrel.federation.engines.nvflare.kits import Kit
from fedrel.files import Tail

_AGAIN = 300.0  # seconds until the same is said again
_OFTEN, _WITHIN = 4, 60.0  # times, seconds


class Remark(NamedTuple):
    pattern: str  # PORT is the coordinator's
    sentence: str  # with the kit's fields, and the groups of the pattern by number
    often: bool = False  # only if it happens again and again
    news: bool = False  # said whenever it happens
    final: type[UserError] | None = None  # the node ends with it


_BOTH = (
    Remark("BYOC not permitted", "refused a job that carries code: nothing runs here that is not installed"),
    Remark(
        "Component '([^']*)' at .* is not in allow_list",
        "refused a job that names {0}: fedrel's own parts alone run here",
    ),
)
_PLATFORM = (
    *_BOTH,
    Remark("^training: (.*)", "{0}", news=True),  # of our own process, to its own people
    Remark(
        "FederatedClient - INFO - Successfully registered client:",
        "{kit.name} is connected to the coordinator",
        news=True,
    ),
    Remark(
        "Communicator - INFO - Failed to send heartbeat.*client_quit",
        "the coordinator does not know {kit.name} any more: it was shut out, or another node runs with the same kit; "
        "start again to hear which",
    ),
    Remark(
        "Authenticator - ERROR - registration rejected: (Client '.*' is disabled)",  # who is revoked is, and stays so
        "the coordinator refuses {kit.name}: {0}",
        final=ShutOutError,
    ),
    Remark(
        "Authenticator - ERROR - registration rejected: (.*)",
        "the coordinator refuses {kit.name}: {0}",
        final=UserError,
    ),
    Remark(
        r"conn_manager - ERROR - .*:PORT\] failed with exception SSLCertVerificationError.*verify failed: ([^(]+)",
        "{kit.host}:{kit.port} is not the coordinator of this federation ({0}); is the address right, and the kit?",
    ),
    Remark(
        r"conn_manager - ERROR - .*:PORT\] failed with exception ConnectionRefusedError",
        "nobody answers at {kit.host}:{kit.port} yet; is the coordinator running, and is the port open from here?",
    ),
    Remark(
        r"conn_manager - ERROR - .*:PORT\] failed with exception gaierror",
        "no machine is called {kit.host}; is the name right?",
    ),
    Remark(
        r"conn_manager - ERROR - .*:PORT\] failed with exception (\w+)",
        "{kit.host}:{kit.port} cannot be reached ({0}); is the port open from here?",
    ),
    Remark(
        r"conn_manager - INFO - Connection \[.*:PORT SSL .*\] is created: PID: (\d+)",
        "the coordinator closes the connection again and again: it does not take this node for {kit.name}, or another "
        "one runs with the same kit",
        often=True,
    ),
)
_COORDINATOR = (
    *_BOTH,
    Remark(r"New client (\S+)@\S+ joined", "{0} joined", news=True),
    Remark(r"Re-activate the client: (\S+) at", "{0} is back", news=True),
    Remark("door - WARNING - (refused .*)", "{0}"),
    Remark(
        "authenticated as '([^']*)' but claimed endpoint '([^']*)'",
        "refused somebody with the certificate of {0} who says to be {1}",
    ),
    Remark(r"Client '?([^' ]+)'? is disabled", "refused {0}, who was shut out"),
    Remark(
        r"is evicted for \S+ from endpoint (\S+) for",
        "{0} connects again and again: is its kit in use twice?",
        often=True,
    ),
)


@dataclass
class Remarks:
    """Reads a node's log as it grows."""

    kit: Kit
    log: Path
    say: Callable[[str], None]
    _said: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._new = Tail(self.log)

    def __call__(self) -> None:
        for line in self._new.lines():
            self._read(line.decode(errors="replace"))

    def _read(self, line: str) -> None:
        for remark in _COORDINATOR if self.kit.role == "coordinator" else _PLATFORM:
            if found := re.search(remark.pattern.replace("PORT", str(self.kit.port)), line):
                groups = ["".join(filter(str.isprintable, group)).strip() for group in found.groups()]
                self._consider(remark, remark.sentence.format(*groups, kit=self.kit), " ".join(groups))
                return

    def _consider(self, remark: Remark, sentence: str, about: str) -> None:
        if remark.final:
            raise remark.final(sentence)
        now = time.monotonic()
        if remark.often:
            times = self._seen[about] = [it for it in self._seen.get(about, []) if now - it < _WITHIN] + [now]
            if len(times) < _OFTEN:
                return
        if remark.news or now - self._said.get(sentence, -_AGAIN) >= _AGAIN:
            self._said[sentence] = now
            self.say(sentence)
