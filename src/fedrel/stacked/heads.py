"""What stands on the sentences' vectors, for all platforms of a cohort at once: its losses and its gradients.

The usual one, cross-entropy on single sentences, is done by hand. A denoiser's is its own code mapped over the
platforms (`torch.func.vmap`), which are padded to the same number of sentences and bags. Only a loss that a method
brings itself goes from platform to platform.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F

from fedrel.denoisers import first_best
from fedrel.kernels.dropout import kept, kept_by, key
from fedrel.kernels.opt_in import opted_in
from fedrel.learning.fit import Work
from fedrel.learning.losses import Output
from fedrel.learning.named import Named
from fedrel.stacked.buffers import Rooms
from fedrel.stacked.schedule import Schedule, bag_tables

Part = TypeVar("Part", bound=nn.Module)
CLASSIFIER, CLASSIFIER_BIAS = "classifier.weight", "classifier.bias"


@dataclass(frozen=True)
class Step:
    """What n platforms see in one step."""

    number: int
    counter: Tensor  # (1,) the same on the device
    vectors: Tensor  # (n, S, H)
    chosen: Tensor  # (n, S) places in the library of all sentences, -1 for none


Gradients = tuple[Tensor, Tensor, Named]  # (n,) losses, and the gradients of the vectors and of the weights in use


class Head(Protocol):
    @property
    def shape(self) -> tuple[object, ...]:
        """A recorded step can be replayed for another head of the same shape; (): it cannot be recorded."""

    def __call__(self, step: Step, weights: Named) -> Gradients: ...


def head_of(works: Sequence[Work], plan: Schedule, rooms: Rooms, room_for: int, labels: Tensor) -> Head:
    """`labels`: of the library's sentences."""
    first = works[0]
    if first.loss is not None:
        return OwnLoss(works, plan)
    tables = Tables(rooms, works, plan, room_for)
    if first.plain and opted_in(first.model.denoiser, "plain_logits"):
        return Sentences(tables, first.training.dropout, labels)
    return Bags(tables, works, plan)


class Tables:
    """What changes from step to step, on the device: a step reads its own line."""

    def __init__(self, rooms: Rooms, works: Sequence[Work], plan: Schedule, room_for: int) -> None:
        self.rooms = rooms
        keys = np.zeros((len(plan.chosen), room_for), np.int32)
        for place, work in enumerate(works):
            keys[: plan.steps[place], place] = [key(work.seed, step) for step in range(plan.steps[place])]
        self.keys = self.lay("keys", torch.from_numpy(keys))

    def lay(self, name: str, lines: Tensor) -> Tensor:
        room = self.rooms.rows(name, *lines.shape, dtype=lines.dtype)
        room[: len(lines)].copy_(lines, non_blocking=True)
        return room


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
        return losses, to_logits @ weights[CLASSIFIER] * scale, found


class Bags:
    """What a denoiser makes of bags. Every platform has a last bag that nobody asks for: there lie the sentences that
    are only padding.
    """

    def __init__(self, tables: Tables, works: Sequence[Work], plan: Schedule) -> None:
        self.tables, self.model = tables, works[0].model
        self.chooses = self.model.denoiser.chooses and not works[0].plain
        self.dropout = works[0].training.dropout
        bag, labels = bag_tables(works, plan)
        self.bag, self.labels = tables.lay("bag", bag), tables.lay("bag labels", labels)
        self.shape = (type(self.model.denoiser), self.chooses, labels.shape[2])

    def __call__(self, step: Step, weights: Named) -> Gradients:
        keys, bag, labels = (_line(table, step) for table in (self.tables.keys, self.bag, self.labels))
        bag = bag[:, : step.vectors.shape[1]]
        real = (labels >= 0).to(step.vectors.dtype)  # (n, U), the last bag among them
        share = real / real.sum(1, keepdim=True).clamp(min=1)
        labels = labels.clamp(min=0)
        with torch.enable_grad():
            vectors, leaves = _leaves(step, weights, "classifier.", "denoiser.")
            logits = vmap(self._logits)(vectors, bag, labels, keys, leaves)  # (n, U, R)
            of_bags = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(share)
            return _gradients((of_bags * share).sum(1), vectors, leaves)

    def _logits(self, vectors: Tensor, bag: Tensor, labels: Tensor, drawn: Tensor, own: dict[str, Tensor]) -> Tensor:
        """(U, R) of one platform."""
        classifier = _with(self.model.classifier, own, "classifier.")
        if self.chooses:
            with torch.no_grad():
                p = torch.softmax(classifier(vectors), dim=1)
                asked = p.gather(1, labels.index_select(0, bag)[:, None]).squeeze(1)  # (S,)
                best = first_best(asked, bag, len(labels))
            vectors = vectors.index_select(0, best)
            bag = torch.arange(len(labels), device=bag.device)

        def drop(vectors: Tensor) -> Tensor:
            return vectors * kept_by(drawn, vectors, self.dropout) if self.dropout else vectors

        return _with(self.model.denoiser, own, "denoiser.").logits(vectors, bag, labels, classifier, drop)


class OwnLoss:
    """A loss that a method brings: whatever it does, platform after platform."""

    shape: tuple[object, ...] = ()

    def __init__(self, works: Sequence[Work], plan: Schedule) -> None:
        self.works, self.plan = works, plan

    def __call__(self, step: Step, weights: Named) -> Gradients:
        with torch.enable_grad():
            vectors, leaves = _leaves(step, weights, "classifier.")
            losses = []
            for place in range(len(vectors)):
                own = {name: value[place] for name, value in leaves.items()}
                trains = step.number < self.plan.steps[place]
                losses.append(self._loss(place, step, vectors[place], own) if trains else vectors.new_zeros(()))
            return _gradients(torch.stack(losses), vectors, leaves)

    def _loss(self, place: int, step: Step, vectors: Tensor, own: dict[str, Tensor]) -> Tensor:
        work = self.works[place]
        chosen = self.plan.chosen[step.number, place]
        sentences = chosen[chosen >= 0].to(vectors.device)
        vectors, dropped = vectors[: len(sentences)], vectors[: len(sentences)]
        if dropout := work.training.dropout:
            dropped = vectors * kept(vectors, key(work.seed, step.number), dropout)
        logits = _with(work.model.classifier, own, "classifier.")(dropped)
        assert work.loss is not None
        return work.loss(Output(vectors, logits, work.shard.at(vectors.device).labels[sentences], sentences))


def _leaves(step: Step, weights: Named, *parts: str) -> tuple[Tensor, dict[str, Tensor]]:
    """What the loss is to be derived by: the vectors, and the weights of these parts by name."""
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items() if name.startswith(parts)}
    return step.vectors.detach().requires_grad_(), leaves


def _gradients(losses: Tensor, vectors: Tensor, leaves: dict[str, Tensor]) -> Gradients:
    inputs = [vectors, *leaves.values()]
    to_vectors, *found = torch.autograd.grad(losses.sum(), inputs, materialize_grads=True)
    return losses.detach(), to_vectors, Named(zip(leaves, found, strict=True))


def _with(module: Part, tensors: dict[str, Tensor], prefix: str) -> Part:
    """The module with these for its parameters, which are left as they are."""
    twin = copy.copy(module)
    twin.__dict__["_parameters"] = {name: tensors.get(prefix + name) for name in module._parameters}
    inner = module._modules.items()
    twin.__dict__["_modules"] = {name: part and _with(part, tensors, f"{prefix}{name}.") for name, part in inner}
    return twin
