"""A platform's node: the parent of the network process, which cannot read the data, and of the worker, which has no
network.

It passes signed messages between the two, restarts processes that die, kills a worker that exceeds its deadline, and
reports to the operator. It has no network itself.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrel.errors import ShutOutError, UserError
from fedrel.federation.channel import Blob, ClosedError, Message
from fedrel.federation.kits.kit import Kit
from fedrel.federation.nodes.audit import Audit
from fedrel.federation.nodes.processes import Child, Heard, Log, Pauses, ending_signals, hear, only_one
from fedrel.federation.nodes.relay import BRIDGE, Relay
from fedrel.util.files import private_folder

_TICK = 0.5
_LONGEST = 1e7  # seconds
TRANSPORT = "fedrel.federation.https.transport"


@dataclass
class Task:
    """The request that the worker is working on."""

    id: int
    until: float
    said: object = None  # the request without its number; not verified here
    again: bool = False  # whether the worker has received it twice


@dataclass
class PlatformNode:
    """A platform's node; `run` runs it in the foreground."""

    kit: Kit
    data: Path
    store: str
    say: Callable[[str], None]
    each: Callable[[], None] = lambda: None  # called a few times a second
    relay: Relay | None = None  # another carrier, instead of our own
    transport: Child | None = None
    worker: Child | None = None
    task: Task | None = None
    pauses: dict[str, Pauses] = field(default_factory=lambda: {"transport": Pauses()})
    start_again: float = 0.0

    def __post_init__(self) -> None:
        self.folder = self.kit.folder.absolute()
        self.audit = Audit(self.folder)

    def run(self) -> None:
        """Runs the node until SIGINT or SIGTERM. Raises UserError if another node uses the kit, and ShutOutError if the
        coordinator refuses this platform permanently.
        """
        sentence = f"{self.kit.folder}: a node with this kit is already running; stop it first"
        with only_one(self.folder / ".node.lock", sentence), ending_signals() as ended:
            self.log = Log(self.folder)
            self.spool = private_folder(self.folder / "spool")
            self.audit.write("node started", pid=os.getpid())
            try:
                while not ended():
                    self._keep_transport()
                    self._hear()
                    self._check_deadline()
                    self.each()
            finally:
                for child in (self.transport, self.worker):
                    if child is not None:
                        child.end(gracefully=child is self.transport)
                self.audit.write("node ended")

    # -- the network process ----------------------------------------------------------------------------------

    def _keep_transport(self) -> None:
        if self.transport is None and time.monotonic() >= self.start_again:
            if self.relay is not None:
                told = self.relay.told("platform", self.kit.name, private_folder(self.spool / "transport"))
                self.transport = Child.start("bridge", BRIDGE, told, self.log)
                return
            told = {
                "host": self.kit.host,
                "port": self.kit.port,
                "tls": str(self.folder / "tls"),
                "spool": str(private_folder(self.spool / "transport")),
            }
            self.transport = Child.start("transport", TRANSPORT, told, self.log)

    def _transport_ended(self) -> None:
        assert self.transport is not None
        pause = self.pauses["transport"].after(self.transport)
        self.transport.reap()
        self.say(f"the network process ended unexpectedly ({self.transport.how}); restarting in {pause:g} s")
        self.audit.write("transport ended", how=self.transport.how)
        self.transport, self.start_again = None, time.monotonic() + pause

    def _from_transport(self, message: Message) -> None:
        header = message.header
        match header["do"]:
            case "request":
                self._give(int(header["id"]), header["head"], message.payload)
            case "state":
                self._state(str(header["state"]), final=header.get("final") is True)
            case "confined":
                self._confined("the network process", header["problems"])
            case "unwanted":
                self.audit.write("reply rejected", why=str(header["why"]))
            case "refused":
                self.audit.write("refused", why=str(header["why"]))
                self.say(f"refused: {header['why']}")
            case "failed":
                raise UserError(str(header["why"]))

    def _state(self, state: str, *, final: bool) -> None:
        self.audit.write("connected" if state == "connected" else "not connected", why=state)
        if final:
            raise ShutOutError(f"the coordinator refuses {self.kit.name}: {state}")
        self.say(f"{self.kit.name} is connected" if state == "connected" else state)

    def _confined(self, who: str, problems: list[str]) -> None:
        self.audit.write("confined", who=who, problems=problems)
        for problem in problems:
            self.say(f"{who} is not fully confined: {problem}")

    # -- the worker -------------------------------------------------------------------------------------------

    def _give(self, number: int, head: Any, payload: Blob | None) -> None:
        """Passes a request to the worker. A different request means that the coordinator has given up on the current
        one: the worker is replaced. The same request again means that the connection or a process was lost: the worker
        keeps working, and answers it when it is done.
        """
        said, again = _said(head), False
        if self.task is not None and self.worker is not None:
            again = said is not None and said == self.task.said and not self.task.again
            if not again:
                self.worker.end(gracefully=False)
                self.worker, self.task = None, None
        self.worker = self.worker or self._start_worker()
        self.task = Task(number, time.monotonic() + _seconds(head), said, again)
        try:
            self.worker.channel.send({"do": "request", "id": number, "head": head}, payload)
        except (ClosedError, ValueError):
            self._worker_ended()

    def _start_worker(self) -> Child:
        writable = [private_folder(self.folder / name) for name in ("ledger", "memory", "spool/worker")]
        told = {
            "kit": str(self.folder),
            "data": str(self.data),
            "store": self.store,
            "spool": str(self.spool / "worker"),
        }
        return Child.confined("worker", "training", told, writable, self.log)

    def _worker_ended(self) -> None:
        assert self.worker is not None
        self.worker.reap()
        how, task = self.worker.how, self.task
        self.worker, self.task = None, None
        self.audit.write("training process ended", how=how)
        if task is not None:
            self._answer(task.id, {"failed": f"the platform's training process ended with {how}"})

    def _from_worker(self, message: Message) -> None:
        match message.header["do"]:
            case "reply" if self.task is not None and message.header["id"] == self.task.id:
                self._answer(self.task.id, message.header["head"], message.payload)
                self.task = None
            case "confined":
                self._confined("the training process", message.header["problems"])

    def _answer(self, number: int, head: dict[str, Any], payload: Blob | None = None) -> None:
        if self.transport is not None:
            try:
                self.transport.channel.send({"do": "reply", "id": number, "head": head}, payload)
            except ClosedError:
                self._transport_ended()

    def _check_deadline(self) -> None:
        if self.task is not None and time.monotonic() > self.task.until and self.worker is not None:
            self._answer(self.task.id, {"failed": "not finished by the deadline"})
            self.worker.end(gracefully=False)
            self.worker, self.task = None, None
            self.audit.write("training process ended", how="not finished by the deadline")

    # -- both children ----------------------------------------------------------------------------------------

    def _hear(self) -> None:
        children: list[Heard] = [
            (self.transport, self._from_transport, self._transport_ended),
            (self.worker, self._from_worker, self._worker_ended),
        ]
        hear(children, _TICK, lambda who: self.audit.write("invalid message", who=who))


def _said(head: Any) -> object:
    """The request without its number, to be compared; None if it cannot be read."""
    try:
        return {name: value for name, value in json.loads(head["text"]).items() if name != "number"}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _seconds(head: Any) -> float:
    """The time limit in a request, in seconds. The worker verifies the request; this is only for the deadline."""
    try:
        seconds = float(json.loads(head["text"])["seconds"])
        return seconds if math.isfinite(seconds) and 0 < seconds <= _LONGEST else 1.0
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return 60.0
