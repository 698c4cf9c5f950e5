"""Heads: what turns sentence vectors into losses and gradients, for all platforms of a step.

There are three. `Sentences`, cross-entropy on single sentences, has its gradient written out. `Bags` maps the code of a
denoiser that opts in over the platforms, which are padded to the same number of sentences and bags. `EachPlatform` does
everything else: each platform's own code on its own sentences, one platform after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F

from fedrel.denoisers import best_sentences
from fedrel.encoding.shard import Batch
from fedrel.kernels.dropout import kept_by, key
from fedrel.kernels.opt_in import opted_in
from fedrel.learning.fit import Work
from fedrel.learning.named import Named
from fedrel.stacked.buffers import BufferPool
from fedrel.stacked.schedule import Schedule, bag_tables

CLASSIFIER, CLASSIFIER_BIAS = "classifier.weight", "classifier.bias"


@dataclass(frozen=True)
class Step:
    """What n platforms see in one step, padded to S sentences each."""

    number: int
    counter: Tensor  # (1,) the number, on the device
    vectors: Tensor  # (n, S, H)
    chosen: Tensor  # (n, S) places in the text of all platforms, -1 for padding


@dataclass(frozen=True)
class Gradients:
    """What a head finds in one step. A weight that `weights` lacks is reached by no platform's loss."""

    losses: Tensor  # (n,)
    vectors: Tensor | None  # (n, S, H); None: no loss reaches the sentence vectors
    weights: Named  # (n, …) by name
    reached: Mapping[str, list[int]] | None = None  # the platforms whose loss reaches each weight; None: all platforms
    reached_vectors: list[int] | None = None  # the platforms whose loss reaches the sentence vectors


class ReadsText(Exception):
    """A loss or denoiser reads text with the very model that is being trained, whose weights are elsewhere now."""


class Head(Protocol):
    @property
    def shape(self) -> tuple[object, ...]:
        """A recorded step can be replayed for another head of the same shape; (): it cannot be recorded."""

    def __call__(self, step: Step, weights: Named) -> Gradients: ...


def head_of(works: Sequence[Work], plan: Schedule, pool: BufferPool, capacity: int, labels: Tensor) -> Head:
    """The fastest head that computes what these works ask for. `labels`: of the sentences of all platforms."""
    first = works[0]
    if first.loss is None and first.plain and opted_in(first.model.denoiser, "plain_logits"):
        return Sentences(Tables(pool, works, plan, capacity), first.training.dropout, labels)
    if first.loss is None and opted_in(first.model.denoiser, "stackable"):
        return Bags(Tables(pool, works, plan, capacity), works, plan)
    return EachPlatform(works, plan)


class Tables:
    """What changes from step to step, on the device: a step reads its own line."""

    def __init__(self, pool: BufferPool, works: Sequence[Work], plan: Schedule, capacity: int) -> None:
        self.pool = pool
        keys = np.zeros((len(plan.chosen), capacity), np.int32)
        for place, work in enumerate(works):
            keys[: plan.steps[place], place] = [key(work.seed, step) for step in range(plan.steps[place])]
        self.keys = self.lay("keys", torch.from_numpy(keys))

    def lay(self, name: str, lines: Tensor) -> Tensor:
        """A buffer that begins with these lines, one a step."""
        buffer = self.pool.take(name, *lines.shape, dtype=lines.dtype)
        buffer[: len(lines)].copy_(lines, non_blocking=True)
        return buffer


def _line(table: Tensor, step: Step) -> Tensor:
    return table.index_select(0, step.counter)[0, : len(step.vectors)]


@dataclass(frozen=True)
class Sentences:
    """Cross-entropy on single sentences."""

    tables: Tables
    dropout: float
    labels: Tensor
    shape: tuple[object, ...] = ("sentences",)

    def __call__(self, step: Step, weights: Named) -> Gradients:
        dtype = step.vectors.dtype
        real = (step.chosen >= 0).to(dtype)  # (n, S)
        share = real / real.sum(1, keepdim=True).clamp(min=1)
        scale: Tensor | float = 1.0
        if self.dropout:
            scale = vmap(lambda key, vectors: kept_by(key, vectors, self.dropout))(
                _line(self.tables.keys, step), step.vectors
            )
        dropped = step.vectors * scale
        logits = dropped @ weights[CLASSIFIER].transpose(1, 2)
        if CLASSIFIER_BIAS in weights:
            logits = logits + weights[CLASSIFIER_BIAS][:, None]
        log_p = torch.log_softmax(logits, dim=2)
        label = self.labels[step.chosen.clamp(min=0)][:, :, None]  # (n, S, 1)
        losses = -(log_p.gather(2, label).squeeze(2) * share).sum(1)
        to_logits = log_p.exp()
        to_logits.scatter_add_(2, label, -torch.ones_like(label, dtype=dtype))
        to_logits = to_logits * share[:, :, None]
        found = Named({CLASSIFIER: to_logits.transpose(1, 2) @ dropped})
        if CLASSIFIER_BIAS in weights:
            found[CLASSIFIER_BIAS] = to_logits.sum(1)
        return Gradients(losses, to_logits @ weights[CLASSIFIER] * scale, found)


class Bags:
    """Cross-entropy on bags, their logits by a denoiser that opts in (`stackable`), mapped over the platforms.

    Platforms are padded to U bags, and one more that padding sentences lie in; none of these counts. A bag without a
    sentence is given a vector of zeros, so that no denoiser meets an empty one.
    """

    def __init__(self, tables: Tables, works: Sequence[Work], plan: Schedule) -> None:
        self.tables, self.model = tables, works[0].model
        self.chooses = self.model.denoiser.chooses and not works[0].plain
        self.dropout = works[0].training.dropout
        self.parts = Parameters(self.model)
        bag, labels = bag_tables(works, plan)
        self.bag, self.labels = tables.lay("bag", bag), tables.lay("bag labels", labels)
        self.shape = (type(self.model.denoiser), self.chooses, labels.shape[2])

    def __call__(self, step: Step, weights: Named) -> Gradients:
        keys, bag, labels = (_line(table, step) for table in (self.tables.keys, self.bag, self.labels))
        real = labels >= 0  # (n, U + 1)
        share = real.to(step.vectors.dtype)
        share = share / share.sum(1, keepdim=True).clamp(min=1)
        bags = labels.shape[1]
        fill = torch.where(real, bags - 1, torch.arange(bags, device=bag.device))  # (n, U + 1) of each zero vector
        bag = torch.cat([bag[:, : step.vectors.shape[1]], fill], dim=1)
        labels = labels.clamp(min=0)
        with torch.enable_grad():
            vectors = step.vectors.detach().requires_grad_()
            leaves = {
                name: value.detach().requires_grad_()
                for name, value in weights.items()
                if name.startswith(("classifier.", "denoiser."))
            }
            filled = torch.cat([vectors, vectors.new_zeros(len(vectors), bags, vectors.shape[2])], dim=1)
            logits = vmap(self._logits)(filled, bag, labels, keys, leaves)  # (n, U + 1, R)
            of_bags = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(share)
            losses = (of_bags * share).sum(1)
            to_vectors, *found = torch.autograd.grad(losses.sum(), [vectors, *leaves.values()], allow_unused=True)
        by_name = {name: grad for name, grad in zip(leaves, found, strict=True) if grad is not None}
        return Gradients(losses.detach(), to_vectors, Named(by_name))

    def _logits(self, vectors: Tensor, bag: Tensor, labels: Tensor, drawn: Tensor, own: dict[str, Tensor]) -> Tensor:
        """(U + 1, R) of one platform."""

        def drop(vectors: Tensor) -> Tensor:
            return vectors * kept_by(drawn, vectors, self.dropout) if self.dropout else vectors

        with self.parts.replaced_by(own):
            if self.chooses:
                vectors = vectors.index_select(0, best_sentences(vectors, bag, labels, self.model.classifier))
                bag = torch.arange(len(labels), device=bag.device)
            return self.model.denoiser.logits(vectors, bag, labels, self.model.classifier, drop)


class EachPlatform:
    """Any loss, any denoiser: `Model.loss` of each platform on exactly the sentences that it would read by itself."""

    shape: tuple[object, ...] = ()

    def __init__(self, works: Sequence[Work], plan: Schedule) -> None:
        self.works, self.plan = works, plan
        self.parts = [Parameters(work.model) for work in works]
        for work in works:
            work.model.train()
            work.model.draw_from(work.seed, work.training.dropout)

    def __call__(self, step: Step, weights: Named) -> Gradients:
        active = [place for place in range(len(step.vectors)) if step.number < self.plan.steps[place]]
        leaves: list[dict[str, Tensor]] = []  # of every active platform by name; "" are its vectors
        found = []
        with torch.enable_grad():
            for place in active:
                chosen = self.plan.chosen[step.number, place]
                sentences = chosen[chosen >= 0]
                own = {name: value[place].detach().requires_grad_() for name, value in weights.items()}
                vectors = step.vectors[place, : len(sentences)].detach().requires_grad_()
                found.append(self._loss(place, step, sentences, vectors, own))
                leaves.append({"": vectors, **own})
            total = torch.stack(found).sum()
        grads = iter(torch.autograd.grad(total, [leaf for own in leaves for leaf in own.values()], allow_unused=True))
        losses = step.vectors.new_zeros(len(step.vectors))
        losses[active] = torch.stack(found).detach()
        whole = {"": torch.zeros_like(step.vectors), **{name: torch.zeros_like(it) for name, it in weights.items()}}
        reached: dict[str, list[int]] = {}
        for place, own in zip(active, leaves, strict=True):
            for name in own:
                if (grad := next(grads)) is not None:
                    reached.setdefault(name, []).append(place)
                    (whole[name][place] if name else whole[name][place, : len(grad)]).copy_(grad)
        by_vectors = reached.pop("", None)
        used = Named({name: whole[name] for name in reached})
        return Gradients(losses, whole[""] if by_vectors else None, used, reached, by_vectors)

    def _loss(self, place: int, step: Step, sentences: Tensor, vectors: Tensor, own: dict[str, Tensor]) -> Tensor:
        """() of one platform, whose weights are `own` for this step."""
        work, words = self.works[place], self.works[place].model.encoder.words
        reads = words.reads
        with self.parts[place].replaced_by(own):
            loss = work.model.loss(self._batch(place, step, sentences, vectors), work.loss)
        if words.reads != reads:
            raise ReadsText
        return loss.reshape(()).to(vectors.dtype)

    def _batch(self, place: int, step: Step, sentences: Tensor, vectors: Tensor) -> Batch:
        """What the platform would read by itself, its vectors found already."""
        work, device = self.works[place], vectors.device
        sentences = sentences.to(device)
        labels = work.shard.at(device).labels
        if work.plain:
            return _single(sentences, labels[sentences], vectors)
        read = self.plan.bags[place]
        bag = torch.from_numpy(read.bag[step.number, : len(sentences)]).to(device)
        of_bags = torch.from_numpy(read.labels[step.number]).to(device)
        of_bags = of_bags[of_bags >= 0]
        if not work.model.denoiser.chooses:
            return Batch(sentences=sentences, bag=bag, labels=of_bags, vectors=vectors)
        best = best_sentences(vectors, bag, of_bags, work.model.classifier)
        return _single(sentences[best], labels[sentences[best]], vectors[best])


def _single(sentences: Tensor, labels: Tensor, vectors: Tensor) -> Batch:
    return Batch(
        sentences=sentences,
        bag=torch.arange(len(sentences), device=sentences.device),
        labels=labels,
        vectors=vectors,
    )


class Parameters:
    """The trained parameters of a model, which other tensors can take the place of for a while."""

    def __init__(self, model: nn.Module) -> None:
        self.owners = {}
        for name, value in model.named_parameters():
            if value.requires_grad:
                path, _, own = name.rpartition(".")
                self.owners[name] = model.get_submodule(path), own

    @contextmanager
    def replaced_by(self, tensors: Mapping[str, Tensor]) -> Iterator[None]:
        """Inside, the parameters of these names are these tensors: whoever asks the model for one gets the tensor."""
        before = {}
        try:
            for name, tensor in tensors.items():
                owner, own = self.owners[name]
                before[name] = owner._parameters[own]
                owner._parameters[own] = tensor  # type: ignore[assignment]
            yield
        finally:
            for name, parameter in before.items():
                owner, own = self.owners[name]
                owner._parameters[own] = parameter
