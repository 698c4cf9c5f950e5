"""Sentences end to end, without padding: the input of the convolutions.

Every sentence is followed by separator rows whose vector is zero, as many as a convolution window extends to one side,
so that the window never covers two sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedrel.data.store import Ints, Split
from fedrel.encoding.shard import Batch, Shard
from fedrel.kernels.jit import AVAILABLE, compiled


@dataclass(frozen=True, kw_only=True)
class PackedBatch(Batch):
    """S sentences of T token rows."""

    tokens: Tensor  # (T,) indices into the shard's vocabulary; 0 at separators
    head_distance: Tensor  # (T,) 1 … 2·reach+1; 0 at separators
    tail_distance: Tensor  # (T,)
    piece_lengths: Tensor  # (S, 4) rows up to the end of the first entity, of the second, of the sentence; separators
    hidden: Tensor | None = None  # (T,) the tokens with the names of both entities hidden

    def names_hidden(self) -> PackedBatch | None:
        if self.hidden is None:
            return None
        return replace(self, tokens=self.hidden, hidden=None)


@dataclass(frozen=True, kw_only=True)
class PackedShard(Shard):
    """S sentences of T token rows, each sentence followed by separator rows."""

    head_distance: Tensor  # (T,) int16
    tail_distance: Tensor  # (T,) int16
    piece_lengths: Tensor  # (S, 4) int64
    hidden: Tensor | None = None  # (T,) int32, `tokens` with stand-ins in the place of both entities' names
    copies: dict[torch.device, PackedShard] = field(default_factory=dict, repr=False)  # on other devices

    def at(self, device: torch.device) -> PackedShard:
        """A copy on this device, made once and kept, since it is used in every round."""
        if self.labels.device == device:
            return self
        if device not in self.copies:
            columns: dict[str, Any] = {
                name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
            }
            self.copies[device] = replace(self, **columns, copies={})
        return self.copies[device]

    def unlabelled(self) -> PackedShard:
        return replace(self, labels=torch.zeros_like(self.labels), copies={})  # the copies have labels

    def hiding_names(self, share: float, seed: int) -> PackedShard:
        """A copy in which this share of the entities, drawn from the seed, have stand-ins in the place of their names,
        in training.
        """
        if self.hidden is None:
            return self
        draw = torch.Generator().manual_seed(seed)
        drawn = torch.rand(len(self), 2, generator=draw) < share  # (S, 2) of the first entity, of the second
        sentence = torch.repeat_interleave(self.starts.diff(), output_size=len(self.tokens))  # (T,)
        second = torch.arange(len(self.tokens)) - self.starts[sentence] >= self.piece_lengths[sentence, 0]
        gone = drawn[sentence, second.long()]
        return replace(self, tokens=torch.where(gone, self.hidden, self.tokens), hidden=None, copies={})

    def _token_columns(self) -> list[Tensor]:
        return [self.tokens] if self.hidden is None else [self.tokens, self.hidden]

    def bags_between(self, first: int, last: int) -> Batch:
        if self.labels.device.type == "cpu":
            return super().bags_between(first, last)
        bag_starts = self.bag_starts[first : last + 1]
        begin, end = int(bag_starts[0]), int(bag_starts[-1])
        tokens = slice(int(self.starts[begin]), int(self.starts[end]))
        return PackedBatch(
            sentences=torch.arange(begin, end, device=self.labels.device),
            bag=torch.repeat_interleave(bag_starts.diff(), output_size=end - begin),
            labels=self.labels[bag_starts[:-1]],
            tokens=self.tokens[tokens].long(),
            head_distance=self.head_distance[tokens].long(),
            tail_distance=self.tail_distance[tokens].long(),
            piece_lengths=self.piece_lengths[begin:end],
            hidden=None if self.hidden is None else self.hidden[tokens].long(),
        )

    def _batch(self, chosen: Tensor, bag: Tensor, labels: Tensor) -> PackedBatch:
        if AVAILABLE and chosen.device.type == "cpu":
            columns = (self.tokens, self.head_distance, self.tail_distance, self.starts, self.piece_lengths, chosen)
            words, heads, tails, pieces = (
                torch.from_numpy(part) for part in _gather(*(column.numpy() for column in columns))
            )
        else:
            rows = self._token_rows(chosen)
            words, heads, tails = (
                column[rows].long() for column in (self.tokens, self.head_distance, self.tail_distance)
            )
            pieces = self.piece_lengths[chosen]
        hidden = None if self.hidden is None else self.hidden[self._token_rows(chosen)].long()
        return PackedBatch(
            sentences=chosen,
            bag=bag,
            labels=labels,
            tokens=words,
            head_distance=heads,
            tail_distance=tails,
            piece_lengths=pieces,
            hidden=hidden,
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


def pack(
    split: Split,
    rows: Ints,
    bag_starts: Ints,
    word_numbers: Ints | None,
    *,
    reach: int,
    gap: int = 1,
    stand_ins: Ints | None = None,
) -> PackedShard:
    """The sentences of these rows, in this order, with bags that begin at `bag_starts` (bags+1,). `word_numbers` maps
    the split's word numbers to the model's; None if they are the same. Distances to an entity are clipped to ±reach;
    `gap` separators, at least one, follow each sentence. With `stand_ins`, of the model's words, the shard also has its
    tokens with names hidden.
    """
    gap = max(gap, 1)
    begins = np.asarray(split.offsets)[rows]
    lengths = np.asarray(split.offsets)[rows + 1] - begins  # (S,)
    starts = np.r_[0, np.cumsum(lengths + gap)]
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths + gap)  # (T,) place in the sentence
    is_word = within < np.repeat(lengths, lengths + gap)
    source = np.repeat(begins, lengths + gap) + within
    numbers = np.zeros(starts[-1], dtype=np.int64)
    words = np.asarray(split.tokens)[source[is_word]]
    numbers[is_word] = words if word_numbers is None else word_numbers[words]
    spans = np.asarray(split.spans)[rows].astype(np.int64)
    hidden = np.zeros(0, dtype=np.int64)
    if stand_ins is not None:
        named = _inside(within, spans[:, :2], lengths + gap) | _inside(within, spans[:, 2:], lengths + gap)
        hidden = np.where(named & is_word, stand_ins[numbers], numbers)
    vocabulary, both = _distinct(np.concatenate([numbers, hidden]))
    tokens, standing = both[: len(numbers)], both[len(numbers) :]
    first_end = np.minimum(spans[:, 1], spans[:, 3])
    second_end = np.maximum(spans[:, 1], spans[:, 3])
    pieces = np.stack([first_end, second_end - first_end, lengths - second_end, np.full_like(lengths, gap)], axis=1)
    return PackedShard(
        rows=rows,
        vocabulary=vocabulary,
        tokens=torch.from_numpy(tokens.copy() if stand_ins is not None else tokens),
        head_distance=_distance(within, spans[:, 0], lengths + gap, is_word, reach),
        tail_distance=_distance(within, spans[:, 2], lengths + gap, is_word, reach),
        starts=torch.from_numpy(starts),
        piece_lengths=torch.from_numpy(pieces),
        labels=torch.from_numpy(np.asarray(split.labels)[rows].astype(np.int64)),
        bag_starts=torch.from_numpy(bag_starts),
        hidden=None if stand_ins is None else torch.from_numpy(standing.copy()),
    )


def _inside(within: Ints, span: Ints, sizes: Ints) -> npt.NDArray[np.bool_]:
    """(T,) whether each row, by its place in the sentence, lies in its sentence's span: (S, 2) begin and end."""
    return (within >= np.repeat(span[:, 0], sizes)) & (within < np.repeat(span[:, 1], sizes))


def _distinct(numbers: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
    """The distinct numbers and 0, ascending, and the index of each number among them. Counts, since sorting is slow."""
    seen = np.zeros(int(numbers.max(initial=0)) + 1, dtype=np.bool_)
    seen[numbers] = seen[0] = True
    found = np.flatnonzero(seen)
    place = np.empty(len(seen), np.int32)
    place[found] = np.arange(len(found), dtype=np.int32)
    return found, place[numbers]


def _distance(within: Ints, entity: Ints, sizes: Ints, is_word: Ints, reach: int) -> Tensor:
    """(T,) distance to the entity's first token, clipped to ±reach and shifted to 1 … 2·reach+1; 0 at separators."""
    relative = within - np.repeat(entity, sizes)
    clipped = np.clip(relative, -reach, reach) + reach + 1
    return torch.from_numpy(np.where(is_word, clipped, 0).astype(np.int16))
