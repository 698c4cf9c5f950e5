"""Losses on predictions that users judged (Sharma et al., NAACL 2022, sections 4.3 and 4.4).

A prediction called right is trained on as a label. One called wrong is a complementary label: the class that an item
does not have. Each function returns one loss per item, so that each part can be averaged over its own items.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

PASSIVE = 2.0  # the weight of RCE beside NCE (equation 8)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p_y; logits (S, C) and labels (S,) give (S,)."""
    return F.nll_loss(_log_p(logits), labels, reduction="none")


def nce(logits: Tensor, labels: Tensor) -> Tensor:
    """Normalised cross-entropy (equation 9): log p_y / Σ_k log p_k, between 0 and 1. (S,)"""
    return _nce(_log_p(logits), labels)


def rce(logits: Tensor, labels: Tensor, a: float = -4.0) -> Tensor:
    """Reverse cross-entropy (equation 10): -Σ_k p_k log q_k with q the one-hot label and log 0 := a, so -a (1 - p_y).
    (S,)
    """
    return _rce(_log_p(logits).exp(), labels, a)


def robust(logits: Tensor, labels: Tensor, a: float = -4.0) -> Tensor:
    """NCE + 2 RCE (equation 8), for predictions called right. (S,)"""
    log_p = _log_p(logits)
    return _nce(log_p, labels) + PASSIVE * _rce(log_p.exp(), labels, a)


def complementary(logits: Tensor, given: Tensor, q: Tensor, *, floor: float = 1e-7) -> Tensor:
    """-log (Qᵀf)_ρ (equation 6): f the softmax of logits (S, C), ρ = given (S,) the prediction called wrong, and
    q (C, C) with q[c, d] = P(called wrong for d | truly c). At `floor` the logarithm stops, and with it the gradient.
    (S,)
    """
    return F.nll_loss(_others(logits, q, floor).log(), given, reduction="none")


def robust_complementary(logits: Tensor, given: Tensor, q: Tensor, a: float = -4.0, *, floor: float = 1e-7) -> Tensor:
    """NCE + 2 RCE for predictions called wrong. (S,)

    The paper replaces cross-entropy in both of its parts and does not write the second one out. Cross-entropy there is
    taken of the distribution over complementary classes, Qᵀf, at ρ; so are NCE and RCE here. With two classes this is
    `robust` for the other class, as it should be.
    """
    others = _others(logits, q, floor)
    return _nce(others.log(), given) + PASSIVE * _rce(others, given, a)


def schedule(p: float, t: int) -> float:
    """α = 1 - p^t, the weight of the predictions called wrong in round t, counted from 0; those called right have
    the rest.
    """
    return 1.0 - p**t


def mix(logits: Tensor, given: Tensor, wrong: Tensor, q: Tensor, *, alpha: float, robust_: bool = False) -> Tensor:
    """(1 - α) · mean over accepted items + α · mean over items whose given label (S,) was called wrong (S,); a part
    without items is 0. `robust_` takes NCE + 2·RCE on both.
    """
    accepted = (robust if robust_ else cross_entropy)(logits[~wrong], given[~wrong])
    rejected = (robust_complementary if robust_ else complementary)(logits[wrong], given[wrong], q)
    return (1 - alpha) * accepted.sum() / max(len(accepted), 1) + alpha * rejected.sum() / max(len(rejected), 1)


def _log_p(logits: Tensor) -> Tensor:
    """(S, C), in 32 bits at least: half precision has no logarithm of a small probability."""
    return F.log_softmax(logits, dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _others(logits: Tensor, q: Tensor, floor: float) -> Tensor:
    """(S, C) Qᵀf, the probability of each class to be one that the item does not have."""
    f = _log_p(logits).exp()
    return (f @ q.to(f)).clamp(min=floor)


def _nce(log_p: Tensor, labels: Tensor) -> Tensor:
    return F.nll_loss(log_p, labels, reduction="none") / -log_p.sum(1)


def _rce(p: Tensor, labels: Tensor, a: float) -> Tensor:
    return -a * (1.0 - p.gather(1, labels[:, None]).squeeze(1))
