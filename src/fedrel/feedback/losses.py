"""Losses on predictions that users have judged (Sharma et al., NAACL 2022, sections 4.3 and 4.4).

A prediction judged right is used as a label. One judged wrong is a complementary label: a class that the item does not
have. S is the number of items, C that of classes; each loss is returned per item, (S,), so that each part can be
averaged over its own items.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

PASSIVE = 2.0  # the weight of RCE relative to NCE (equation 8)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy -log p_y, (S,), of logits (S, C) and labels (S,)."""
    return F.nll_loss(log_p(logits), labels, reduction="none")


def nce(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Normalised cross-entropy (equation 9): log p_y / Σ_k log p_k, between 0 and 1, (S,), of log p (S, C)."""
    return F.nll_loss(log_probabilities, labels, reduction="none") / -log_probabilities.sum(1)


def rce(probabilities: Tensor, labels: Tensor, a: float = -4.0) -> Tensor:
    """Reverse cross-entropy (equation 10), (S,), of p (S, C): -Σ_k p_k log q_k with q the one-hot label and log 0 := a,
    that is -a (1 - p_y).
    """
    return -a * (1.0 - probabilities.gather(1, labels[:, None]).squeeze(1))


def robust(logits: Tensor, labels: Tensor, a: float = -4.0) -> Tensor:
    """NCE + 2 RCE (equation 8), (S,), for predictions judged right; logits (S, C) and labels (S,)."""
    log_probabilities = log_p(logits)
    return nce(log_probabilities, labels) + PASSIVE * rce(log_probabilities.exp(), labels, a)


def complementary(logits: Tensor, given: Tensor, q: Tensor, *, floor: float = 1e-7) -> Tensor:
    """-log (Qᵀf)_ρ (equation 6), (S,): f is the softmax of logits (S, C), ρ = given (S,) the prediction judged wrong,
    and q (C, C) the transition matrix with q[c, d] = P(wrongly predicted d | truly c). Probabilities are clamped at
    `floor`, below which there is no gradient.
    """
    return F.nll_loss(_others(logits, q, floor).log(), given, reduction="none")


def robust_complementary(logits: Tensor, given: Tensor, q: Tensor, a: float = -4.0, *, floor: float = 1e-7) -> Tensor:
    """NCE + 2 RCE for predictions judged wrong, (S,); the arguments are those of `complementary`.

    The paper replaces cross-entropy in both parts of its loss and does not write the second one out. There,
    cross-entropy is that of the distribution over complementary classes, Qᵀf, at ρ; so are NCE and RCE here. With two
    classes this equals `robust` for the other class, as it should.
    """
    others = _others(logits, q, floor)
    return nce(others.log(), given) + PASSIVE * rce(others, given, a)


def schedule(p: float, t: int) -> float:
    """α = 1 - p^t, the weight of the predictions judged wrong in round t, counted from 0; those judged right have the
    weight 1 - α.
    """
    return 1.0 - p**t


def mix(logits: Tensor, given: Tensor, wrong: Tensor, q: Tensor, *, alpha: float, robust_: bool = False) -> Tensor:
    """The scalar loss (1 - α) · mean over accepted items + α · mean over rejected items; a part without items is 0.

    logits (S, C), given (S,) the labels shown, wrong (S,) whether each was rejected, q (C, C) the transition matrix.
    `robust_` uses NCE + 2 RCE instead of cross-entropy in both parts.
    """
    accepted = (robust if robust_ else cross_entropy)(logits[~wrong], given[~wrong])
    rejected = (robust_complementary if robust_ else complementary)(logits[wrong], given[wrong], q)
    return (1 - alpha) * accepted.sum() / max(len(accepted), 1) + alpha * rejected.sum() / max(len(rejected), 1)


def log_p(logits: Tensor) -> Tensor:
    """The log-softmax (S, C), in float32 at least: half precision cannot represent small probabilities."""
    return F.log_softmax(logits, dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _others(logits: Tensor, q: Tensor, floor: float) -> Tensor:
    """(S, C) Qᵀf, the probability that each class is the one wrongly predicted."""
    f = log_p(logits).exp()
    return (f @ q.to(f)).clamp(min=floor)
