"""One training of several platforms: their weights side by side, a step of all of them, and what became of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedrel.encoding.packed import PackedShard
from fedrel.encoding.shard import Shard
from fedrel.errors import DivergedError
from fedrel.extractors.convolution import Convolution
from fedrel.learning.fit import Fitted, Work
from fedrel.learning.model import Model
from fedrel.learning.named import Named
from fedrel.learning.optimizers import Pulls
from fedrel.stacked.buffers import Rooms
from fedrel.stacked.convolution import Library, Read, gradients, read
from fedrel.stacked.heads import Step, head_of
from fedrel.stacked.schedule import Schedule

WORTH_RECORDING = 6  # steps of one shape
_AROUND = 128  # tokens of a step are rounded up to multiples of it: few shapes
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # of AdamW, as the library has them
_SMALL = 1e-3  # a factor of the word table below this is folded into its rows


@dataclass(frozen=True)
class Room:
    """What a step has room for."""

    platforms: int
    sentences: int  # of each
    tokens: int  # of each


@dataclass
class _Table:
    """The platforms' word tables below each other, after one row of zeros. See WordTable for what the numbers mean."""

    rows: Tensor  # (1 + Σ v, D)
    start: Tensor | None  # (1 + Σ v, D)
    push: Tensor | None
    numbers: Tensor  # (steps, 4): factor, anchor and shift before a step, factor after it

    def values(self, chosen: Tensor, numbers: Tensor) -> Tensor:
        vectors = self.rows.index_select(0, chosen) * numbers[0]
        if self.start is not None:
            vectors.addcmul_(self.start.index_select(0, chosen), numbers[1])
        if self.push is not None:
            vectors.addcmul_(self.push.index_select(0, chosen), numbers[2])
        return vectors


class Program:
    """One training of several platforms."""

    def __init__(self, works: Sequence[Work], plan: Schedule, rooms: Rooms, room_for: int) -> None:
        first = works[0]
        self.works, self.plan, self.rooms, self.device = works, plan, rooms, rooms.device
        self.room_for = room_for
        self.encoder: Convolution = first.model.encoder  # type: ignore[assignment]
        self.training, self.lr = first.training, first.lr
        self.dtype = first.model.classifier.weight.dtype
        self.pulls = [Pulls(work.model, work.pull) if work.pull else None for work in works]
        self.strength = self.pulls[0].strength if self.pulls[0] else 0.0
        self.names = [name for name, _ in first.model.trained_parameters()]
        self._stack()
        self._lay_out()
        sgd = self.training.optimizer == "sgd"
        self.update = self._descend if sgd else self._adam
        self.head = head_of(works, plan, rooms, room_for, self.library.labels)
        self.recordable = bool(self.head.shape)
        learns = (first.plain, sgd, self.encoder.words.trainable, self.strength, bool(self.push))
        self.shape = (self.dtype, self.training, self.encoder.activation, len(self.names), *learns, *self.head.shape)

    # -- before -----------------------------------------------------------------------------------------------

    def _stack(self) -> None:
        """Weights (room_for, …) by name, and the tables."""
        take, n = self.rooms.rows, len(self.works)
        parameters = [dict(work.model.trained_parameters()) for work in self.works]
        self.weights = Named()
        for name in self.names:
            room = take(f"weights/{name}", self.room_for, *parameters[0][name].shape, dtype=self.dtype)
            torch.stack([own[name].detach() for own in parameters], out=room[:n])
            self.weights[name] = room
        tables = [work.model.encoder.words.rows for work in self.works]
        nothing = tables[0].new_zeros(1, tables[0].shape[1])
        trainable = self.encoder.words.trainable
        rows = self.rooms.filled("table", [nothing, *tables])
        self.ends = np.cumsum([1, *map(len, tables)])  # where each platform's rows begin, and the last ones end
        anchored = bool(trainable and self.strength)
        pushed = bool(trainable and self.pulls[0] and self.pulls[0].push)
        self.table = _Table(rows, start=None, push=None, numbers=torch.zeros(0))
        if anchored:
            self.table.start = take("table start", *rows.shape, dtype=self.dtype)
            self.table.start[: len(rows)].copy_(rows)
        if pushed:
            self.table.push = take("table push", *rows.shape, dtype=self.dtype)
            pushes = [nothing, *(it.push["words"] for it in self.pulls if it)]
            torch.cat(pushes, out=self.table.push[: self.ends[-1]])
        self.start, self.push = Named(), Named()
        if self.pulls[0] and self.pulls[0].push:
            for name in self.names:
                room = take(f"push/{name}", self.room_for, *parameters[0][name].shape, dtype=self.dtype)
                torch.stack([it.push[name] for it in self.pulls if it], out=room[:n])
                self.push[name] = room
        if self.strength:
            for name in self.names:
                room = take(f"start/{name}", self.room_for, *parameters[0][name].shape, dtype=self.dtype)
                self.start[name] = room.copy_(self.weights[name])
        if self.training.optimizer != "sgd":
            self.moments = {}
            for name, value in (*self.weights.items(), *([("table", rows)] if trainable else [])):
                for which in ("first", "second"):
                    room = take(f"{which}/{name}", *value.shape, dtype=self.dtype)
                    self.moments[which, name] = room.zero_()
            row_of = np.zeros(len(rows), np.int64)
            for place in range(n):
                row_of[self.ends[place] : self.ends[place + 1]] = place
            self.platform_of_row = take("platform of row", len(rows), dtype=torch.int64)
            self.platform_of_row[: len(rows)].copy_(torch.from_numpy(row_of))

    def _lay_out(self) -> None:
        """The sentences, and all that changes from step to step, in tables that a step reads its own line of."""
        shards = [_packed(work.shard).at(self.device) for work in self.works]
        sentences = np.cumsum([0, *map(len, shards)])
        tokens = np.cumsum([0, *(len(shard.tokens) for shard in shards)])
        fill = self.rooms.filled
        lengths = [self.encoder.piece_lengths(shard) for shard in shards]
        end = torch.zeros(1, dtype=torch.int64, device=self.device)
        starts = [shard.starts[:-1] + int(begin) for shard, begin in zip(shards, tokens, strict=False)]
        words = [shard.tokens + int(begin) for shard, begin in zip(shards, self.ends, strict=False)]
        self.library = Library(
            starts=fill("starts", [*starts, end + int(tokens[-1])]),
            tokens=fill("tokens", [*words, end.int()]),
            heads=fill("heads", [*(shard.head_distance for shard in shards), end.short()]),
            tails=fill("tails", [*(shard.tail_distance for shard in shards), end.short()]),
            lengths=fill("lengths", lengths),
            labels=fill("labels", [shard.labels for shard in shards]),
            separator=fill("separator", [end + int(tokens[-1])])[0],
        )
        chosen = self.plan.chosen
        steps, _, width = chosen.shape
        shift = torch.zeros(self.room_for, 1, dtype=torch.int64)
        shift[: len(self.works), 0] = torch.from_numpy(sentences[:-1])
        everything = torch.where(chosen < 0, chosen, chosen + shift)
        kind = "sentences" if self.works[0].plain else "bags"
        self.chosen = self.rooms.rows(f"chosen {kind}", steps, self.room_for, width, dtype=torch.int64)
        self.chosen[:steps].copy_(everything, non_blocking=True)
        places = torch.zeros(self.room_for + 1, dtype=torch.int64)  # the rows of padding: of each platform, and of all
        places[1 : len(self.works) + 1] = torch.from_numpy(self.ends[:-1])
        self.paddings = self.rooms.rows("paddings", self.room_for + 1, dtype=torch.int64)[: self.room_for + 1]
        self.paddings.copy_(places)
        self._number_tables(steps)
        self.losses = self.rooms.rows("losses", steps, self.room_for, dtype=self.dtype).zero_()
        self.counter = self.rooms.rows("counter", 1, dtype=torch.int64)[:1].zero_()
        self.rate = self.rooms.rows("rate", 1, dtype=self.dtype).fill_(self.lr)
        sizes = torch.zeros(chosen.shape, dtype=torch.int64)
        for place, work in enumerate(self.works):
            own = chosen[:, place]
            size = work.shard.starts.diff()
            sizes[:, place] = torch.where(own < 0, 0, size[own.clamp(min=0)])
        self.most_tokens: list[int] = sizes.sum(2).amax(1).tolist()  # (steps,)

    def _number_tables(self, steps: int) -> None:
        """What WordTable.step does to its numbers, step by step. A factor that has grown too small is folded into the
        rows before the step that `folds` names.
        """
        sgd = self.training.optimizer == "sgd" and self.encoder.words.trainable
        shrink = 1.0 - self.lr * (self.training.weight_decay + self.strength) if sgd else 1.0
        pull, push = (self.lr * self.strength, self.lr) if sgd else (0.0, 0.0)
        factor, anchor, shift = 1.0, 0.0, 0.0
        self.after: list[tuple[float, float, float]] = []
        self.folds: set[int] = set()
        lines = []
        for step in range(steps):
            if factor < _SMALL:
                self.folds.add(step)
                factor, anchor, shift = 1.0, 0.0, 0.0
            before = (factor, anchor, shift)
            factor, anchor, shift = factor * shrink, anchor * shrink + pull, shift * shrink - push
            self.after.append((factor, anchor, shift))
            lines.append((*before, factor))
        numbers = self.rooms.rows("numbers", steps, 4, dtype=self.dtype)
        numbers[:steps].copy_(torch.tensor(lines, dtype=self.dtype).view(-1, 4))
        self.table.numbers = numbers

    def rooms_of_steps(self) -> list[Room]:
        """How many platforms take part is rounded up to eighths of them. A step has room for the tokens and sentences
        of the longest one, or for half of them, or a quarter …: few shapes, and one giant bag is dear but once.
        """
        eighth = max(1, len(self.works) // 8)
        active = [-(-self.plan.active(step) // eighth) * eighth for step in range(len(self.most_tokens))]
        platforms = [min(len(self.works), some) for some in active]
        sentences = _rooms(self.plan.widest(), 1, self.plan.chosen.shape[2])
        tokens = _rooms(self.most_tokens, _AROUND, -(-max(self.most_tokens) // _AROUND) * _AROUND)
        return [Room(*each) for each in zip(platforms, sentences, tokens, strict=True)]

    def before(self, step: int) -> None:
        if step in self.folds:
            rows = slice(1, int(self.ends[self.plan.active(step)]))
            factor, anchor, shift = self.after[step - 1]
            part = self.table.rows[rows]
            part.mul_(factor)
            if self.table.start is not None:
                part.add_(self.table.start[rows], alpha=anchor)
            if self.table.push is not None:
                part.add_(self.table.push[rows], alpha=shift)

    # -- a step -----------------------------------------------------------------------------------------------

    def step(self, step: int, room: Room) -> None:
        """If it is recordable, what it reads depends on the counter, not on `step`."""
        n, tokens = room.platforms, room.tokens
        weights = Named({name: value[:n] for name, value in self.weights.items()})
        numbers = self.table.numbers.index_select(0, self.counter)[0]
        chosen = self.chosen.index_select(0, self.counter)[0, :n, : room.sentences]  # (n, S)
        seen = read(
            self.encoder, self.library, chosen, tokens, weights, lambda words: self.table.values(words, numbers)
        )
        losses, to_vectors, found = self.head(Step(step, self.counter, seen.vectors, chosen), weights)
        to_words, own = gradients(self.encoder, seen, to_vectors, weights)
        trains = (chosen >= 0).any(1).to(self.dtype)  # (n,) who still does
        self.losses[:, :n].index_copy_(0, self.counter, losses[None])
        unused = {name: torch.zeros_like(value) for name, value in weights.items()} if self.pulls[0] else {}
        grads = Named(unused | own | found)  # what the loss does not depend on rests, unless it is pulled
        used = Named({name: value for name, value in weights.items() if name in grads})
        self.update(grads, used, seen, to_words, trains, numbers)
        self.counter.add_(1)

    def _pulled(self, name: str, weight: Tensor, grad: Tensor) -> Tensor:
        if self.strength:
            grad = grad + self.strength * (weight - self.start[name][: len(weight)])
        return grad + self.push[name][: len(weight)] if name in self.push else grad

    def _descend(
        self, grads: Named, weights: Named, seen: Read, to_words: Tensor, trains: Tensor, numbers: Tensor
    ) -> None:
        rate = trains * self.rate[0]  # (n,)
        for name, weight in weights.items():
            change = self._pulled(name, weight, grads[name]).add_(weight, alpha=self.training.weight_decay)
            weight.sub_(change.mul_(rate.view(-1, *(1,) * (weight.dim() - 1))))
        if self.encoder.words.trainable:
            scale = -rate / numbers[3]
            self._add_to_table(self.table.rows, seen, to_words * scale.view(-1, 1, 1))

    def _add_to_table(self, table: Tensor, seen: Read, change: Tensor) -> None:
        table.index_add_(0, seen.words, change.reshape(len(seen.words), -1))
        table.index_fill_(0, self.paddings, 0)

    def _adam(
        self, grads: Named, weights: Named, seen: Read, to_words: Tensor, trains: Tensor, numbers: Tensor
    ) -> None:
        """Loshchilov & Hutter, ICLR 2019, as the library does it."""
        done = (self.counter + 1).to(torch.float64)
        small, large = 1 - _BETA1**done, (1 - _BETA2**done).sqrt()
        rate = trains * self.rate[0]
        for name, weight in weights.items():
            shape = (-1, *(1,) * (weight.dim() - 1))
            self._adam_step(name, weight, self._pulled(name, weight, grads[name]), rate.view(shape), small, large)
        if self.encoder.words.trainable:
            rows = self.table.rows
            whole = torch.zeros_like(rows)
            self._add_to_table(whole, seen, to_words)
            if self.table.start is not None:
                whole.add_(rows - self.table.start[: len(rows)], alpha=self.strength)
            if self.table.push is not None:
                whole.add_(self.table.push[: len(rows)])
            whole.index_fill_(0, self.paddings, 0)
            of_rows = rate.new_zeros(self.room_for)
            of_rows[: len(rate)] = rate
            self._adam_step("table", rows, whole, of_rows[self.platform_of_row[: len(rows)]][:, None], small, large)

    def _adam_step(self, name: str, weight: Tensor, grad: Tensor, rate: Tensor, small: Tensor, large: Tensor) -> None:
        first, second = (self.moments[which, name][: len(weight)] for which in ("first", "second"))
        first.lerp_(grad, 1 - _BETA1)
        second.mul_(_BETA2).addcmul_(grad, grad, value=1 - _BETA2)
        weight.mul_(1 - rate * self.training.weight_decay)
        denominator = second.sqrt().div_(large.to(self.dtype)).add_(_EPSILON)
        weight.sub_(rate / small.to(self.dtype) * first / denominator)

    # -- after ------------------------------------------------------------------------------------------------

    def finish(self) -> list[Fitted | DivergedError]:
        losses = self.losses.double().cpu()
        sums = [value[: len(self.works)].double().flatten(1).sum(1) for value in self.weights.values()]
        finite = torch.stack(sums).sum(0).isfinite()
        rows_finite = torch.stack([self._own_rows(place).sum() for place in range(len(self.works))]).isfinite()
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

    def _own_rows(self, place: int) -> Tensor:
        return self.table.rows[self.ends[place] : self.ends[place + 1]]

    def _hand_back(self, place: int, model: Model) -> None:
        for name, value in model.trained_parameters():
            value.copy_(self.weights[name][place])
        words, steps = model.encoder.words, self.plan.steps[place]
        words.rows = self._own_rows(place).clone()
        if words.trainable and steps:
            words.factor, words.anchor, words.shift = self.after[steps - 1]
            words.elsewhere = self._elsewhere(steps)

    def _elsewhere(self, steps: int) -> tuple[float, float]:
        decay, start, push = self.lr * self.training.weight_decay, 1.0, 0.0
        if self.training.optimizer != "sgd":
            return (1.0 - decay) ** steps, 0.0
        shrink = 1.0 - decay - self.lr * self.strength
        for _ in range(steps):
            start, push = start * shrink + self.lr * self.strength, push * shrink - self.lr
        return start, push


def _rooms(needs: list[int], around: int, whole: int) -> list[int]:
    """Of every step, the room for its need: the whole, or the smallest of its halves that will do and is used often."""
    halves = [whole]
    while (half := -(-halves[-1] // (2 * around)) * around) < halves[-1]:
        halves.append(half)
    found = [min(half for half in halves if half >= need) for need in needs]
    for half in halves[:0:-1]:
        if found.count(half) < WORTH_RECORDING:
            larger = min(room for room in halves if room > half)
            found = [larger if room == half else room for room in found]
    return found


def _packed(shard: Shard) -> PackedShard:
    assert isinstance(shard, PackedShard)
    return shard
