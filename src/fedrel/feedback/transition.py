"""The transition matrix of complementary labels: which wrong class the seed model predicts instead of the true one
(Sharma et al., NAACL 2022, equation 5; Yu et al., ECCV 2018).
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedrel.errors import UserError


def transition(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Q (C, C) with Q[c, d] = P(wrongly predicted d | truly c), from the seed model's `probabilities` (n, C) for gold
    items with `labels` (n,).

    Row c averages over the items of class c that the model gets wrong, after each item's entry c is removed and the
    rest normalised. A class without such items gets a uniform row. The diagonal is 0 and every row sums to 1. Raises
    UserError for fewer than two classes.
    """
    classes = probabilities.shape[1]
    if classes < 2:
        raise UserError("feedback needs at least two classes; with one, no prediction can be wrong")
    p = probabilities.double()
    truth = torch.nn.functional.one_hot(labels.long(), classes).bool()  # (n, C)
    others = p.masked_fill(truth, 0.0)
    sums = others.sum(1, keepdim=True)  # 1 - p_c without its rounding error
    wrong = (p.argmax(1) != labels) & (sums[:, 0] > 0)
    shares = (others / sums)[wrong]  # (m, C)
    totals = p.new_zeros(classes, classes).index_add_(0, labels[wrong].long(), shares)
    uniform = (1.0 - torch.eye(classes, dtype=p.dtype, device=p.device)) / (classes - 1)
    q = torch.where(totals.sum(1, keepdim=True) > 0, totals, uniform)
    q = q / q.sum(1, keepdim=True)
    return q.to(torch.promote_types(probabilities.dtype, torch.float32))
