"""Sentences end to end, without padding: what the extractors read.

A shard is the part of a split that one platform holds (or all of dev), in bag order, with its own small
vocabulary. Every sentence is followed by separator rows whose vector is zero, as many as a convolution
window reaches to one side, so that it never sees the next sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrel.bags import Ints, Split
from fedrel.compiled import AVAILABLE, compiled

CHUNK_TOKENS = 16_384  # of a forward pass without gradients: large enough to be fast, small enough for the cache


@dataclass(frozen=True)
class Batch:
    """S sentences of T token rows in U bags (or, without bags, U = S)."""

    tokens: Tensor  # (T,) numbers of the shard's own vocabulary; 0 after every sentence
    head_distance: Tensor  # (T,) 1 … 2·reach+1; 0 after every sentence
    tail_distance: Tensor  # (T,)
    piece_lengths: Tensor  # (S, 4) up to the first entity, up to the second, the rest, the separators
    bag: Tensor  # (S,) 0 … U-1, ascending
    labels: Tensor  # (U,)

    def to(self, device: torch.device) -> Batch:
        if self.tokens.device == device:
            return self
        return Batch(**{name: value.to(device, non_blocking=True) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Shard:
    rows: Ints  # (S,) rows of the split
    vocabulary: Ints  # (v,) the model's number of each of the shard's words; the first is padding
    tokens: Tensor  # (T,) int32
    head_distance: Tensor  # (T,) int16
    tail_distance: Tensor  # (T,) int16
    starts: Tensor  # (S+1,) int64
    piece_lengths: Tensor  # (S, 4) int64
    labels: Tensor  # (S,) int64
    bag_starts: Tensor  # (b+1,) int64

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def bags(self) -> int:
        return len(self.bag_starts) - 1

    def sentences(self, chosen: Tensor) -> Batch:
        """These sentences, each a unit of its own with its own label."""
        return self._batch(chosen, torch.arange(len(chosen)), self.labels[chosen])

    def bags_of(self, chosen: Tensor) -> Batch:
        """All sentences of these bags; the label of a bag is that of its first sentence."""
        first, sizes = self.bag_starts[chosen], self.bag_sizes(chosen)
        return self._batch(ragged(first, sizes), torch.repeat_interleave(sizes), self.labels[first])

    def bag_sizes(self, chosen: Tensor) -> Tensor:
        return self.bag_starts[chosen + 1] - self.bag_starts[chosen]

    def bag_of_sentences(self) -> Tensor:
        """(S,) the bag of every sentence."""
        return torch.repeat_interleave(self.bag_starts[1:] - self.bag_starts[:-1])

    def words_of(self, chosen: Tensor) -> Tensor:
        """The shard's word numbers that occur in these sentences, ascending, without padding."""
        used = torch.zeros(len(self.vocabulary), dtype=torch.bool)
        used[self.tokens[self._token_rows(chosen)].long()] = True
        used[0] = False
        return used.nonzero().squeeze(1)

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Ranges of whole bags of about CHUNK_TOKENS tokens each, in order."""
        ends = self.starts[self.bag_starts]  # (b+1,) where each bag's tokens begin
        first = 0
        while first < self.bags:
            limit = torch.tensor(int(ends[first]) + CHUNK_TOKENS)
            last = max(first + 1, int(torch.searchsorted(ends, limit, right=True)) - 1)
            yield first, last
            first = last

    def _token_rows(self, chosen: Tensor) -> Tensor:
        return ragged(self.starts[chosen], self.starts[chosen + 1] - self.starts[chosen])

    def _batch(self, chosen: Tensor, bag: Tensor, labels: Tensor) -> Batch:
        if AVAILABLE:
            columns = (self.tokens, self.head_distance, self.tail_distance, self.starts, self.piece_lengths, chosen)
            words, heads, tails, pieces = (
                torch.from_numpy(part) for part in _gather(*(column.numpy() for column in columns))
            )
            return Batch(words, heads, tails, pieces, bag, labels)
        rows = self._token_rows(chosen)
        return Batch(
            tokens=self.tokens[rows].long(),
            head_distance=self.head_distance[rows].long(),
            tail_distance=self.tail_distance[rows].long(),
            piece_lengths=self.piece_lengths[chosen],
            bag=bag,
            labels=labels,
        )


@compiled
def _gather(tokens: Any, head_distance: Any, tail_distance: Any, starts: Any, piece_lengths: Any, chosen: Any) -> Any:
    """The columns of the chosen sentences, end to end."""
    total = 0
    for sentence in chosen:
        total += starts[sentence + 1] - starts[sentence]
    words, heads, tails = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    pieces = np.empty((len(chosen), piece_lengths.shape[1]), piece_lengths.dtype)
    place = 0
    for i in range(len(chosen)):
        pieces[i] = piece_lengths[chosen[i]]
        for t in range(starts[chosen[i]], starts[chosen[i] + 1]):
            words[place], heads[place], tails[place] = tokens[t], head_distance[t], tail_distance[t]
            place += 1
    return words, heads, tails, pieces


def ragged(starts: Tensor, lengths: Tensor) -> Tensor:
    """starts[0] … starts[0]+lengths[0]-1, starts[1] …, end to end."""
    shift = starts - (torch.cumsum(lengths, 0) - lengths)
    return torch.repeat_interleave(shift, lengths) + torch.arange(int(lengths.sum()))


def pack(split: Split, rows: Ints, bag_starts: Ints, word_numbers: Ints, *, reach: int, gap: int = 1) -> Shard:
    """The given rows, in the given order. `word_numbers` maps the store's words to the model's; `gap` separators
    stand between sentences (at least one).
    """
    gap = max(gap, 1)
    begins = np.asarray(split.offsets)[rows]
    lengths = np.asarray(split.offsets)[rows + 1] - begins  # (S,)
    starts = np.r_[0, np.cumsum(lengths + gap)]
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths + gap)  # (T,) place in the sentence
    is_word = within < np.repeat(lengths, lengths + gap)
    source = np.repeat(begins, lengths + gap) + within
    numbers = np.zeros(starts[-1], dtype=np.int64)
    numbers[is_word] = word_numbers[np.asarray(split.tokens)[source[is_word]]]
    vocabulary, tokens = np.unique(np.r_[0, numbers], return_inverse=True)
    spans = np.asarray(split.spans)[rows].astype(np.int64)
    first_end = np.minimum(spans[:, 1], spans[:, 3])
    second_end = np.maximum(spans[:, 1], spans[:, 3])
    pieces = np.stack([first_end, second_end - first_end, lengths - second_end, np.full_like(lengths, gap)], axis=1)
    return Shard(
        rows=rows,
        vocabulary=vocabulary,
        tokens=torch.from_numpy(tokens[1:].astype(np.int32)),
        head_distance=_distance(within, spans[:, 0], lengths + gap, is_word, reach),
        tail_distance=_distance(within, spans[:, 2], lengths + gap, is_word, reach),
        starts=torch.from_numpy(starts),
        piece_lengths=torch.from_numpy(pieces),
        labels=torch.from_numpy(np.asarray(split.labels)[rows].astype(np.int64)),
        bag_starts=torch.from_numpy(bag_starts),
    )


def _distance(within: Ints, entity: Ints, sizes: Ints, is_word: Ints, reach: int) -> Tensor:
    """(T,) distance to the entity's first token, clipped to ±reach and shifted to 1 … 2·reach+1; 0 at separators."""
    relative = within - np.repeat(entity, sizes)
    clipped = np.clip(relative, -reach, reach) + reach + 1
    return torch.from_numpy(np.where(is_word, clipped, 0).astype(np.int16))
