"""The base class of encoders: sentences in, one vector a sentence out."""

from __future__ import annotations

from torch import Tensor, nn

from fedrel.encoding.shard import Batch
from fedrel.extractors.word_table import WordTable
from fedrel.kernels.dropout import Draws, kept


class Encoder(nn.Module):
    """Has a table of word vectors, and makes vectors of `hidden` numbers."""

    hidden: int
    words: WordTable

    needs_pairs = False  # it looks for two entities in every sentence
    frozen = False  # it never changes: a sentence need be read only once

    # Set by the training loop: the share of numbers dropped, and where the draws come from
    dropout = 0.0
    draws: Draws | None = None

    def encode(self, batch: Batch) -> Tensor:
        """(S, hidden) the vectors of the batch's sentences, before dropout."""
        raise AssertionError("every encoder has its own")

    def frozen_part(self, batch: Batch) -> Tensor:
        """(S, W) what a frozen encoder makes of sentences before anything that is trained: their vectors, unless
        something is trained on top.
        """
        return self.encode(batch)

    @property
    def frozen_width(self) -> int:
        """W of `frozen_part`."""
        return self.hidden

    def trained_part(self, vectors: Tensor) -> Tensor:
        """(S, hidden) from what `frozen_part` has made: the same, unless something is trained on top."""
        return vectors

    def drop(self, vectors: Tensor) -> Tensor:
        """Dropout of the current training; the vectors themselves outside of training."""
        if not self.training or not self.dropout or self.draws is None:
            return vectors
        return vectors * kept(vectors, self.draws.next_key(), self.dropout)
