"""Stacked training: the weights of several platforms stacked, a layer of all of them one batched product.

The result is that of training them one by one, to the last digits: same batches, same dropout. Platforms with fewer
steps finish early. On a GPU a step is recorded once as a CUDA graph, for every padded shape that occurs often, and then
only replayed: inside an epoch nothing waits. A loss or a denoiser that does not opt in is computed platform after
platform (see heads.py), and its steps are not recorded.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import torch

from fedrel.encoding.packed import PackedShard
from fedrel.errors import DivergedError
from fedrel.learning.fit import Fitted, Work, fit_alone
from fedrel.learning.model import plain_convolution_of
from fedrel.learning.optimizers import OPTIMIZERS, SGD, AdamW
from fedrel.learning.proximal import Pull
from fedrel.stacked.buffers import BufferPool
from fedrel.stacked.heads import ReadsText
from fedrel.stacked.program import WORTH_RECORDING, PaddedShape, Program
from fedrel.stacked.schedule import longest_first, schedule
from fedrel.util.profiling import timed


def can_stack(work: Work) -> bool:
    """Whether stacked training computes exactly what training this platform by itself computes."""
    return (
        plain_convolution_of(work.model) is not None
        and type(work.shard) is PackedShard
        and OPTIMIZERS[work.training.optimizer] in (SGD, AdamW)
        and (work.pull is None or type(work.pull) is Pull)
        and not work.training.micro_batch
        and len(work.sentences) > 0
    )


def _kind(work: Work) -> Hashable:
    """Works of one kind can be one program: it takes all of this from the first of them."""
    pull, push = work.pull, None
    if pull is not None:
        push = None if pull.push is None else frozenset(pull.push)
    return work.plain, work.loss is None, work.training, work.lr, pull and pull.strength, push, pull is None


class StackedTrainer:
    """Trains up to `capacity` platforms as one program, again and again; buffers and recorded steps are kept."""

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.capacity = capacity
        self.pool = BufferPool(device)
        self.device = device
        self._graphs: dict[tuple[object, ...], torch.cuda.CUDAGraph] = {}
        self._moves = 0
        self._widest: dict[bool, int] = {}

    def train(self, works: Sequence[Work]) -> list[Fitted | DivergedError]:
        """Works that can be stacked and are of one kind; the results in their order."""
        order = longest_first(works)
        results = self._train([works[place] for place in order])
        by_place = dict(zip(order, results, strict=True))
        return [by_place[place] for place in range(len(works))]

    @torch.no_grad()
    def _train(self, works: Sequence[Work]) -> list[Fitted | DivergedError]:
        by_bag = not works[0].plain
        plan = schedule(works, self.capacity, self._widest.get(by_bag, 0))
        self._widest[by_bag] = plan.chosen.shape[2]  # growing again and again would be recording again and again
        program = Program(works, plan, self.pool, self.capacity)
        shapes = program.padded_shapes()
        often = Counter(shapes)
        for step, shape in enumerate(shapes):
            program.before(step)
            self._step(program, step, shape, worth=often[shape] >= WORTH_RECORDING)
        return program.finish()

    def _step(self, program: Program, step: int, shape: PaddedShape, *, worth: bool) -> None:
        if self.device.type != "cuda" or not program.recordable or not worth:
            program.step(step, shape)
            return
        if self._moves != self.pool.moves:
            self._graphs, self._moves = {}, self.pool.moves
        key = (shape, *program.shape)
        graph = self._graphs.get(key)
        if graph is not None:
            graph.replay()
            return
        program.step(step, shape)  # libraries prepare themselves when first called
        self._graphs[key] = self._record(lambda: program.step(step, shape))

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
def train_stacked(works: Sequence[Work], trainer: StackedTrainer) -> list[Fitted | DivergedError]:
    """Those that can be stacked as one program, or one for each kind among them; the others one after another."""
    kinds: dict[Hashable, list[int]] = {}
    for place, work in enumerate(works):
        if can_stack(work):
            kinds.setdefault(_kind(work), []).append(place)
    found: dict[int, Fitted | DivergedError] = {}
    for alike in kinds.values():
        try:
            found |= zip(alike, trainer.train([works[place] for place in alike]), strict=True)
        except ReadsText:
            continue  # nothing has been handed back yet: the models are as they were loaded
    for place, work in enumerate(works):
        if place not in found:
            try:
                found[place] = fit_alone(work)
            except DivergedError as error:
                found[place] = error
    return [found[place] for place in range(len(works))]
