"""Which wrong class the seed model takes an item for (Sharma et al., NAACL 2022, equation 5; Yu et al., ECCV 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from fedrel.errors import UserError


def transition(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Q (C, C), Q[c, d] = P(wrongly predicted d | truly c), from what the seed model makes of gold items.

    Row c averages the probabilities (n, C) of the items with labels (n,) c that the model gets wrong, each without its
    entry c and normalised on its own first. A class of which nothing is wrong says nothing: uniform. The diagonal is
    0 and every row sums to 1.
    """
    classes = probabilities.shape[1]
    if classes < 2:
        raise UserError("feedback needs at least two classes; with one, no prediction can be wrong")
    p = probabilities.double()
    truth = torch.nn.functional.one_hot(labels.long(), classes).bool()  # (n, C)
    others = p.masked_fill(truth, 0.0)
    sums = others.sum(1, keepdim=True)  # 1 - p_c, and exactly so however p was rounded
    wrong = (p.argmax(1) != labels) & (sums[:, 0] > 0)
    shares = (others / sums)[wrong]  # (m, C)
    totals = p.new_zeros(classes, classes).index_add_(0, labels[wrong].long(), shares)
    uniform = (1.0 - torch.eye(classes, dtype=p.dtype, device=p.device)) / (classes - 1)
    q = torch.where(totals.sum(1, keepdim=True) > 0, totals, uniform)
    q = q / q.sum(1, keepdim=True)
    return q.to(torch.promote_types(probabilities.dtype, torch.float32))
