"""Platforms that train as one program: their weights stacked, a layer of all of them one batched product.

The result is that of training them one by one, to the last digits: same batches, same dropout. What a method asks of
the head (a loss of its own, a denoiser by bag) is done platform after platform, in the same step; convolutions are
read together. Platforms with fewer steps finish early. On a GPU a step is recorded once as a CUDA graph, for every
number of platforms and of tokens that occurs often, and then only replayed: inside an epoch nothing waits.
"""

from __future__ import annotations

import copy
import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from fedrel.denoisers import Denoiser, best_of_group
from fedrel.encoding.packed import PackedBatch, PackedShard
from fedrel.encoding.shard import Shard
from fedrel.errors import DivergedError
from fedrel.extractors.convolution import Convolution
from fedrel.extractors.draws import key, stays
from fedrel.learning.fit import Fitted, Work, fit_alone
from fedrel.learning.losses import Output
from fedrel.learning.model import Model
from fedrel.learning.named import Named
from fedrel.learning.optimizers import Pulls
from fedrel.learning.schedule import Schedule, longest_first, schedule
from fedrel.learning.stacked import Library, Read, gradients, read
from fedrel.stopwatch import timed

_AROUND = 128  # tokens of a step are rounded up to multiples of it: few shapes
_WORTH_RECORDING = 6  # steps of one shape
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # of AdamW, as the library has them
_SMALL = 1e-3  # a factor of the word table below this is folded into its rows
Part = TypeVar("Part", bound=nn.Module)
CLASSIFIER, CLASSIFIER_BIAS = "classifier.weight", "classifier.bias"


def can_join(work: Work) -> bool:
    return (
        isinstance(work.model.encoder, Convolution)
        and isinstance(work.shard, PackedShard)
        and not work.training.micro_batch
        and len(work.sentences) > 0
    )


def plainly(work: Work) -> bool:
    """The loss is cross-entropy on single sentences, nothing else."""
    return work.plain and work.loss is None and type(work.model.denoiser).loss is Denoiser.loss


class Rooms:
    """Memory that stays where it is, so that a recorded graph finds it again. It moves only when it must grow."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.moves = 0
        self._rooms: dict[str, Tensor] = {}

    def rows(self, name: str, count: int, *shape: int, dtype: torch.dtype) -> Tensor:
        """(at least count, *shape), for whatever was there before to be overwritten."""
        room = self._rooms.get(name)
        if room is None or len(room) < count or room.shape[1:] != shape or room.dtype != dtype:
            self._rooms.pop(name, None)
            room = torch.zeros(count + count // 4 + 1, *shape, dtype=dtype, device=self.device)
            self._rooms[name] = room
            self.moves += 1
        return room

    def filled(self, name: str, parts: Sequence[Tensor], *, after: Tensor | None = None) -> Tensor:
        """The parts below each other."""
        count = sum(len(part) for part in parts)
        room = self.rows(name, count + (after is not None), *parts[0].shape[1:], dtype=parts[0].dtype)
        torch.cat(list(parts), out=room[:count])
        return room


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


class Cohort:
    """Trains works together, again and again; what it needs for that it keeps."""

    def __init__(self, room_for: int, device: torch.device) -> None:
        self.room_for = room_for
        self.rooms = Rooms(device)
        self.device = device
        self._graphs: dict[tuple[object, ...], torch.cuda.CUDAGraph] = {}
        self._moves = 0

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
        plan = schedule(works, self.room_for)
        program = _Program(self, works, plan)
        begin = 0
        for tokens, active, steps in program.stretches():
            for step in range(begin, begin + steps):
                program.before(step)
                self._step(program, step, active, tokens, worth=steps >= _WORTH_RECORDING)
            begin += steps
        return program.finish()

    def _step(self, program: _Program, step: int, active: int, tokens: int, *, worth: bool) -> None:
        if self.device.type != "cuda" or not program.plain or not worth:
            program.step(step, active, tokens)
            return
        if self._moves != self.rooms.moves:
            self._graphs, self._moves = {}, self.rooms.moves
        shape = (active, tokens, *program.shape)
        graph = self._graphs.get(shape)
        if graph is not None:
            graph.replay()
            return
        program.step(step, active, tokens)  # libraries prepare themselves when first called
        self._graphs[shape] = self._record(lambda: program.step(step, active, tokens))

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


class _Program:
    """One training of several platforms."""

    def __init__(self, cohort: Cohort, works: Sequence[Work], plan: Schedule) -> None:
        first = works[0]
        self.works, self.plan, self.rooms, self.device = works, plan, cohort.rooms, cohort.device
        self.room_for = cohort.room_for
        self.encoder: Convolution = first.model.encoder  # type: ignore[assignment]
        self.training, self.lr = first.training, first.lr
        self.plain = all(plainly(work) for work in works)
        self.dtype = first.model.classifier.weight.dtype
        self.pulls = [Pulls(work.model, work.pull) if work.pull else None for work in works]
        self.strength = self.pulls[0].strength if self.pulls[0] else 0.0
        self.names = [name for name, _ in first.model.trained_parameters()]
        self._stack()
        self._lay_out()
        sgd = self.training.optimizer == "sgd"
        self.update = self._descend if sgd else self._adam
        self.shape = (plan.chosen.shape[2], sgd, self.dtype, self.training, len(self.names), self.strength)

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
        self.table = _Table(
            rows=rows,
            start=self.rooms.filled("table start", [rows[: self.ends[-1]]]) if anchored else None,
            push=self.rooms.filled("table push", [nothing, *(it.push["words"] for it in self.pulls if it)])
            if pushed
            else None,
            numbers=torch.zeros(0),
        )
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
        lengths = [self.encoder.piece_lengths(_only_lengths(shard)) for shard in shards]
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
        self.chosen = self.rooms.rows("chosen", steps, self.room_for, width, dtype=torch.int64)
        self.chosen[:steps].copy_(everything, non_blocking=True)
        keys = np.zeros((steps, self.room_for), np.int32)
        for place, work in enumerate(self.works):
            keys[: self.plan.steps[place], place] = [key(work.seed, step) for step in range(self.plan.steps[place])]
        self.keys = self.rooms.rows("keys", steps, self.room_for, dtype=torch.int32)
        self.keys[:steps].copy_(torch.from_numpy(keys))
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
        self.most_tokens = sizes.sum(2).amax(1).tolist()  # (steps,)

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

    def stretches(self) -> list[tuple[int, int, int]]:
        """(tokens, platforms, steps): one after another, each of one shape. How many platforms take part is rounded up
        to eighths of them, and tokens to what suffices for most steps, so that there are few shapes.
        """
        found: list[list[int]] = []
        usual = max(self.most_tokens, default=0)
        usual = -(-usual // _AROUND) * _AROUND
        eighth = max(1, len(self.works) // 8)
        for step in range(len(self.most_tokens)):
            active = min(len(self.works), -(-self.plan.active(step) // eighth) * eighth)
            if found and found[-1][1] == active:
                found[-1][2] += 1
            else:
                found.append([usual, active, 1])
        return [(tokens, active, steps) for tokens, active, steps in found]

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

    def step(self, step: int, n: int, tokens: int) -> None:
        """Of the first n platforms. What it reads depends on the counter, not on `step`, unless the head is one that
        goes from platform to platform: a graph replays it.
        """
        weights = Named({name: value[:n] for name, value in self.weights.items()})
        numbers = self.table.numbers.index_select(0, self.counter)[0]
        chosen = self.chosen.index_select(0, self.counter)[0, :n]  # (n, S)
        seen = read(
            self.encoder, self.library, chosen, tokens, weights, lambda words: self.table.values(words, numbers)
        )
        if self.plain:
            keys = self.keys.index_select(0, self.counter)[0, :n]
            losses, to_vectors, found = self._cross_entropy(seen, chosen, keys, weights)
        else:
            losses, to_vectors, found = self._heads(seen, step, n, weights)
        to_words, own = gradients(self.encoder, seen, to_vectors, weights)
        trains = (chosen >= 0).any(1).to(self.dtype)  # (n,) who still does
        self.losses[:, :n].index_copy_(0, self.counter, losses[None])
        self.update(Named(own | found), weights, seen, to_words, trains, numbers)
        self.counter.add_(1)

    def _cross_entropy(self, seen: Read, chosen: Tensor, keys: Tensor, weights: Named) -> tuple[Tensor, Tensor, Named]:
        """(n,) losses, the gradient of the vectors (n, S, H) and of the classifier."""
        n, count, hidden = seen.vectors.shape
        real = (chosen >= 0).to(self.dtype)  # (n, S)
        share = real / real.sum(1, keepdim=True).clamp(min=1)
        scale: Tensor | float = 1.0
        if dropout := self.training.dropout:
            places = torch.arange(count * hidden, dtype=torch.int32, device=self.device) + keys[:, None]
            scale = (stays(places, dropout).to(self.dtype) / (1 - dropout)).view(n, count, hidden)
        kept = seen.vectors * scale
        logits = kept @ weights[CLASSIFIER].transpose(1, 2)
        if CLASSIFIER_BIAS in weights:
            logits = logits + weights[CLASSIFIER_BIAS][:, None]
        log_p = torch.log_softmax(logits, dim=2)
        label = self.library.labels[chosen.clamp(min=0)][:, :, None]  # (n, S, 1)
        losses = -(log_p.gather(2, label).squeeze(2) * share).sum(1)
        to_logits = log_p.exp()
        to_logits.scatter_add_(2, label, -torch.ones_like(label, dtype=self.dtype))
        to_logits = to_logits * share[:, :, None]
        found = Named({CLASSIFIER: to_logits.transpose(1, 2) @ kept})
        if CLASSIFIER_BIAS in weights:
            found[CLASSIFIER_BIAS] = to_logits.sum(1)
        return losses, to_logits @ weights[CLASSIFIER] * scale, found

    def _heads(self, seen: Read, step: int, n: int, weights: Named) -> tuple[Tensor, Tensor, Named]:
        """The same for whatever stands on the vectors, by the model's own code, platform after platform."""
        names = [name for name in self.names if name.startswith(("classifier.", "denoiser."))]
        with torch.enable_grad():
            vectors = seen.vectors.detach().requires_grad_()
            leaves = {name: weights[name].detach().requires_grad_() for name in names}
            losses = []
            for place in range(n):
                if step >= self.plan.steps[place]:
                    losses.append(vectors.new_zeros(()))
                    continue
                own = {name: value[place] for name, value in leaves.items()}
                losses.append(self._head(place, step, vectors[place], own))
            together = torch.stack(losses)
            inputs = [vectors, *leaves.values()]
            to_vectors, *found = torch.autograd.grad(together.sum(), inputs, materialize_grads=True)
        return together.detach(), to_vectors, Named(zip(leaves, found, strict=True))

    def _head(self, place: int, step: int, vectors: Tensor, own: dict[str, Tensor]) -> Tensor:
        work = self.works[place]
        model, shard = work.model, _packed(work.shard)
        sentences = self.plan.chosen[step, place]
        sentences = sentences[sentences >= 0]
        vectors = vectors[: len(sentences)]
        classifier = _with(model.classifier, own, "classifier.")
        drawn = key(work.seed, step)

        def drop(vectors: Tensor) -> Tensor:
            places = torch.arange(vectors.numel(), dtype=torch.int32, device=self.device) + drawn
            scale = stays(places, self.training.dropout).to(vectors.dtype) / (1 - self.training.dropout)
            return vectors * scale.view_as(vectors) if self.training.dropout else vectors

        if work.loss is not None:
            at = sentences.to(self.device)
            labels = shard.at(self.device).labels[at]
            return work.loss(Output(vectors, classifier(drop(vectors)), labels, at))
        denoiser = _with(model.denoiser, own, "denoiser.")
        if work.plain:
            bag, labels = torch.arange(len(sentences)), shard.labels[sentences]
        else:
            bag, labels = self.plan.bags[place][step]
        bag, labels = bag.to(self.device), labels.to(self.device)
        if not work.plain and denoiser.chooses:
            p = torch.softmax(classifier(vectors.detach()), dim=1)
            best = best_of_group(p.gather(1, labels[bag][:, None]).squeeze(1), bag)
            vectors, bag = vectors[best], torch.arange(len(labels), device=self.device)
        return denoiser.loss(vectors, bag, labels, classifier, drop)

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


def _packed(shard: Shard) -> PackedShard:
    assert isinstance(shard, PackedShard)
    return shard


def _only_lengths(shard: PackedShard) -> PackedBatch:
    nothing = shard.labels[:0]
    return PackedBatch(
        sentences=nothing,
        bag=nothing,
        labels=nothing,
        tokens=nothing,
        head_distance=nothing,
        tail_distance=nothing,
        piece_lengths=shard.piece_lengths,
    )


def _with(module: Part, tensors: dict[str, Tensor], prefix: str) -> Part:
    """The module with these for its parameters, which are left as they are."""
    twin = copy.copy(module)
    twin.__dict__["_parameters"] = {name: tensors.get(prefix + name) for name in module._parameters}
    return twin


@timed("train")
def train_together(works: Sequence[Work], cohort: Cohort) -> list[Fitted | DivergedError]:
    """Those that can, as one; the others, one after another."""
    able = [place for place, work in enumerate(works) if can_join(work)]
    found: dict[int, Fitted | DivergedError] = {}
    if able:
        found = dict(zip(able, cohort.train([works[place] for place in able]), strict=True))
    for place, work in enumerate(works):
        if place not in found:
            try:
                found[place] = fit_alone(work)
            except DivergedError as error:
                found[place] = error
    return [found[place] for place in range(len(works))]
