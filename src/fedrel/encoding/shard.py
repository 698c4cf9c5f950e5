"""One party's part of a split, in bag order and encoded for an extractor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from fedrel.data.store import Ints

_CPU = torch.device("cpu")
# Per forward pass without gradients: large enough to be fast, small enough for the CPU's cache or the GPU's memory
CHUNK_TOKENS = {"cpu": 16_384, "cuda": 524_288}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """S sentences in U bags (or, without bags, U = S). Subclasses add the tokens in the form an extractor needs."""

    sentences: Tensor  # (S,) their positions in the shard
    bag: Tensor  # (S,) 0 … U-1, ascending
    labels: Tensor  # (U,)
    vectors: Tensor | None = None  # (S, H) sentence vectors, if a frozen encoder has computed them already

    def names_hidden(self) -> Batch | None:
        """The same sentences with the names of their entities hidden; None: the encoding hides none."""
        return None

    def to(self, device: torch.device) -> Self:
        """The batch with its tensors on this device."""
        if self.labels.device == device:
            return self
        moved = {name: it.to(device, non_blocking=True) for name, it in vars(self).items() if isinstance(it, Tensor)}
        return replace(self, **moved)


@dataclass(frozen=True, kw_only=True)
class Shard:
    """S sentences in b bags."""

    rows: Ints  # (S,) rows of the split
    labels: Tensor  # (S,) int64
    vocabulary: Ints  # (v,) the model's number of each word that occurs in the shard; the first is padding
    tokens: Tensor  # (T,) int32, indices into `vocabulary`, sentences end to end
    starts: Tensor  # (S+1,) int64, where each sentence's tokens begin
    bag_starts: Tensor  # (b+1,) int64, where each bag's sentences begin
    _vocabularies: dict[torch.device, Tensor] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def vocabulary_at(self, device: torch.device) -> Tensor:
        """(v,) `vocabulary` as a tensor on this device, copied there once."""
        if device not in self._vocabularies:
            self._vocabularies[device] = torch.from_numpy(self.vocabulary).to(device)
        return self._vocabularies[device]

    def at(self, device: torch.device) -> Self:
        """A view of the same sentences whose batches are built on, or for, this device."""
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of its text in memory, without cached sentence vectors, which are expensive to recompute."""
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray | Tensor))

    @property
    def bags(self) -> int:
        """The number of bags."""
        return len(self.bag_starts) - 1

    def hiding_names(self, share: float, seed: int) -> Shard:
        """A copy in which this share of the entities' names is hidden; itself, where the encoding hides none."""
        return self

    def unlabelled(self) -> Self:
        """A copy with all labels 0, for code that must not see them."""
        return replace(self, labels=torch.zeros_like(self.labels))

    def sentences(self, chosen: Tensor) -> Batch:
        """A batch of these sentences, each in a bag of its own with its own label."""
        return self._batch(chosen, torch.arange(len(chosen), device=chosen.device), self.labels[chosen])

    def bags_of(self, chosen: Tensor) -> Batch:
        """A batch of all sentences of these bags; the label of a bag is that of its first sentence."""
        first, sizes = self.bag_starts[chosen], self.bag_sizes(chosen)
        return self._batch(ragged(first, sizes), torch.repeat_interleave(sizes), self.labels[first])

    def bag_sizes(self, chosen: Tensor) -> Tensor:
        """(len(chosen),) the number of sentences in each of these bags."""
        return self.bag_starts[chosen + 1] - self.bag_starts[chosen]

    def bag_of_sentences(self) -> Tensor:
        """(S,) the bag of every sentence."""
        return torch.repeat_interleave(self.bag_starts[1:] - self.bag_starts[:-1])

    def bags_between(self, first: int, last: int) -> Batch:
        """A batch of the bags first … last-1, whose sentences are contiguous."""
        return self.bags_of(torch.arange(first, last))

    def chunks(self, device: torch.device = _CPU) -> Iterator[tuple[int, int]]:
        """Ranges (first, last+1) of whole bags, in order, of at most CHUNK_TOKENS tokens each or of one larger bag."""
        tokens = CHUNK_TOKENS[device.type]
        ends = self.starts[self.bag_starts]  # (b+1,) where each bag's tokens begin
        first = 0
        while first < self.bags:
            limit = torch.tensor(int(ends[first]) + tokens)
            last = max(first + 1, int(torch.searchsorted(ends, limit, right=True)) - 1)
            yield first, last
            first = last

    def words_of(self, chosen: Tensor) -> Tensor:
        """The indices into `vocabulary` that these sentences may train, ascending, without padding."""
        device = self.labels.device
        wanted = torch.zeros(len(self), dtype=torch.bool, device=device)
        wanted[chosen.to(device)] = True
        looked_at = torch.repeat_interleave(wanted, self.starts.diff(), output_size=len(self.tokens))
        used = torch.zeros(len(self.vocabulary), dtype=torch.bool, device=device)
        for tokens in self._token_columns():
            used[tokens[looked_at]] = True
        used[0] = False
        return used.nonzero().squeeze(1)

    def _token_columns(self) -> list[Tensor]:
        """(T,) each: the tokens as they are, and others that training may read in their place."""
        return [self.tokens]

    def label_counts(self, classes: int) -> Tensor:
        """(classes,) the number of sentences with each label."""
        return torch.bincount(self.labels, minlength=classes)

    def _token_rows(self, chosen: Tensor) -> Tensor:
        return ragged(self.starts[chosen], self.starts[chosen + 1] - self.starts[chosen])

    def _batch(self, chosen: Tensor, bag: Tensor, labels: Tensor) -> Batch:
        raise NotImplementedError


def ragged(starts: Tensor, lengths: Tensor) -> Tensor:
    """The ranges starts[i] … starts[i]+lengths[i]-1, concatenated: (sum of lengths,)."""
    shift = starts - (torch.cumsum(lengths, 0) - lengths)
    return torch.repeat_interleave(shift, lengths) + torch.arange(int(lengths.sum()), device=starts.device)
