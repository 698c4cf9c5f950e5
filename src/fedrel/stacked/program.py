"""One training of several platforms: their weights stacked, a step of all of them, and what became of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedrel.encoding.packed import PackedShard
from fedrel.encoding.shard import Shard
from fedrel.errors import DivergedError
from fedrel.learning.fit import Fitted, Work
from fedrel.learning.model import Model, plain_convolution_of
from fedrel.learning.named import Named
from fedrel.learning.optimizers import Pulls
from fedrel.stacked.buffers import BufferPool
from fedrel.stacked.convolution import Text, backward, forward
from fedrel.stacked.heads import Gradients, Step, head_of
from fedrel.stacked.schedule import Schedule
from fedrel.stacked.updates import Change, StackedAdamW, StackedPulls, StackedSGD, Update
from fedrel.stacked.words import StackedWords

WORTH_RECORDING = 6  # steps of one padded shape
_AROUND = 128  # tokens of a step are rounded up to multiples of it: few shapes


@dataclass(frozen=True)
class PaddedShape:
    """What a step is padded to."""

    platforms: int
    sentences: int  # of each
    tokens: int  # of each


class Program:
    """One training of P platforms, in buffers for `capacity` of them. `works` are of one kind (see stacked/training.py)
    and in the order of `plan`.
    """

    def __init__(self, works: Sequence[Work], plan: Schedule, pool: BufferPool, capacity: int) -> None:
        first = works[0]
        encoder = plain_convolution_of(first.model)
        assert encoder is not None
        self.works, self.plan, self.pool, self.device = works, plan, pool, pool.device
        self.capacity = capacity
        self.encoder = encoder
        self.training, self.lr = first.training, first.lr
        self.dtype = first.model.classifier.weight.dtype
        pulls = [Pulls(work.model, work.pull) if work.pull else None for work in works]
        self.pulled = pulls[0] is not None
        self._stack_weights()
        self.words = StackedWords(works, pulls, pool, capacity)
        self._lay_out()
        stacked_pulls = StackedPulls(self.weights, pulls, pool, capacity, self.dtype)
        self.update: Update = (
            StackedSGD(self.training, self.words, stacked_pulls)
            if self.training.optimizer == "sgd"
            else StackedAdamW(self.training, self.words, stacked_pulls, self.weights, pool)
        )
        self.head = head_of(works, plan, pool, capacity, self.text.labels)
        self.recordable = bool(self.head.shape)
        self.shape = (
            *(self.dtype, self.training, self.encoder.activation, len(self.weights), self.encoder.words.trainable),
            *(first.plain, stacked_pulls.strength, frozenset(stacked_pulls.push), *self.head.shape),
        )

    # -- before -----------------------------------------------------------------------------------------------

    def _stack_weights(self) -> None:
        """Weights (capacity, …) by name."""
        parameters = [dict(work.model.trained_parameters()) for work in self.works]
        self.weights = Named()
        for name, value in parameters[0].items():
            buffer = self.pool.take(f"weights/{name}", self.capacity, *value.shape, dtype=self.dtype)
            torch.stack([own[name].detach() for own in parameters], out=buffer[: len(self.works)])
            self.weights[name] = buffer[: self.capacity]

    def _lay_out(self) -> None:
        """The sentences, and all that changes from step to step, in tables that a step reads its own line of."""
        shards = [_packed(work.shard).at(self.device) for work in self.works]
        sentences = np.cumsum([0, *map(len, shards)])
        tokens = np.cumsum([0, *(len(shard.tokens) for shard in shards)])
        joined = self.pool.joined
        lengths = [self.encoder.piece_lengths(shard) for shard in shards]
        end = torch.zeros(1, dtype=torch.int64, device=self.device)
        starts = [shard.starts[:-1] + int(begin) for shard, begin in zip(shards, tokens, strict=False)]
        words = [shard.tokens + int(begin) for shard, begin in zip(shards, self.words.begins, strict=False)]
        self.text = Text(
            starts=joined("starts", [*starts, end + int(tokens[-1])]),
            tokens=joined("tokens", [*words, end.int()]),
            heads=joined("heads", [*(shard.head_distance for shard in shards), end.short()]),
            tails=joined("tails", [*(shard.tail_distance for shard in shards), end.short()]),
            lengths=joined("lengths", lengths),
            labels=joined("labels", [shard.labels for shard in shards]),
            separator=joined("separator", [end + int(tokens[-1])])[0],
        )
        chosen = self.plan.chosen
        steps, _, width = chosen.shape
        shift = torch.zeros(self.capacity, 1, dtype=torch.int64)
        shift[: len(self.works), 0] = torch.from_numpy(sentences[:-1])
        everything = torch.where(chosen < 0, chosen, chosen + shift)
        kind = "sentences" if self.works[0].plain else "bags"
        self.chosen = self.pool.take(f"chosen {kind}", steps, self.capacity, width, dtype=torch.int64)
        self.chosen[:steps].copy_(everything, non_blocking=True)
        self.words.plan(steps, self.pool)
        self.losses = self.pool.take("losses", steps, self.capacity, dtype=self.dtype).zero_()
        self.counter = self.pool.take("counter", 1, dtype=torch.int64)[:1].zero_()
        self.rate = self.pool.take("rate", 1, dtype=self.dtype).fill_(self.lr)
        sizes = torch.zeros(chosen.shape, dtype=torch.int64)
        for place, work in enumerate(self.works):
            own = chosen[:, place]
            size = work.shard.starts.diff()
            sizes[:, place] = torch.where(own < 0, 0, size[own.clamp(min=0)])
        self.most_tokens: list[int] = sizes.sum(2).amax(1).tolist()  # (steps,)

    def padded_shapes(self) -> list[PaddedShape]:
        """Of every step. The number of platforms is rounded up to eighths of all; sentences and tokens are those of the
        longest step, or half of them, or a quarter …: few shapes, and one giant bag is expensive only once.
        """
        eighth = max(1, len(self.works) // 8)
        active = [-(-self.plan.active(step) // eighth) * eighth for step in range(len(self.most_tokens))]
        platforms = [min(len(self.works), some) for some in active]
        sentences = _padded(self.plan.widest(), 1, self.plan.chosen.shape[2])
        tokens = _padded(self.most_tokens, _AROUND, -(-max(self.most_tokens) // _AROUND) * _AROUND)
        return [PaddedShape(*each) for each in zip(platforms, sentences, tokens, strict=True)]

    # -- a step -----------------------------------------------------------------------------------------------

    def before(self, step: int) -> None:
        """What cannot be part of a recorded step."""
        self.words.fold(step, self.plan.active(step))

    def step(self, step: int, shape: PaddedShape) -> None:
        """If it is recordable, what it reads depends on the counter, not on `step`."""
        n, tokens = shape.platforms, shape.tokens
        weights = Named({name: value[:n] for name, value in self.weights.items()})
        numbers = self.words.numbers.index_select(0, self.counter)[0]
        chosen = self.chosen.index_select(0, self.counter)[0, :n, : shape.sentences]  # (n, S)
        seen = forward(
            self.encoder, self.text, chosen, tokens, weights, lambda words: self.words.values(words, numbers)
        )
        found = self.head(Step(step, self.counter, seen.vectors, chosen), weights)
        to_vectors = torch.zeros_like(seen.vectors) if found.vectors is None else found.vectors
        to_words, own = backward(self.encoder, seen, to_vectors, weights)
        grads, reached = self._all_gradients(found, own, weights)
        trains = (chosen >= 0).any(1).to(self.dtype)  # (n,) who still does
        self.losses[:, :n].index_copy_(0, self.counter, found.losses[None])
        self.update(Change(weights, grads, reached, seen.words, to_words, trains * self.rate[0], numbers, self.counter))
        self.counter.add_(1)

    def _all_gradients(self, found: Gradients, own: Named, weights: Named) -> tuple[Named, dict[str, list[int]] | None]:
        """The gradients of all weights that change, and where: `own` are the encoder's, by way of the vectors. What no
        loss reaches rests, as it does where autograd leaves no gradient; unless it is pulled.
        """
        grads = Named(own if found.vectors is not None else {})
        reached = None if found.reached is None else {name: list(found.reached_vectors or []) for name in grads}
        for name, grad in found.weights.items():
            grads[name] = grads[name] + grad if name in grads else grad
            if reached is not None and found.reached is not None:
                reached[name] = sorted({*reached.get(name, []), *found.reached[name]})
        if self.pulled:
            resting = {name: torch.zeros_like(value) for name, value in weights.items() if name not in grads}
            return Named(grads | resting), None
        return grads, reached

    # -- after ------------------------------------------------------------------------------------------------

    def finish(self) -> list[Fitted | DivergedError]:
        """Hands every platform its weights back; what training would have returned or raised, platform by platform."""
        losses = self.losses.double().cpu()
        sums = [
            value[: len(self.works)].double().reshape(len(self.works), -1).sum(1) for value in self.weights.values()
        ]
        finite = torch.stack(sums).sum(0).isfinite()
        rows_finite = torch.stack([self.words.own(place).sum() for place in range(len(self.works))]).isfinite()
        finite = (finite & rows_finite).cpu()
        found: list[Fitted | DivergedError] = []
        for place, work in enumerate(self.works):
            ends = self.plan.epochs[place]
            means = [float(losses[a:b, place].mean()) for a, b in zip([0, *ends], ends, strict=False) if b > a]
            self._hand_back(place, work.model)
            if not all(map(math.isfinite, means)):
                found.append(DivergedError("the loss is not a number any more; lower training.lr"))
            elif not finite[place]:
                found.append(DivergedError("the weights are not numbers any more; lower training.lr"))
            else:
                found.append(Fitted(self.plan.steps[place], means[-1] if means else 0.0, work.sentences))
        return found

    def _hand_back(self, place: int, model: Model) -> None:
        for name, value in model.trained_parameters():
            value.copy_(self.weights[name][place])
        self.words.hand_back(place, model.encoder.words, self.plan.steps[place])
        model.draw_from(None, 0.0)


def _padded(needs: list[int], around: int, whole: int) -> list[int]:
    """What every step is padded to: the whole, or the smallest of its halves that will do and is used often."""
    halves = [whole]
    while (half := -(-halves[-1] // (2 * around)) * around) < halves[-1]:
        halves.append(half)
    found = [min(half for half in halves if half >= need) for need in needs]
    for half in halves[:0:-1]:
        if found.count(half) < WORTH_RECORDING:
            larger = min(other for other in halves if other > half)
            found = [larger if size == half else size for size in found]
    return found


def _packed(shard: Shard) -> PackedShard:
    assert isinstance(shard, PackedShard)
    return shard
