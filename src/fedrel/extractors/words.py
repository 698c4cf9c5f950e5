"""The word vectors of one shard, trained without ever touching the rows that a batch does not use."""

import torch
from torch import Tensor, nn

from fedrel.extractors import kernels


class WordTable(nn.Module):
    """W = factor · rows. Weight decay shrinks every row alike, so it is one multiplication of `factor`:
    exactly what the dense update does, at the cost of the touched rows alone.
    """

    rows: Tensor

    def __init__(self, dimension: int, *, trainable: bool) -> None:
        super().__init__()
        self.dimension = dimension
        self.trainable = trainable
        self.register_buffer("rows", torch.zeros(1, dimension), persistent=False)
        self.factor = 1.0
        self._seen: list[tuple[Tensor, Tensor]] = []

    def load(self, rows: Tensor) -> None:
        """Takes over a (v, D) table, which it will change; row 0 is padding."""
        self.rows = rows
        self.factor = 1.0
        self._seen = []

    def distinct(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors (U, D) of the distinct words among these, and the place of every token among them."""
        found, places = kernels.distinct(tokens, len(self.rows))
        return self(found), places

    def forward(self, tokens: Tensor) -> Tensor:
        vectors = self.rows.index_select(0, tokens)  # (T, D)
        if self.factor != 1.0:
            vectors.mul_(self.factor)
        if self.trainable and torch.is_grad_enabled():
            vectors.requires_grad_()
            self._seen.append((tokens, vectors))
        return vectors

    @torch.no_grad()
    def step(self, lr: float, weight_decay: float) -> None:
        """One SGD step on all of W, from the gradients of the vectors handed out since the last."""
        if not self.trainable:
            return
        self.factor *= 1.0 - lr * weight_decay
        for tokens, vectors in self._seen:
            if vectors.grad is None:
                continue
            if kernels.usable(self.rows.device):
                kernels.add_rows(self.rows, tokens, vectors.grad, -lr / self.factor)
            else:
                change = vectors.grad.mul_(-lr / self.factor)
                self.rows.scatter_add_(0, tokens[:, None].expand_as(change), change)
        self.rows[0] = 0
        self._seen = []

    def values(self, chosen: Tensor) -> Tensor:
        """The current vectors of these rows."""
        return self.rows[chosen] * self.factor
