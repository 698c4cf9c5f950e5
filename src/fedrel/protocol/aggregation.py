"""Means of the models in platforms' replies, and plain sums of their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fedrel.config import Robust
from fedrel.learning.named import Named, weighted_mean
from fedrel.learning.robust import clipped_mean, coordinate_median, krum, trimmed_mean
from fedrel.protocol.records import named_in, number_in
from fedrel.protocol.round import Replies
from fedrel.protocol.summed import Summed


def mean(base: Named, replies: Replies, field: str, *, by: str | None, how: Robust | None = None) -> Named:
    """Mean of a reply's models, weighted by another of its fields (None: all alike); a platform with nothing to say is
    left out. `how`: a mean that a few wrong models cannot ruin, where those that count heads do not look at `by`.
    """
    how = how or Robust()
    if isinstance(replies, Summed):
        return replies.mean(base, field, by)
    spoken = [reply for reply in replies.values() if field in reply]
    models, weights = _Field(spoken, field), [number_in(reply, by) if by else 1.0 for reply in spoken]
    if not spoken or how.aggregation == "mean":
        return weighted_mean(base, models, weights)
    if how.aggregation == "clipped":
        return clipped_mean(base, models, weights, how.clip)
    if how.aggregation == "median":
        return coordinate_median(base, models)
    return (trimmed_mean if how.aggregation == "trimmed" else krum)(base, models, how.liars)


def total(replies: Replies, field: str) -> Named:
    """The sum of a reply's tensors, which are of the same names, types and shapes everywhere; a platform with nothing
    to say is left out. Raises KeyError if all are.
    """
    if isinstance(replies, Summed):
        return replies.total(field)
    spoken = iter(named_in(reply, field) for reply in replies.values() if field in reply)
    first = next(spoken, None)
    if first is None:
        raise KeyError(field)
    summed = Named((name, tensor.clone()) for name, tensor in first.items())
    for numbers in spoken:
        for name, tensor in summed.items():
            tensor += numbers[name]
    return summed


@dataclass(frozen=True)
class _Field:
    """One field of every reply, read when its turn comes."""

    replies: list[Mapping[str, Named | float]]
    name: str

    def __iter__(self) -> Iterator[Named]:
        return (named_in(reply, self.name) for reply in self.replies)
