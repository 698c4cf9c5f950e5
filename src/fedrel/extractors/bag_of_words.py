"""Joulin et al., EACL 2017: the mean of a text's word vectors. Nothing is faster; the order of words is lost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedrel.encoding.packed import PackedBatch
from fedrel.encoding.shard import Batch
from fedrel.extractors.encoder import Encoder
from fedrel.extractors.word_table import WordTable


class Bag(Encoder):
    words: WordTable

    def __init__(self, *, word_dim: int = 50, trainable_words: bool = True, **unused: Any) -> None:
        super().__init__()
        self.hidden = word_dim
        self.words = WordTable(word_dim, trainable=trainable_words)

    def encode(self, batch: Batch) -> Tensor:
        assert isinstance(batch, PackedBatch)
        rows = batch.piece_lengths.sum(1)  # (S,) separators included, whose vectors are zero
        sentence = torch.repeat_interleave(rows, output_size=len(batch.tokens))  # (T,)
        vectors = self.words(batch.tokens)  # (T, D)
        total = vectors.new_zeros(len(rows), self.hidden).index_add(0, sentence, vectors)
        mean: Tensor = total / batch.piece_lengths[:, :3].sum(1).clamp(min=1)[:, None]
        return mean
