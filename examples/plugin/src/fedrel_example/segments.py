"""A sentence as the means of its word vectors before, between and after the two entities, through one layer."""

from typing import Any

import torch
from torch import Tensor, nn

from fedrel.encoding.packed import PackedBatch
from fedrel.encoding.shard import Batch
from fedrel.extractors import Encoder
from fedrel.extractors.word_table import WordTable


class Segments(Encoder):
    needs_pairs = True

    def __init__(
        self, *, word_dim: int = 50, filters: int = 230, trainable_words: bool = True, **settings: Any
    ) -> None:
        super().__init__()
        self.hidden = filters
        self.words = WordTable(word_dim, trainable=trainable_words)
        self.layer = nn.Linear(3 * word_dim, filters)

    def encode(self, batch: Batch) -> Tensor:
        """(S, hidden) from S sentences of T words, D numbers a word."""
        assert isinstance(batch, PackedBatch)
        lengths = batch.piece_lengths.reshape(-1)  # (4·S,) three segments and the separator of every sentence
        segment = torch.repeat_interleave(lengths, output_size=len(batch.tokens))  # (T,)
        vectors = self.words(batch.tokens)  # (T, D)
        total = vectors.new_zeros(len(lengths), vectors.shape[1]).index_add(0, segment, vectors)
        means = total / lengths.clamp(min=1)[:, None]
        return torch.tanh(self.layer(means.view(len(batch.piece_lengths), 4, -1)[:, :3].flatten(1)))
