"""Zeng et al., COLING 2014: a convolution with one maximum over the whole sentence."""

import torch
from torch import Tensor

from fedrel.encoding.packed import PackedBatch, PackedShard
from fedrel.extractors.convolution import Convolution


class CNN(Convolution):
    plain_convolution = True
    pieces = 1

    def piece_lengths(self, batch: PackedBatch | PackedShard) -> Tensor:
        return torch.stack([batch.piece_lengths[:, :3].sum(1), batch.piece_lengths[:, 3]], dim=1)
