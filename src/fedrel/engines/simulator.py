"""All platforms in this process, a few at a time, behind the same codec as a real federation."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from fedrel.engines.engine import Upload
from fedrel.engines.held import Held
from fedrel.engines.rendezvous import meet
from fedrel.errors import DivergedError
from fedrel.learning.fit import Fitted, Work
from fedrel.learning.model import Model
from fedrel.learning.named import Named
from fedrel.privacy.entries import Field
from fedrel.protocol.codec import Record, decode, encode, fields, measure
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.site import Notes, Site
from fedrel.protocol.summed import Summed
from fedrel.protocol.tasks import answer
from fedrel.stacked.training import StackedTrainer, train_stacked
from fedrel.util.memory import trim

_AHEAD = 4  # platforms per worker that may be under way
_TRIM_EVERY = 200  # platforms; it takes some milliseconds
Answer = tuple[list[Field], Record | bytearray]  # what a reply is made of, and the reply, encoded or not


@dataclass
class Simulator:
    """An Exchange. Messages are encoded and decoded as on a wire, so nothing can be shared by accident; `direct`, they
    are handed over as they are and only measured: for large models on a GPU, where encoding takes longer than training.

    With several `workers`, as many platforms work side by side, each in a thread with a model of its own (the heavy
    loops let other threads run); the replies, and so the result, are the same to the last bit. `stacked`, up to so many
    train as one program (see stacked/training.py): the same but for the last digits.
    """

    algorithm: object
    sites: Mapping[str, Site]
    on_upload: Callable[[Upload], None] = lambda upload: None
    on_answer: Callable[[Ask, str], None] = lambda ask, platform: None
    workers: int = 1
    stacked: int = 0
    say: Callable[[str], None] = lambda line: None
    direct: bool = False
    half: bool = False  # numbers travel in 16 bits
    bytes_up: int = 0
    bytes_down: int = 0
    _round: int = -1
    active: set[str] = field(default_factory=set)
    _notes: dict[str, Notes] = field(default_factory=dict)  # of all who were ever asked
    _encoded: dict[int, tuple[Record, int, Record]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None
    _thread: threading.local = field(default_factory=threading.local)
    _trainer: StackedTrainer | None = None
    _twins: list[Model] = field(default_factory=list)

    def listen(self, on_upload: Callable[[Upload], None], on_answer: Callable[[Ask, str], None]) -> None:
        self.on_upload, self.on_answer = on_upload, on_answer

    def __call__(self, ask: Ask) -> Replies:
        replies = Summed(ask.layout) if ask.layout else Held()
        for number, (name, (found, reply)) in enumerate(self.answers(ask), 1):
            self.bytes_up += sum(entry.bytes for entry in found)
            self.on_upload(Upload(ask.round, name, ask.task, found))
            self.on_answer(ask, name)
            if isinstance(reply, dict):
                replies.add(name, reply, b"")
            else:
                replies.add(name, decode(reply), reply)
            if number % _TRIM_EVERY == 0:
                trim()
        return replies

    def answers(self, ask: Ask) -> Iterator[tuple[str, Answer]]:
        """Every platform's reply as it would travel, in the order of the request."""
        self._encoded = {}
        if ask.round != self._round:
            self.end_round()
            self._round = ask.round
        self.active |= ask.to.keys()
        return self._answers(ask)

    def _answers(self, ask: Ask) -> Iterator[tuple[str, Answer]]:
        received = {name: self._deliver(message) for name, message in ask.to.items()}
        if self.stacked:
            yield from self._stacked(ask, received)
            return
        if min(self.workers, len(received)) < 2:
            for name, message in received.items():
                yield name, self._work(ask, name, message, self.sites[name].model)
            return
        self._pool = self._pool or threads(self.workers)
        under_way: deque[tuple[str, Future[Answer]]] = deque()
        try:
            for name, message in received.items():
                under_way.append((name, self._pool.submit(self._work_beside, ask, name, message)))
                if len(under_way) > _AHEAD * self.workers:  # replies that nobody took yet would fill the memory
                    first, reply = under_way.popleft()
                    yield first, reply.result()
            while under_way:
                first, reply = under_way.popleft()
                yield first, reply.result()
        finally:
            for _, reply in under_way:
                reply.cancel()

    def _stacked(self, ask: Ask, received: Mapping[str, Record]) -> Iterator[tuple[str, Answer]]:
        names = list(received)
        while names:
            some, names = names[: self.stacked], names[self.stacked :]
            model = self.sites[some[0]].model
            self._twins += [model.twin() for _ in range(len(some) - len(self._twins))]
            tasks = [
                partial(self._work, ask, name, received[name], twin)
                for name, twin in zip(some, self._twins, strict=False)
            ]
            yield from zip(some, meet(tasks, self._train), strict=True)

    def _train(self, works: Sequence[Work]) -> list[Fitted | DivergedError]:
        """Stacked, or in parts if memory does not suffice for all."""
        device = works[0].model.device
        found: list[Fitted | DivergedError] = []
        while len(found) < len(works):
            some = works[len(found) : len(found) + self.stacked]
            if self._trainer is None or self._trainer.capacity < len(some):
                self._trainer = StackedTrainer(max(len(some), min(self.stacked, len(works))), device)
            try:
                found += train_stacked(some, self._trainer)
            except torch.OutOfMemoryError:
                if len(some) == 1:
                    raise
                self._trainer, self.stacked = None, len(some) // 2
                torch.cuda.empty_cache()
                self.say(f"{len(some)} platforms at once are too many for the GPU's memory; from now on {self.stacked}")
        return found

    def _work_beside(self, ask: Ask, name: str, message: Record) -> Answer:
        site = self.sites[name]
        if getattr(self._thread, "twin_of", None) is not site.model:
            self._thread.twin_of, self._thread.model = site.model, site.model.twin()
        return self._work(ask, name, message, self._thread.model)

    def _work(self, ask: Ask, name: str, message: Record, model: Model) -> Answer:
        before, site = _versions(message), self.sites[name]
        self._notes[name] = site.notes
        try:
            reply = answer(self.algorithm, site, ask, dict(message), model)
        except DivergedError as error:
            raise DivergedError(f"round {ask.round + 1}, platform {name}: {error}") from None
        if _versions(message) != before:
            raise RuntimeError(f"{ask.task} on {name} wrote into the message it was sent")
        if self.direct:
            return measure(reply), reply
        payload = encode(reply, half=self.half)
        return fields(payload), payload

    def end_round(self) -> None:
        """What platforms kept for the rest of a round is gone (engines of separate processes do the same)."""
        for name in self.active & self._notes.keys():
            self._notes[name].scratch, self._notes[name].selected = {}, None
        self.active = set()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)  # of a round that came to nothing
            self._pool = None

    def memories(self) -> dict[str, Record]:
        return {name: notes.memory for name, notes in self._notes.items() if notes.memory}

    def remember(self, memories: Mapping[str, Record]) -> None:
        for name, memory in memories.items():
            self._notes[name] = self.sites[name].notes
            self._notes[name].memory = memory

    def selections(self) -> dict[str, Tensor]:
        kept = {name: self._notes[name] for name in sorted(self.active & self._notes.keys())}
        return {name: notes.selected for name, notes in kept.items() if notes.selected is not None}

    def _deliver(self, message: Record) -> Record:
        """Encodes a broadcast once: its receivers share one read-only copy, and it is checked that none wrote to it."""
        known = self._encoded.get(id(message))
        if known is None and self.direct:
            known = (message, sum(entry.bytes for entry in measure(message)), message)
        elif known is None:
            payload = encode(message, half=self.half)
            known = (message, len(payload), decode(payload))  # holding `message` keeps its id its own
        self._encoded[id(message)] = known
        self.bytes_down += known[1]
        return known[2]


def threads(count: int) -> ThreadPoolExecutor:
    """Threads for heavy loops. Between two loops each needs Python's lock for microseconds, so it must change hands
    at once: waiting for it as long as is usual made two threads a tenth slower.
    """
    sys.setswitchinterval(1e-4)
    return ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),))


def _versions(message: Record) -> list[int]:
    """How often each tensor was written to."""
    return [tensor._version for value in message.values() if isinstance(value, Named) for tensor in value.values()]
