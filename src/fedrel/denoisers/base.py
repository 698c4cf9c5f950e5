"""What a denoiser is, and the arithmetic within bags that several share."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedrel.denoisers.odds import label_log_odds, log_odds

Drop = Callable[[Tensor], Tensor]


class Denoiser(nn.Module):
    """S sentence vectors in U bags; `bag` (S,) says which, in ascending order, and none is empty. Parameters of its own
    are trained and averaged too.

    A new denoiser needs no more than `logits` and `score`: it trains by autograd, and in stacked training platform
    after platform. Two fast paths are open to a class that sets one to True in its own body (a subclass does not
    inherit it):

    `plain_logits`: `logits` is the one of this class, and there are no parameters; the compiled step stands in for it.
    `stackable`: `logits` may be mapped over platforms by torch.func.vmap. It then sees bags and sentences that are only
    padding, in no order, so a bag's logits depend on its own sentences alone; it calls `drop` exactly once, keeps no
    state but parameters, and no shape in it depends on values.
    """

    by_bag = True  # a training step sees whole bags; otherwise single sentences
    chooses = False  # a training step sees only the best sentence of each bag

    scores_by: ClassVar[str] = "max"  # what evaluation.bags = "auto" is for it; "attention": `score` weighs sentences

    plain_logits: ClassVar[bool]
    stackable: ClassVar[bool]

    def __init__(self, hidden: int, relations: int) -> None:
        super().__init__()

    def logits(self, vectors: Tensor, bag: Tensor, labels: Tensor, classifier: nn.Linear, drop: Drop) -> Tensor:
        """(U, R) of the bags with labels (U,), in training; as it stands here, of bags with one sentence each."""
        return classifier(drop(vectors))  # type: ignore[no-any-return]

    def score(self, vectors: Tensor, bag: Tensor, bags: int, classifier: nn.Linear) -> Tensor:
        """(U, R) how much each bag supports each relation."""
        return best_sentence_score(vectors, bag, bags, classifier)


def bias_of(classifier: nn.Linear) -> Tensor | float:
    """(R,), or 0 where it has none (torch's types say that it always has one)."""
    bias: Tensor | None = classifier.bias
    return 0.0 if bias is None else bias


def best_sentence_score(vectors: Tensor, bag: Tensor, bags: int, classifier: nn.Linear) -> Tensor:
    """(U, R) the log-odds of each relation in the best of a bag's sentences for it."""
    return group_max(log_odds(classifier(vectors)), bag, bags)


def mean_score(vectors: Tensor, bag: Tensor, bags: int, classifier: nn.Linear) -> Tensor:
    """(U, R) the log-odds of each relation in the mean of a bag's sentence vectors."""
    return log_odds(classifier(group_mean(vectors, bag, bags)))


def first_best(score: Tensor, group: Tensor, groups: int) -> Tensor:
    """(groups,) the place of the highest score (S,) in each of the groups 0 … groups-1 that `group` (S,) names, the
    first of several; any place for an empty group. NaN counts as the highest, so that it propagates. Nothing waits for
    the device, and it can be mapped by torch.func.vmap.
    """
    place = torch.arange(len(score), device=score.device)
    highest = group_max(score[:, None], group, groups).squeeze(1)
    holds = (score == highest.index_select(0, group)) | score.isnan()
    holders = torch.where(holds, place, len(score) - 1)
    nobody = torch.full((groups,), len(score) - 1, device=score.device)
    return nobody.scatter_reduce(0, group, holders, "amin")


@torch.no_grad()
def best_sentences(vectors: Tensor, bag: Tensor, labels: Tensor, classifier: nn.Linear) -> Tensor:
    """(U,) the place among the vectors (S, H) of each bag's sentence most likely to express its label (U,)."""
    return first_best(label_log_odds(classifier(vectors), labels.index_select(0, bag)), bag, len(labels))


def group_max(values: Tensor, bag: Tensor, bags: int) -> Tensor:
    """(bags, R) the maximum of each column of the values (S, R), floats, within each bag; minus infinity in an empty
    one.
    """
    index = bag[:, None].expand_as(values)
    return values.new_full((bags, values.shape[1]), -torch.inf).scatter_reduce(0, index, values, "amax")


def group_sum(values: Tensor, bag: Tensor, bags: int) -> Tensor:
    """(bags, R) the sum of each column of the values (S, R) within each bag; 0 in an empty one."""
    return values.new_zeros(bags, values.shape[1]).scatter_add(0, bag[:, None].expand_as(values), values)


def group_mean(values: Tensor, bag: Tensor, bags: int) -> Tensor:
    """(bags, R) the mean of each column of the values (S, R) within each bag."""
    sizes = group_sum(values.new_ones(len(bag), 1), bag, bags)  # counting them otherwise waits for a GPU
    return group_sum(values, bag, bags) / sizes


def group_softmax(score: Tensor, bag: Tensor, bags: int) -> Tensor:
    """(S, R) softmax of each column of the score (S, R) within each bag."""
    highest = group_max(score.detach(), bag, bags)
    weight = torch.exp(score - highest.index_select(0, bag))
    return weight / group_sum(weight, bag, bags).index_select(0, bag)
