"""Zeng et al., EMNLP 2015: a convolution whose maxima are taken in three pieces cut at the two entities."""

from torch import Tensor

from fedrel.encoding.packed import PackedBatch, PackedShard
from fedrel.extractors.convolution import Convolution


class PCNN(Convolution):
    plain_convolution = True
    pieces = 3

    def piece_lengths(self, batch: PackedBatch | PackedShard) -> Tensor:
        return batch.piece_lengths
