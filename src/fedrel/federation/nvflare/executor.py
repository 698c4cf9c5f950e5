"""The relay at a platform's site: hands requests to the platform's node, and its answers back. It sees signed bytes."""

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
from fedrel.federation.nvflare.line import Line, socket_path

TASK = "fedrel"  # the only one of the job
BEAT = "fedrel.beat"
HEADER, PAYLOAD = "fedrel", "payload"
BEAT_SECONDS = 1.0
MOST_REPLY = 16 * 2**30
_PATIENCE = 5.0  # seconds for the answer to a sign of life
_TICK = 0.2
_SERVER = "server"


class RelayExecutor(Executor):  # type: ignore[misc]  # nvflare has no types
    def __init__(self) -> None:
        super().__init__()
        self.line: Line | None = None
        self.node: dict[str, Any] = {}  # who the node said it is; empty: it is not there
        self.replies: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.news, self.ended = threading.Event(), threading.Event()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            self.engine = fl_ctx.get_engine()
            path = socket_path(Path(self.engine.get_workspace().get_root_dir()))
            self.line = Line(path, self._heard, self._changed)
            self.line.start()
            threading.Thread(target=self._beat, name="fedrel beat", daemon=True).start()
        elif event_type == EventType.END_RUN:
            self.ended.set()
            self.news.set()
            if self.line is not None:
                self.line.close()

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
        """Tells the coordinator's relay once a second, and at once if it changes, whether the node is there."""
        while not self.ended.is_set():
            sign = Shareable()
            sign[HEADER] = dict(self.node)
            with self.engine.new_context() as fl_ctx:
                found = self.engine.send_aux_request([_SERVER], BEAT, sign, _PATIENCE, fl_ctx, optional=True)
            answer = (found or {}).get(_SERVER)
            state = "connected" if _is_ok(answer) else "FLARE's server, or the relay job on it, does not answer"
            if isinstance(answer, Shareable) and isinstance(answer.get(HEADER), str):
                state = answer[HEADER] or state
            if self.line is not None and self.node:
                self.line.send({"do": "state", "state": state})
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
            self.replies.get()  # of requests that were given up
        if self.line is None or not node:
            return _lost(number)
        if not self.line.send({"do": "request", "id": number, "head": head}, Blob.of(payload)):
            return _lost(number)
        while not abort.triggered:
            try:
                message = self.replies.get(timeout=_TICK)
            except queue.Empty:
                if self.node is not node:  # it ended, and whatever it was at is lost
                    return _lost(number)
                continue
            if message.header["id"] == number:
                return _answer(number, message.header["head"], message.payload, most)
        return make_reply(ReturnCode.TASK_ABORTED)


def _is_ok(answer: object) -> bool:
    return isinstance(answer, Shareable) and answer.get_return_code() == ReturnCode.OK


def _lost(number: int) -> Shareable:
    """The coordinator asks again when the node is back."""
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
