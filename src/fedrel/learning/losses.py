"""Losses on single sentences that take the place of plain cross-entropy. Each returns the mean over the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Output:
    """What a model makes of S sentences."""

    vectors: Tensor  # (S, H) of the encoder
    logits: Tensor  # (S, R)
    labels: Tensor  # (S,)
    sentences: Tensor  # (S,) places in the shard


Loss = Callable[[Output], Tensor]


def cross_entropy(output: Output) -> Tensor:
    """The loss of plain training. The compiled step knows this very function, and computes it without autograd."""
    return F.cross_entropy(output.logits, output.labels)


def scaled(logits: Tensor, counts: Tensor, alpha: float) -> Tensor:
    """FedRS: logits (S, R), those of classes without a sentence on the platform (counts (R,) of 0) times alpha."""
    return logits * torch.where(counts > 0, 1.0, alpha).to(logits.dtype)


def calibrated(logits: Tensor, counts: Tensor, tau: float) -> Tensor:
    """FedLC: logits (S, R) less tau · n_c^(-1/4), n_c the count (R,) of the class, at least 1."""
    return logits - tau * counts.clamp(min=1).to(logits.dtype) ** -0.25


def contrast(vectors: Tensor, global_: Tensor, previous: Tensor, temperature: float) -> Tensor:
    """MOON: small where the vectors (S, H) are nearer to the global model's than to the previous local model's."""
    near = F.cosine_similarity(vectors, global_, dim=1) / temperature  # (S,)
    far = F.cosine_similarity(vectors, previous, dim=1) / temperature
    return F.softplus(far - near).mean()


def to_rows(vectors: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
    """FedCMC: cross-entropy of vectors (S, H) against fixed classifier vectors (R, H)."""
    return F.cross_entropy(vectors @ rows.T, labels)


def divergence(teacher: Tensor, logits: Tensor) -> Tensor:
    """KL(q ‖ p), mean over sentences: q (S, R) the teacher's probabilities, p the softmax of the logits."""
    return F.kl_div(F.log_softmax(logits, dim=1), teacher, reduction="batchmean")
