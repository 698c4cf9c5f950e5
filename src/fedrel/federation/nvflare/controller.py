"""The relay at FLARE's server: carries each request of the coordinator's node to one site, and the reply back.

It runs until the job is aborted, and serves all runs in that time. All work is done in one thread; callbacks in FLARE's
threads only put events into its queue.
"""

from __future__ import annotations

import json
import math
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedrel.federation.channel import Blob, Message
from fedrel.federation.nvflare.executor import BEAT, BEAT_SECONDS, HEADER, PAYLOAD, TASK
from fedrel.federation.nvflare.node_link import NodeLink, socket_path

MOST_REQUEST = 2 * 2**30  # bytes: FLARE's messages have 32-bit lengths
_SILENT = 8 * BEAT_SECONDS  # seconds without a heartbeat, after which a site counts as disconnected
_TICK = 0.5
_SLACK = 60  # seconds beyond a request's own time limit, within which the coordinator gives up by itself
_SLOWEST = 10_000  # bytes a second, for which a time limit makes allowance
_LONGEST = 10_000_000  # seconds


@dataclass
class Site:
    """A FLARE client whose node is connected."""

    client: str
    session: str
    version: str
    seen: float


@dataclass
class Asked:
    """A request that a site has not answered yet."""

    id: int
    most: int
    task: Task


class RelayController(Controller):  # type: ignore[misc]  # nvflare has no types
    """FLARE's controller of the job: the coordinator's end of the relay."""

    def __init__(self) -> None:
        super().__init__(task_check_period=0.05)
        self.events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.sites: dict[str, Site] = {}  # by the name of the platform
        self.asked: dict[str, Asked] = {}
        self.clients: set[str] = set()
        self.connected = False

    # -- FLARE's interface --------------------------------------------------------------------------------------

    def start_controller(self, fl_ctx: FLContext) -> None:
        self.engine = fl_ctx.get_engine()
        path = socket_path(Path(self.engine.get_workspace().get_root_dir()))
        self.link = NodeLink(path, self._later(self._from_node), self._later(self._changed))
        self.engine.register_aux_message_handler(BEAT, self._beat)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        self.fl_ctx = fl_ctx
        self.link.start()
        while not abort_signal.triggered:
            try:
                event = self.events.get(timeout=_TICK)
            except queue.Empty:
                pass
            else:
                event()
            self._check_heartbeats()

    def stop_controller(self, fl_ctx: FLContext) -> None:
        self.link.close()

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Drops a reply to a request that is no longer pending."""

    def _later(self, then: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda what: self.events.put(partial(then, what))

    # -- which sites are connected ------------------------------------------------------------------------------

    def _beat(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Handles a site's heartbeat, in a thread of FLARE's."""
        peer = fl_ctx.get_peer_context()
        client = str(peer.get_identity_name()) if peer is not None else ""
        said = request.get(HEADER)
        self.events.put(partial(self._heard_of, client, said if isinstance(said, dict) else {}))
        answer = make_reply(ReturnCode.OK)
        answer[HEADER] = "" if self.connected else "the coordinator's node is not running, or not connected to FLARE"
        return answer

    def _heard_of(self, client: str, said: dict[str, Any]) -> None:
        match said:
            case {"name": str(name), "session": str(session), "version": str(version)} if name:
                pass
            case _:  # its node is not running
                for name in [name for name, site in self.sites.items() if site.client == client]:
                    self._gone(name, "its node ended")
                return
        known = self.sites.get(name)
        clients = {it.name for it in self.engine.get_clients()}
        if (known is not None and known.client != client) or (name != client and name in clients):
            self.link.send({"do": "refused", "name": name, "why": f"FLARE site {client} claims to be {name}"})
            return
        if known is None or known.session != session:
            self._gone(name, "its node was restarted")
            self.sites[name] = Site(client, session, version, time.monotonic())
            self._here(name)
        self.sites[name].seen = time.monotonic()

    def _here(self, name: str) -> None:
        site = self.sites[name]
        told = {"name": name, "session": site.session, "address": site.client, "version": site.version}
        self.link.send({"do": "here", **told})

    def _gone(self, name: str, why: str) -> None:
        self._drop(name)
        if self.sites.pop(name, None) is not None:
            self.link.send({"do": "gone", "name": name, "why": why})

    def _check_heartbeats(self) -> None:
        for name, site in list(self.sites.items()):
            if time.monotonic() - site.seen > _SILENT:
                self._gone(name, "its FLARE site sends no heartbeat")

    # -- the coordinator's node ---------------------------------------------------------------------------------

    def _changed(self, here: bool) -> None:
        self.connected = here
        for name in list(self.asked):
            self._drop(name)
        if here:
            for name in self.sites:
                self._here(name)

    def _from_node(self, message: Message) -> None:
        match message.header:
            case {"do": "ask", "to": str(name), "id": int(number), "head": dict(head), "most": int(most)}:
                if name in self.sites and message.payload is not None:
                    self._ask(name, number, head, most, message.payload)
            case {"do": "drop", "to": str(name), "id": int(number)}:
                if name in self.asked and self.asked[name].id == number:
                    self._drop(name)

    def _ask(self, name: str, number: int, head: dict[str, Any], most: int, payload: Blob) -> None:
        self._drop(name)
        if len(payload) > MOST_REQUEST:
            self._reply(name, number, {"failed": f"{len(payload):,} bytes are more than FLARE can carry"})
            return
        data = Shareable()
        data[HEADER] = {"id": number, "head": head, "most": most}
        data[PAYLOAD] = bytes(payload.read(MOST_REQUEST))
        task = Task(
            TASK,
            data,
            timeout=_seconds(head, len(payload) + min(most, 2**28)),
            after_task_sent_cb=lambda client_task, fl_ctx: self.events.put(partial(self._delivered, name, number)),
            result_received_cb=partial(self._received, name, number),
            task_done_cb=lambda task, fl_ctx: self.events.put(partial(self._done, name, number, task)),
        )
        self.asked[name] = Asked(number, most, task)
        self.broadcast(task, self.fl_ctx, targets=[self.sites[name].client], min_responses=1)

    def _drop(self, name: str) -> None:
        asked = self.asked.pop(name, None)
        if asked is not None and asked.task.completion_status is None:
            self.cancel_task(asked.task)

    def _delivered(self, name: str, number: int) -> None:
        self.link.send({"do": "delivered", "name": name, "id": number})

    def _received(self, name: str, number: int, client_task: ClientTask, fl_ctx: FLContext) -> None:
        """Takes a result, in a thread of FLARE's."""
        result = client_task.result
        client_task.result = None  # otherwise FLARE keeps it in memory until the job ends
        self.events.put(partial(self._arrived, name, number, result))

    def _arrived(self, name: str, number: int, result: Shareable) -> None:
        asked = self.asked.get(name)
        if asked is None or asked.id != number:
            return
        del self.asked[name]
        header, payload = result.get(HEADER), result.get(PAYLOAD)
        match header:
            case {"id": int(answered), "lost": True} if answered == number:
                self._gone(name, "its node ended")  # it is asked again when it is back
            case {"id": int(answered), "head": dict(head)} if answered == number and isinstance(payload, bytes):
                if len(payload) > asked.most:
                    why = f"{len(payload):,} bytes where at most {asked.most:,} were expected"
                    self._reply(name, number, {"refused": why})
                else:
                    self._reply(name, number, head, Blob.of(payload))
            case _:
                self._reply(
                    name, number, {"failed": f"the FLARE site sent no valid reply ({result.get_return_code()})"}
                )

    def _done(self, name: str, number: int, task: Task) -> None:
        """FLARE has ended this task: if no reply has arrived by now, none will."""
        asked = self.asked.get(name)
        if asked is not None and asked.id == number:
            del self.asked[name]
            self._reply(name, number, {"failed": f"no answer ({task.completion_status})"})

    def _reply(self, name: str, number: int, head: dict[str, Any], payload: Blob | None = None) -> None:
        self.link.send({"do": "reply", "name": name, "id": number, "head": head}, payload)


def _seconds(head: dict[str, Any], size: int) -> int:
    """How long FLARE keeps the task, in seconds: longer than the coordinator waits for the reply."""
    try:
        told = float(json.loads(head["text"])["seconds"])
    except (KeyError, TypeError, ValueError, RecursionError):
        told = 0.0
    return int(min(told if math.isfinite(told) and told > 0 else 0.0, _LONGEST) + _SLACK + size / _SLOWEST)
