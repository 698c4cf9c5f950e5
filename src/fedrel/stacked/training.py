"""Platforms that train as one program: their weights stacked, a layer of all of them one batched product.

The result is that of training them one by one, to the last digits: same batches, same dropout. Platforms with fewer
steps finish early. On a GPU a step is recorded once as a CUDA graph, for every number of platforms, sentences and
tokens that occurs often, and then only replayed: inside an epoch nothing waits. Only a loss that a method brings itself
is found platform after platform (see heads.py), and not recorded.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Sequence

import torch

from fedrel.encoding.packed import PackedShard
from fedrel.errors import DivergedError
from fedrel.kernels.opt_in import opted_in
from fedrel.learning.fit import Fitted, Work, fit_alone
from fedrel.learning.model import plain_convolution_of
from fedrel.learning.optimizers import OPTIMIZERS, SGD, AdamW
from fedrel.learning.proximal import Pull
from fedrel.stacked.buffers import Rooms
from fedrel.stacked.program import WORTH_RECORDING, Program, Room
from fedrel.stacked.schedule import longest_first, schedule
from fedrel.util.profiling import timed


def can_join(work: Work) -> bool:
    """Whether stacked training computes exactly what training this platform by itself computes."""
    return (
        plain_convolution_of(work.model) is not None
        and type(work.shard) is PackedShard
        and OPTIMIZERS[work.training.optimizer] in (SGD, AdamW)
        and (work.pull is None or type(work.pull) is Pull)
        and (work.loss is not None or opted_in(work.model.denoiser, "stackable"))
        and not work.training.micro_batch
        and len(work.sentences) > 0
    )


class Cohort:
    """Trains works together, again and again; what it needs for that it keeps."""

    def __init__(self, room_for: int, device: torch.device) -> None:
        self.room_for = room_for
        self.rooms = Rooms(device)
        self.device = device
        self._graphs: dict[tuple[object, ...], torch.cuda.CUDAGraph] = {}
        self._moves = 0
        self._widest: dict[bool, int] = {}

    def train(self, works: Sequence[Work]) -> list[Fitted | DivergedError]:
        order = longest_first(works)
        sorted_works = [works[place] for place in order]
        results = self._train(sorted_works)
        found: list[Fitted | DivergedError] = [DivergedError("")] * len(works)
        for place, result in zip(order, results, strict=True):
            found[place] = result
        return found

    @torch.no_grad()
    def _train(self, works: Sequence[Work]) -> list[Fitted | DivergedError]:
        by_bag = not works[0].plain
        plan = schedule(works, self.room_for, self._widest.get(by_bag, 0))
        self._widest[by_bag] = plan.chosen.shape[2]  # growing again and again would be recording again and again
        program = Program(works, plan, self.rooms, self.room_for)
        rooms = program.rooms_of_steps()
        often = Counter(rooms)
        for step, room in enumerate(rooms):
            program.before(step)
            self._step(program, step, room, worth=often[room] >= WORTH_RECORDING)
        return program.finish()

    def _step(self, program: Program, step: int, room: Room, *, worth: bool) -> None:
        if self.device.type != "cuda" or not program.recordable or not worth:
            program.step(step, room)
            return
        if self._moves != self.rooms.moves:
            self._graphs, self._moves = {}, self.rooms.moves
        shape = (room, *program.shape)
        graph = self._graphs.get(shape)
        if graph is not None:
            graph.replay()
            return
        program.step(step, room)  # libraries prepare themselves when first called
        self._graphs[shape] = self._record(lambda: program.step(step, room))

    def _record(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        others = next(iter(self._graphs.values()), None)  # all share what they need meanwhile: one runs at a time
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        collecting = gc.isenabled()
        gc.disable()  # an old graph must not be thrown away while a new one is being recorded
        with torch.cuda.stream(side):
            graph.capture_begin(pool=others.pool() if others else None)
            try:
                work()
            finally:
                graph.capture_end()
                if collecting:
                    gc.enable()
        torch.cuda.current_stream().wait_stream(side)
        return graph


@timed("train")
def train_together(works: Sequence[Work], cohort: Cohort) -> list[Fitted | DivergedError]:
    """Those that can, as one (or as a few, if not all have the same kind of loss); the others, one after another."""
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for place, work in enumerate(works):
        if can_join(work):
            kinds.setdefault((work.plain, work.loss is None), []).append(place)
    found: dict[int, Fitted | DivergedError] = {}
    for able in kinds.values():
        found |= zip(able, cohort.train([works[place] for place in able]), strict=True)
    for place, work in enumerate(works):
        if place not in found:
            try:
                found[place] = fit_alone(work)
            except DivergedError as error:
                found[place] = error
    return [found[place] for place in range(len(works))]
