"""The loop a user would write: sentences padded to 128, `nn.Embedding` with dense gradients, `torch.optim.SGD`.

The tests use the same model as the reference that packed, sparse training must equal. It imports without fedrel, for
it also runs where there is none (see benchmarks/flower).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from fedrel.encoding.packed import PackedShard

LENGTH = 128


@dataclass(frozen=True)
class Padded:
    """A shard as rectangles. S sentences, L places."""

    tokens: Tensor  # (S, L) the model's word numbers
    head: Tensor  # (S, L) distances
    tail: Tensor  # (S, L)
    piece: Tensor  # (S, L) 0, 1, 2; 3 is padding
    labels: Tensor  # (S,)


def pad(shard: PackedShard, length: int = LENGTH) -> Padded:
    sizes = shard.starts[1:] - shard.starts[:-1] - 1  # without the separator
    places = torch.arange(length)
    inside = places < sizes[:, None]  # (S, L)
    source = torch.where(inside, shard.starts[:-1, None] + places, 0)
    ends = shard.piece_lengths.cumsum(1)
    piece = (places[None, :, None] >= ends[:, None, :]).sum(2).clamp(max=3)
    vocabulary = torch.from_numpy(shard.vocabulary)
    return Padded(
        tokens=torch.where(inside, vocabulary[shard.tokens[source].long()], 0),
        head=torch.where(inside, shard.head_distance[source].long(), 0),
        tail=torch.where(inside, shard.tail_distance[source].long(), 0),
        piece=torch.where(inside, piece, 3),
        labels=shard.labels,
    )


class PlainPCNN(nn.Module):
    def __init__(
        self, vocabulary: int, relations: int, *, reach: int = 60, filters: int = 230, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, 50, padding_idx=0)
        self.head = nn.Embedding(2 * reach + 2, 5, padding_idx=0)
        self.tail = nn.Embedding(2 * reach + 2, 5, padding_idx=0)
        self.convolution = nn.Conv1d(60, filters, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(3 * filters, relations)

    def forward(self, tokens: Tensor, head: Tensor, tail: Tensor, piece: Tensor) -> Tensor:
        rows = torch.cat([self.words(tokens), self.head(head), self.tail(tail)], dim=2)  # (S, L, 60)
        features = self.convolution(rows.transpose(1, 2))  # (S, filters, L)
        pooled = []
        for number in range(3):
            outside = (piece != number)[:, None, :]
            best = features.masked_fill(outside, -torch.inf).amax(2)  # (S, filters)
            pooled.append(best.masked_fill(best == -torch.inf, 0))
        vectors = torch.tanh(torch.cat(pooled, dim=1))
        logits: Tensor = self.classifier(self.dropout(vectors))
        return logits


def train(model: PlainPCNN, data: Padded, batches: list[Tensor], *, lr: float, weight_decay: float) -> PlainPCNN:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=weight_decay)
    for chosen in batches:
        optimizer.zero_grad()
        logits = model(data.tokens[chosen], data.head[chosen], data.tail[chosen], data.piece[chosen])
        nn.functional.cross_entropy(logits, data.labels[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def plain_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under the names and in the shapes of PlainPCNN."""
    products = weights["encoder.convolution.weight"]  # (filters, place·D + d); the library's: (filters, d, place)
    return {
        "words.weight": weights["words"],
        "head.weight": weights["encoder.head_position"],
        "tail.weight": weights["encoder.tail_position"],
        "convolution.weight": products.view(len(products), 3, -1).transpose(1, 2).contiguous(),
        "convolution.bias": weights["encoder.convolution.bias"],
        "classifier.weight": weights["classifier.weight"],
        "classifier.bias": weights["classifier.bias"],
    }
