"""The relay at a platform's site: passes requests to the platform's node and its replies back. It sees signed bytes."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedrel.federation.channel import Blob, Message
from fedrel.federation.nvflare.node_link import NodeLink, socket_path

TASK = "fedrel"  # the job's only task
BEAT = "fedrel.beat"
HEADER, PAYLOAD = "fedrel", "payload"
BEAT_SECONDS = 1.0
MOST_REPLY = 16 * 2**30
_PATIENCE = 5.0  # seconds for the answer to a heartbeat
_TICK = 0.2
_SERVER = "server"


class RelayExecutor(Executor):  # type: ignore[misc]  # nvflare has no types
    """FLARE's executor of the job: a platform's end of the relay."""

    def __init__(self) -> None:
        super().__init__()
        self.link: NodeLink | None = None
        self.node: dict[str, Any] = {}  # name, session and version of the node; empty: it is not connected
        self.replies: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.news, self.ended = threading.Event(), threading.Event()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            self.engine = fl_ctx.get_engine()
            path = socket_path(Path(self.engine.get_workspace().get_root_dir()))
            self.link = NodeLink(path, self._heard, self._changed)
            self.link.start()
            threading.Thread(target=self._beat, name="fedrel beat", daemon=True).start()
        elif event_type == EventType.END_RUN:
            self.ended.set()
            self.news.set()
            if self.link is not None:
                self.link.close()

    # -- the node -----------------------------------------------------------------------------------------------

    def _heard(self, message: Message) -> None:
        match message.header:
            case {"do": "hello", "name": str(name), "session": str(session), "version": str(version)}:
                self.node = {"name": name, "session": session, "version": version}
                self.news.set()
            case {"do": "reply", "id": int(), "head": dict()}:
                self.replies.put(message)

    def _changed(self, here: bool) -> None:
        if not here:
            self.node = {}
            self.news.set()

    def _beat(self) -> None:
        """Tells the relay at the coordinator whether the node is connected: every second, and on each change."""
        while not self.ended.is_set():
            sign = Shareable()
            sign[HEADER] = dict(self.node)
            with self.engine.new_context() as fl_ctx:
                found = self.engine.send_aux_request([_SERVER], BEAT, sign, _PATIENCE, fl_ctx, optional=True)
            answer = (found or {}).get(_SERVER)
            state = "connected" if _is_ok(answer) else "FLARE's server, or the relay job on it, does not answer"
            if isinstance(answer, Shareable) and isinstance(answer.get(HEADER), str):
                state = answer[HEADER] or state
            if self.link is not None and self.node:
                self.link.send({"do": "state", "state": state})
            self.news.wait(BEAT_SECONDS)
            self.news.clear()

    # -- requests -----------------------------------------------------------------------------------------------

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        header, payload = shareable.get(HEADER), shareable.get(PAYLOAD)
        match header:
            case {"id": int(number), "head": dict(head), "most": int(most)} if isinstance(payload, bytes | bytearray):
                return self._carry(number, head, payload, min(most, MOST_REPLY), abort_signal)
        return make_reply(ReturnCode.BAD_TASK_DATA)

    def _carry(
        self, number: int, head: dict[str, Any], payload: bytes | bytearray, most: int, abort: Signal
    ) -> Shareable:
        node = self.node
        while not self.replies.empty():
            self.replies.get()  # replies to earlier requests, which are no longer awaited
        if self.link is None or not node:
            return _lost(number)
        if not self.link.send({"do": "request", "id": number, "head": head}, Blob.of(payload)):
            return _lost(number)
        while not abort.triggered:
            try:
                message = self.replies.get(timeout=_TICK)
            except queue.Empty:
                if self.node is not node:  # it ended or was restarted, and the request is lost
                    return _lost(number)
                continue
            if message.header["id"] == number:
                return _answer(number, message.header["head"], message.payload, most)
        return make_reply(ReturnCode.TASK_ABORTED)


def _is_ok(answer: object) -> bool:
    return isinstance(answer, Shareable) and answer.get_return_code() == ReturnCode.OK


def _lost(number: int) -> Shareable:
    """Says that the node has gone; the coordinator asks again when it is back."""
    reply = Shareable()
    reply[HEADER] = {"id": number, "lost": True}
    return reply


def _answer(number: int, head: dict[str, Any], payload: Blob | None, most: int) -> Shareable:
    reply = Shareable()
    if payload is not None and len(payload) > most:
        head, payload = {"refused": f"{len(payload):,} bytes where at most {most:,} were expected"}, None
    reply[HEADER] = {"id": number, "head": head}
    reply[PAYLOAD] = b"" if payload is None else bytes(payload.read(most))
    return reply
