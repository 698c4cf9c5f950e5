"""Sentences as word pieces with markers around the two entities, for pretrained transformers.

`[CLS] the [E1] aspirin [/E1] eased her [E2] headache [/E2] . [SEP]`. A sentence that is too long loses the words
farthest from its entities; the markers always stay. Needs the `bert` extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrel.config import Extractor
from fedrel.data.store import Ints, Split
from fedrel.encoding.pretrained import read_tokenizer, weights_folder
from fedrel.encoding.shard import Batch, Shard
from fedrel.errors import UserError

MARKERS = ("[E1]", "[/E1]", "[E2]", "[/E2]")  # around the head, around the tail
ANY_TYPE = "entity"  # replaces a blinded mention of unknown type
_FOLDER = "encoder"
LENGTH_MULTIPLE = 8  # lengths are padded to a multiple of this: few padded shapes, and efficient ones on a GPU
_CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class PieceBatch(Batch):
    """S sentences, padded to L pieces: the longest of them, rounded up to a multiple of LENGTH_MULTIPLE."""

    ids: Tensor  # (S, L) indices into the shard's vocabulary; 0 is padding
    lengths: Ints  # (S,) always on the CPU: reading a number from the GPU would block until it is idle
    spans: Tensor  # (S, 4) head start, head end, tail start, tail end, in pieces; all 0 if there is no pair


@dataclass(frozen=True, kw_only=True)
class PieceShard(Shard):
    """S sentences of T pieces. `vocabulary` holds only the pieces that occur in the shard, usually a tenth of all."""

    spans: Tensor  # (S, 4) int64, counted from the sentence's first piece
    max_length: int
    kept: list[Tensor] = field(default_factory=list)  # one (S, H), once a frozen encoder has computed the vectors
    device: torch.device = _CPU  # where batches are built
    copies: dict[torch.device, tuple[Tensor, ...]] = field(default_factory=dict, repr=False)  # text on other devices

    def at(self, device: torch.device) -> PieceShard:
        """A view of the same sentences whose batches are built on this device, from text that is copied there once.
        Which sentences, and how long they are, stays on the CPU, so that nothing waits for the device.
        """
        return self if device == self.device else replace(self, device=device)

    def _batch(self, chosen: Tensor, bag: Tensor, labels: Tensor) -> PieceBatch:
        lengths = (self.starts[chosen + 1] - self.starts[chosen]).numpy()
        there = chosen.to(self.device, non_blocking=True)
        if self.kept:
            nothing = torch.zeros((len(chosen), 0), dtype=torch.int64, device=self.device)
            vectors = self.kept[0][chosen.to(self.kept[0].device, non_blocking=True)]
            ids, spans = nothing, nothing
        else:
            vectors = None
            longest = int(lengths.max()) if len(chosen) else LENGTH_MULTIPLE
            longest = -(-longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
            longest = min(longest, self.max_length)  # the transformer may have no position embeddings beyond
            ids, spans = self._padded(there, longest)
        return PieceBatch(
            sentences=there,
            bag=bag.to(self.device, non_blocking=True),
            labels=labels.to(self.device, non_blocking=True),
            vectors=vectors,
            ids=ids,
            lengths=lengths,
            spans=spans,
        )

    def _padded(self, chosen: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """The padded pieces of these sentences, (S, longest), and the spans of their entities, (S, 4)."""
        tokens, starts, spans = self._columns()
        places = starts[chosen][:, None] + torch.arange(longest, device=self.device)  # (S, L)
        outside = places >= starts[chosen + 1][:, None]
        return tokens[places.masked_fill_(outside, 0)].long().masked_fill_(outside, 0), spans[chosen]

    def _columns(self) -> tuple[Tensor, Tensor, Tensor]:
        if self.device == _CPU:
            return self.tokens, self.starts, self.spans
        if self.device not in self.copies:
            self.copies[self.device] = tuple(it.to(self.device) for it in (self.tokens, self.starts, self.spans))
        tokens, starts, spans = self.copies[self.device]
        return tokens, starts, spans


class PieceEncoding:
    """Encodes sentences by a pretrained tokenizer, with entity markers if `pairs`; see `fedrel.encoding.Encoding`.

    `blind` replaces the mentions by their types. `max_length` counts pieces, special tokens included. Raises UserError
    for a tokenizer without [CLS], [SEP] or [PAD].
    """

    def __init__(self, tokenizer: Any, *, max_length: int, blind: bool, pairs: bool) -> None:
        self.tokenizer = tokenizer
        self.max_length, self.blind, self.pairs = max_length, blind, pairs
        if pairs:
            tokenizer.add_tokens(list(MARKERS), special_tokens=True)
        self._markers: list[int] = tokenizer.convert_tokens_to_ids(list(MARKERS)) if pairs else []
        self._numbers: dict[str, int] = {}
        self._pieces: list[list[int]] = []
        first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        last = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        if first is None or last is None or tokenizer.pad_token_id is None:
            raise UserError("extractor.weights: the tokenizer has no [CLS], [SEP] or [PAD]; use a model like BERT")
        unknown = tokenizer.unk_token_id
        self._unknown = int(tokenizer.pad_token_id if unknown is None else unknown)
        self._first, self._last = int(first), int(last)

    @classmethod
    def of(cls, settings: Extractor, *, pairs: bool) -> PieceEncoding:
        """The encoding for an extractor with these settings, by the tokenizer of its pretrained weights."""
        tokenizer = read_tokenizer(weights_folder(settings.weights), f'extractor.weights = "{settings.weights}"')
        return cls(tokenizer, max_length=settings.max_length, blind=settings.blind, pairs=pairs)

    @classmethod
    def load(cls, folder: Path, settings: Extractor, *, pairs: bool) -> PieceEncoding:
        """The encoding that `save` has written to a folder."""
        tokenizer = read_tokenizer(str(folder / _FOLDER), str(folder / _FOLDER))
        return cls(tokenizer, max_length=settings.max_length, blind=settings.blind, pairs=pairs)

    def save(self, folder: Path) -> list[str]:
        """Writes the tokenizer for `load`; returns the names of the files."""
        self.tokenizer.save_pretrained(folder / _FOLDER)
        return sorted(f"{_FOLDER}/{path.name}" for path in (folder / _FOLDER).iterdir())

    def __len__(self) -> int:
        return len(self.tokenizer)

    @property
    def padding(self) -> int:
        """The number of the padding piece."""
        return int(self.tokenizer.pad_token_id)

    def numbers(self, words: Sequence[str]) -> Ints:
        """(len(words),) the number of each word in this encoding. Each distinct word is tokenized once."""
        new = list(dict.fromkeys(word for word in words if word not in self._numbers))
        if new:
            for word, pieces in zip(new, self._tokenize(new), strict=True):
                self._numbers[word] = len(self._pieces)
                self._pieces.append(pieces or [self._unknown])
        return np.array([self._numbers[word] for word in words], dtype=np.int64).reshape(-1)

    def _tokenize(self, words: list[str]) -> list[list[int]]:
        """The pieces of each word as if inside a text. A word that looks like a marker or like [SEP] counts as text."""
        spaced = [f" {word}".encode("utf-8", "replace").decode() for word in words]  # a lone surrogate becomes "?"
        cut = self.tokenizer(spaced, add_special_tokens=False, split_special_tokens=True, verbose=False)
        pieces: list[list[int]] = cut["input_ids"]
        return pieces

    def pack(self, split: Split, rows: Ints, bag_starts: Ints, numbers: Ints | None = None) -> PieceShard:
        """The sentences of these rows, in this order. `numbers` maps the split's word numbers to this encoding's; None
        if they are the same.
        """
        any_type = int(self.numbers([ANY_TYPE])[0])
        tokens, offsets, spans = (np.asarray(column) for column in (split.tokens, split.offsets, split.spans))
        flat: list[int] = []
        places, starts = [], [0]
        for row in rows.tolist():
            words = tokens[offsets[row] : offsets[row + 1]]
            ours = (words if numbers is None else numbers[words]).tolist()
            types = [any_type, any_type]
            if self.blind and split.types is not None:
                told = [int(word) for word in split.types[row]]
                types = [any_type if word < 0 else int(numbers[word] if numbers is not None else word) for word in told]
            cut, place = self._sentence(ours, spans[row].tolist(), types)
            flat += cut
            places.append(place)
            starts.append(len(flat))
        padding = self.padding
        pieces = np.array(flat, dtype=np.int64)
        used = np.setdiff1d(pieces, [padding])  # ascending
        return PieceShard(
            rows=rows,
            labels=torch.from_numpy(np.asarray(split.labels)[rows].astype(np.int64)),
            vocabulary=np.r_[padding, used],
            tokens=torch.from_numpy(np.where(pieces == padding, 0, np.searchsorted(used, pieces) + 1).astype(np.int32)),
            starts=torch.tensor(starts, dtype=torch.int64),
            bag_starts=torch.from_numpy(bag_starts),
            spans=torch.tensor(places, dtype=torch.int64).reshape(-1, 4),
            max_length=self.max_length,
        )

    def _sentence(self, words: list[int], span: list[int], types: list[int]) -> tuple[list[int], list[int]]:
        """All pieces of a sentence, and head start, head end, tail start, tail end among them."""
        if not self.pairs:
            return [self._first, *self._cut(words)[: self.max_length - 2], self._last], [0, 0, 0, 0]
        parts = self._parts(words, span, types)
        _shorten(parts, self.max_length - 2)
        ids, ends = [self._first], {}
        for part in parts:
            if part.marker is not None:  # a span lies between its two markers
                ends[part.marker] = len(ids) + (1 if part.marker % 2 == 0 else 0)
            ids += part.ids
        return [*ids, self._last], [ends[0], ends[1], ends[2], ends[3]]

    def _parts(self, words: list[int], span: list[int], types: list[int]) -> list[_Part]:
        """The sentence split at the boundaries of its entities, which may be nested, with the markers in between."""
        sides = ((span[0], span[1]), (span[2], span[3]))
        inward = sorted((0, 1), key=lambda side: sides[side][0] - sides[side][1])  # the longer contains the shorter
        borders = sorted({0, len(words), *span})
        parts: list[_Part] = []
        for begin, end in zip(borders, [*borders[1:], len(words)], strict=True):
            closing = [side for side in reversed(inward) if sides[side][1] == begin]
            opening = [side for side in inward if sides[side][0] == begin]
            parts += [_Part([self._markers[2 * side + 1]], marker=2 * side + 1) for side in closing]
            for side in opening:
                parts.append(_Part([self._markers[2 * side]], marker=2 * side))
                if self.blind:
                    parts.append(_Part(self._cut([types[side]]), inside=True))
            inside = any(first <= begin < last for first, last in sides)
            if not (inside and self.blind):
                parts.append(_Part(self._cut(words[begin:end]), inside=inside))
        return parts

    def _cut(self, words: list[int]) -> list[int]:
        return [piece for word in words for piece in self._pieces[word]]


@dataclass
class _Part:
    ids: list[int]
    marker: int | None = None  # index into MARKERS
    inside: bool = False  # part of an entity


def _shorten(parts: list[_Part], most: int) -> None:
    """Removes pieces until at most `most` are left: first those before the first entity and after the last, from the
    outside; then those between the entities, from the middle; then the ends of the entities themselves.
    """
    marked = [place for place, part in enumerate(parts) if part.marker is not None]
    before, after = parts[: marked[0]], parts[marked[-1] + 1 :]
    between = [part for part in parts[marked[0] : marked[-1]] if part.marker is None and not part.inside]
    entities = [part for part in parts if part.inside]

    def excess() -> int:
        return sum(len(part.ids) for part in parts) - most

    outer = [*before, *after]
    if (over := excess()) > 0 and outer:
        left, right = (sum(len(part.ids) for part in side) for side in (before, after))
        keep = max(left + right - over, 0)
        keep_left = min(left, max(keep // 2, keep - right))
        for part in before:
            part.ids = part.ids[len(part.ids) - keep_left :]
        for part in after:
            part.ids = part.ids[: keep - keep_left]
    for part in between:
        if (over := excess()) > 0:
            keep = max(len(part.ids) - over, 0)
            part.ids = part.ids[: -(-keep // 2)] + part.ids[len(part.ids) - keep // 2 :]
    while (over := excess()) > 0:
        longest = max(entities, key=lambda part: len(part.ids))
        longest.ids = longest.ids[: max(len(longest.ids) - over, len(longest.ids) // 2)]
