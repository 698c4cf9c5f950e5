"""Log-odds of classes, log p/(1-p), from logits: what sentences and bags are ranked by.

A probability in 32 bits is exactly 1 from log-odds of 17 on, and a good model has a third of its sentences there; their
log-odds still differ. So nothing is ranked, selected or calibrated by a probability: those are for people to read.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_odds(logits: Tensor) -> Tensor:
    """(…, R) the log-odds of every class under the softmax of logits (…, R), in double precision: the class's logit
    minus the log-sum-exp of all others.
    """
    logits = logits.double()
    top = logits.argmax(-1, keepdim=True)
    is_top = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, top, True)
    log_p = torch.log_softmax(logits, dim=-1)
    # 1 - p of any class but the most likely is at least 1/2, and safe to compute; the most likely needs the others' sum
    others = torch.logsumexp(logits.masked_fill(is_top, -torch.inf), dim=-1, keepdim=True)
    return torch.where(is_top, logits - others, log_p - torch.log1p(-log_p.exp().masked_fill(is_top, 0.0)))


def label_log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """(S,) the log-odds of each row's own label (S,) under the softmax of logits (S, R), in their precision. It can be
    mapped by torch.func.vmap.
    """
    is_label = torch.zeros_like(logits, dtype=torch.bool).scatter(1, labels[:, None], True)
    others = torch.logsumexp(logits.masked_fill(is_label, -torch.inf), dim=1)
    return logits.gather(1, labels[:, None]).squeeze(1) - others
