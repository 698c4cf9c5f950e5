"""The word vectors of one shard, trained without ever touching the rows that a batch does not use."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedrel.kernels import jit
from fedrel.kernels.embedding import add_rows, distinct

SMALL = 1e-3  # a factor below this is folded into the rows, before their numbers grow too large


class WordTable(nn.Module):
    """W = factor · rows + anchor · start + shift · push.

    Weight decay shrinks every row alike, a pull to where training began moves every row by the same share of the way,
    and a constant push moves it by the same multiple of the push: three numbers say it for all rows. That is exactly
    what the dense update does, at the cost of the touched rows alone.
    """

    rows: Tensor

    def __init__(self, dimension: int, *, trainable: bool) -> None:
        super().__init__()
        self.dimension = dimension
        self.trainable = trainable
        self.reads = 0  # how often vectors were asked for
        self.register_buffer("rows", torch.zeros(1, dimension), persistent=False)
        self._restart()

    def _restart(self) -> None:
        self.factor, self.anchor, self.shift = 1.0, 0.0, 0.0
        self.elsewhere = (1.0, 0.0)  # what became of rows that this shard lacks: so much of their start, of their push
        self._start: Tensor | None = None
        self._push: Tensor | None = None
        self._seen: list[tuple[Tensor, Tensor]] = []  # words, and their vectors that autograd knows
        self._handed_in: list[tuple[Tensor, Tensor]] = []  # words, and the gradients of their vectors

    def load(self, rows: Tensor) -> None:
        """Takes over a table (v, D), which training will change in place; row 0 is padding."""
        self.rows = rows
        self._restart()

    def pulled(self, push: Tensor | None) -> None:
        """From now on, steps pull to the rows as they are now, and push by these (v, D)."""
        self._start = self.rows.clone()
        if push is not None:
            push[0] = 0  # padding stays where it is
        self._push = push

    def distinct(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(U, D) the vectors of the distinct ones of the tokens (T,), and (T,) the place of every token among them."""
        found, places = distinct(tokens, len(self.rows))
        return self(found), places

    def forward(self, tokens: Tensor) -> Tensor:
        """(T, D) the vectors of the tokens (T,); their gradient is what the next step uses."""
        vectors = self.values(tokens)  # (T, D)
        if self.trainable and torch.is_grad_enabled():
            vectors.requires_grad_()
            self._seen.append((tokens, vectors))
        return vectors

    def hand_in(self, tokens: Tensor, grad: Tensor) -> None:
        """Leaves the gradient (U, D) of these words' (U,) vectors for the next step, where autograd did not find it."""
        if self.trainable:
            self._handed_in.append((tokens, grad))

    def values(self, chosen: Tensor) -> Tensor:
        """(T, D) the current vectors of the chosen rows (T,)."""
        self.reads += 1
        vectors = self.rows.index_select(0, chosen)
        if self.factor != 1.0:
            vectors.mul_(self.factor)
        if self.anchor and self._start is not None:
            vectors.add_(self._start.index_select(0, chosen), alpha=self.anchor)
        if self.shift and self._push is not None:
            vectors.add_(self._push.index_select(0, chosen), alpha=self.shift)
        return vectors

    @torch.no_grad()
    def step(self, lr: float, weight_decay: float, pull: float = 0.0) -> None:
        """One SGD step on all of W, from the gradients of the vectors handed out since the last:
        W ← W - lr·(gradient + weight_decay·W + pull·(W - start) + push).
        """
        if not self.trainable:
            return
        shrink = 1.0 - lr * (weight_decay + pull)
        self.factor *= shrink
        self.anchor = self.anchor * shrink + lr * pull
        self.shift = self.shift * shrink - lr
        start, push = self.elsewhere
        self.elsewhere = start * shrink + lr * pull, push * shrink - lr
        if self.factor < SMALL:
            self._fold()
        for tokens, grad in self._gradients():
            if jit.usable(self.rows.device):
                add_rows(self.rows, tokens, grad, -lr / self.factor)
            else:
                change = grad.mul_(-lr / self.factor)
                self.rows.scatter_add_(0, tokens[:, None].expand_as(change), change)
                self.rows[0] = 0

    def stepped(self, steps: int, factor: float, lr: float, weight_decay: float) -> None:
        """Records so many steps without a pull that the compiled step made on the rows (see kernels/step.py), and the
        factor that it left.
        """
        if self.trainable:
            start, push = self.elsewhere
            self.elsewhere = start * (1.0 - lr * weight_decay) ** steps, push
        self.factor = factor

    def _fold(self) -> None:
        self.rows = self.values(torch.arange(len(self.rows), device=self.rows.device))
        self.factor, self.anchor, self.shift = 1.0, 0.0, 0.0

    def gradient(self) -> Tensor:
        """(v, D) the gradient of all rows, for optimisers that need it whole, since the last step."""
        whole = torch.zeros_like(self.rows)
        for tokens, grad in self._gradients():
            whole.index_add_(0, tokens, grad)
        whole[0] = 0
        return whole

    def _gradients(self) -> list[tuple[Tensor, Tensor]]:
        """Words and the gradients of their vectors, since the last step; they are handed out once."""
        found = [(tokens, vectors.grad) for tokens, vectors in self._seen if vectors.grad is not None]
        found += self._handed_in
        self._seen, self._handed_in = [], []
        return found
