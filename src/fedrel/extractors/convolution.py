"""The base class of CNN and PCNN: word and position vectors, a convolution on packed text, max-pooling by piece."""

from typing import ClassVar, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedrel.encoding.packed import PackedBatch, PackedShard
from fedrel.encoding.shard import Batch
from fedrel.extractors.encoder import Encoder
from fedrel.extractors.word_table import WordTable
from fedrel.kernels import jit
from fedrel.kernels.activations import SLOPES
from fedrel.kernels.opt_in import opted_in
from fedrel.kernels.pooling import piece_max
from fedrel.kernels.table_convolution import table_convolution
from fedrel.kernels.windows import windows

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}
_PARAMETERS = {"head_position", "tail_position", "convolution.weight", "convolution.bias"}


class Convolution(Encoder):
    """Words ⊕ distance to head ⊕ distance to tail → convolution → maximum of each piece → activation.

    A subclass that computes exactly this, and differs in `pieces` and `piece_lengths` alone, may set
    `plain_convolution = True` in its own body: the compiled step and stacked training then stand in for its `encode`.
    """

    plain_convolution: ClassVar[bool]  # not inherited, see is_plain_convolution
    needs_pairs = True
    pieces: int
    words: WordTable

    def __init__(
        self,
        *,
        word_dim: int = 50,
        position_dim: int = 5,
        filters: int = 230,
        window: int = 3,
        reach: int = 60,
        activation: str = "tanh",
        trainable_words: bool = True,
    ) -> None:
        super().__init__()
        width = word_dim + 2 * position_dim
        self.window = window
        self.filters = filters
        self.hidden = self.pieces * filters
        self.activation = ACTIVATIONS[activation]
        self.words = WordTable(word_dim, trainable=trainable_words)
        self.head_position = nn.Parameter(torch.randn(2 * reach + 2, position_dim) * 0.1)
        self.tail_position = nn.Parameter(torch.randn(2 * reach + 2, position_dim) * 0.1)
        self.convolution = nn.Linear(window * width, filters)
        nn.init.xavier_uniform_(self.convolution.weight)
        nn.init.zeros_(self.convolution.bias)
        with torch.no_grad():
            self.head_position[0] = 0
            self.tail_position[0] = 0

    def encode(self, batch: Batch) -> Tensor:
        assert isinstance(batch, PackedBatch)
        lengths = self.piece_lengths(batch)  # (S, pieces + 1), the last is the separator
        pool = self._by_table if jit.usable(batch.tokens.device) else self._by_product
        pooled = pool(batch, lengths)  # (S·pieces, filters)
        return self.activation(pooled.reshape(len(lengths), self.hidden))  # (S, hidden)

    def _by_table(self, batch: PackedBatch, lengths: Tensor) -> Tensor:
        """(S·pieces, filters) by the compiled convolution."""
        vectors, words = self.words.distinct(batch.tokens)
        return table_convolution(
            vectors,
            self.head_position,
            self.tail_position,
            self.convolution.weight,
            self.convolution.bias,
            words,
            batch.head_distance,
            batch.tail_distance,
            lengths,
        )

    def _by_product(self, batch: PackedBatch, lengths: Tensor) -> Tensor:
        """(S·pieces, filters) by matrix products, on any device."""
        head = F.embedding(batch.head_distance, self.head_position, padding_idx=0)
        tail = F.embedding(batch.tail_distance, self.tail_position, padding_idx=0)
        rows = torch.cat([self.words(batch.tokens), head, tail], dim=1)  # (T, D)
        features = self.convolution(windows(rows, self.window))  # (T, filters)
        ends = lengths.reshape(-1).cumsum(0).view_as(lengths)[:, : self.pieces].reshape(-1)
        return piece_max(features, ends, lengths[:, : self.pieces].reshape(-1))

    def piece_lengths(self, batch: PackedBatch | PackedShard) -> Tensor:
        """(S, pieces + 1) the tokens of each piece, and last the separators, which belong to none."""
        raise AssertionError("every convolution has its own")


def is_plain_convolution(encoder: Encoder) -> TypeGuard[Convolution]:
    """Whether kernels compute exactly what this encoder computes: its own class says so (a subclass of it must say so
    again), it has a convolution's parameters and no others, and kernels know its activation.
    """
    return (
        isinstance(encoder, Convolution)
        and opted_in(encoder, "plain_convolution")
        and encoder.activation in SLOPES
        and type(encoder.convolution) is nn.Linear
        and type(encoder.words) is WordTable
        and {name for name, _ in encoder.named_parameters()} == _PARAMETERS
    )
