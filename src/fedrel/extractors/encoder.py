"""What an encoder is: sentences in, one vector a sentence out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedrel.encoding.shard import Batch
from fedrel.extractors.words import WordTable


class Encoder(nn.Module):
    hidden: int
    words: WordTable

    frozen = False  # it never changes: a sentence need be read only once

    # Set by the training loop: the share of numbers dropped, and where the draws come from
    dropout = 0.0
    draws: torch.Generator | None = None

    def encode(self, batch: Batch) -> Tensor:
        """(S, hidden)."""
        raise AssertionError("every encoder has its own")

    def drop(self, vectors: Tensor) -> Tensor:
        """Dropout from uniform numbers: the library's draws each zero and one at three times the price, and takes
        them from where others draw, too.
        """
        if not self.training or not self.dropout:
            return vectors
        drawn = torch.rand(vectors.shape, generator=self.draws, dtype=vectors.dtype, device=vectors.device)
        keep = drawn.ge_(self.dropout)
        return vectors * keep.div_(1.0 - self.dropout)
