"""The formulas of every method once more, dense and in float64, without a line of fedrel: what tests compare with.

A model is a plain dictionary of float64 tensors. Server steps are written tensor by tensor and platform by platform.
Local training is gradient descent on the objective that a paper states, whose gradient autograd finds; its model reads
a sentence as the mean of its word vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Weights = dict[str, Tensor]
Objective = Callable[[Weights], Tensor]


def float64(tensors: Mapping[str, Tensor]) -> Weights:
    return {name: value.detach().double() for name, value in tensors.items()}


def whole(base: Weights, patch: Mapping[str, Tensor]) -> Weights:
    """The model that a reply stands for. A table that comes as rows: all of it times the factor, then the rows."""
    found = {}
    for name, value in base.items():
        if name in patch:
            found[name] = patch[name].double().clone()
            continue
        found[name] = value * float(patch[f"{name}#factor"])
        for row, values in zip(patch[f"{name}#rows"].tolist(), patch[f"{name}#values"].double(), strict=True):
            found[name][row] = values
    return found


def zeros(base: Weights) -> Weights:
    return {name: torch.zeros_like(value) for name, value in base.items()}


# ------------------------------------------------------------------------------------------------------- server steps


def mean(models: Sequence[Weights], weights: Sequence[float] | None = None) -> Weights:
    """Σ n_k w_k / Σ n_k; without weights, the plain mean."""
    counts = [1.0] * len(models) if weights is None else weights
    found = zeros(models[0])
    for model, count in zip(models, counts, strict=True):
        for name in found:
            found[name] = found[name] + count / sum(counts) * model[name]
    return found


def scaffold(
    c: Weights, models: Sequence[Weights], changes: Sequence[Weights], platforms: int
) -> tuple[Weights, Weights]:
    """x⁺ = mean y_k;  c⁺ = c + |A|/K · mean Δc_k."""
    step = mean(changes)
    return mean(models), {name: c[name] + len(models) / platforms * step[name] for name in c}


def feddyn(x: Weights, h: Weights, models: Sequence[Weights], alpha: float, platforms: int) -> tuple[Weights, Weights]:
    """h⁺ = h - α·|A|/K·(avg - x);  x⁺ = avg - h⁺/α."""
    average = mean(models)
    new = {name: h[name] - alpha * len(models) / platforms * (average[name] - x[name]) for name in x}
    return {name: average[name] - new[name] / alpha for name in x}, new


def fedatt(x: Weights, models: Sequence[Weights], epsilon: float) -> Weights:
    """Per tensor: s_k = ‖x - w_k‖, a = softmax(s), x⁺ = x - ε Σ a_k (x - w_k)."""
    found = {}
    for name, value in x.items():
        lengths = [math.sqrt(float(((value - model[name]) ** 2).sum())) for model in models]
        total = sum(math.exp(length) for length in lengths)
        found[name] = value.clone()
        for length, model in zip(lengths, models, strict=True):
            found[name] -= epsilon * math.exp(length) / total * (value - model[name])
    return found


def fedavgm(x: Weights, v: Weights, average: Weights, momentum: float, lr: float) -> tuple[Weights, Weights]:
    """v⁺ = momentum·v + (avg - x);  x⁺ = x + lr·v⁺."""
    new = {name: momentum * v[name] + average[name] - x[name] for name in x}
    return {name: x[name] + lr * new[name] for name in x}, new


def fedadam(
    x: Weights, m: Weights, v: Weights, average: Weights, *, lr: float, beta1: float, beta2: float, tau: float
) -> tuple[Weights, Weights, Weights]:
    """Δ = avg - x;  m⁺ = β₁m + (1-β₁)Δ;  v⁺ = β₂v + (1-β₂)Δ²;  x⁺ = x + lr·m⁺/(√v⁺ + τ)."""
    m = {name: beta1 * m[name] + (1 - beta1) * (average[name] - x[name]) for name in x}
    v = {name: beta2 * v[name] + (1 - beta2) * (average[name] - x[name]) ** 2 for name in x}
    return {name: x[name] + lr * m[name] / (v[name] ** 0.5 + tau) for name in x}, m, v


def likeness(classifier: Tensor) -> list[float]:
    """FedCMC's d_c of one platform's classifier (R, H): the mean over i ≠ c of cos(Θ_c, Θ_i)."""
    found = []
    for c, row in enumerate(classifier):
        others = [other for i, other in enumerate(classifier) if i != c]
        cosines = [float(row @ other) / math.sqrt(float(row @ row) * float(other @ other)) for other in others]
        found.append(sum(cosines) / len(cosines))
    return found


def class_vectors(classifiers: Sequence[Tensor], pick: Callable[[Sequence[float]], float]) -> Tensor:
    """(R, H) of every class, the row of the platform whose d `pick` picks: min for major vectors, max for minor."""
    likenesses = [likeness(classifier) for classifier in classifiers]
    rows = []
    for c in range(len(classifiers[0])):
        of_class = [values[c] for values in likenesses]
        rows.append(classifiers[of_class.index(pick(of_class))][c])
    return torch.stack(rows)


def election(ballots: Mapping[str, Mapping[int, float]], turn: int) -> dict[str, set[int]]:
    """Lazy MIL: the keys that each platform wins; of equal scores, that of the first platform from `turn` on, in the
    order of names.
    """
    names = sorted(ballots)
    in_turn = [names[(turn + i) % len(names)] for i in range(len(names))]
    won: dict[str, set[int]] = {platform: set() for platform in ballots}
    for key in {key for ballot in ballots.values() for key in ballot}:
        highest = max(ballot[key] for ballot in ballots.values() if key in ballot)
        winner = next(platform for platform in in_turn if ballots[platform].get(key) == highest)
        won[winner].add(key)
    return won


def teacher(log_p: Sequence[Tensor], kind: str, temperature: float) -> Tensor:
    """FedED: (S, R) from every platform's log p (S, R), as fedrel.algorithms.feded names the three kinds."""
    stacked = torch.stack([part.double() for part in log_p])  # (k, S, R)
    if kind == "log-mean":
        scores = stacked.mean(0)
    elif kind == "prob-mean":
        scores = stacked.exp().mean(0).log()
    else:
        scores = stacked.exp().mean(0)
    powers = (scores / temperature).exp()
    return powers / powers.sum(1, keepdim=True)


def transition(p: Tensor, labels: Tensor) -> Tensor:
    """Feedback's Q (C, C) from probabilities (n, C) of gold items with labels (n,)."""
    classes = p.shape[1]
    rows = []
    for c in range(classes):
        shares = []
        for probabilities, label in zip(p.tolist(), labels.tolist(), strict=True):
            if label == c and probabilities.index(max(probabilities)) != c:
                shares.append(
                    [0.0 if d == c else value / (1 - probabilities[c]) for d, value in enumerate(probabilities)]
                )
        uniform = [0.0 if d == c else 1 / (classes - 1) for d in range(classes)]
        rows.append([sum(column) / len(shares) for column in zip(*shares, strict=True)] if shares else uniform)
    return torch.tensor(rows, dtype=torch.float64)


# ----------------------------------------------------------------------------------------------------- local training


@dataclass(frozen=True)
class Texts:
    """S sentences over a table of V words."""

    share: Tensor  # (S, V) how much of a sentence each word is
    labels: Tensor  # (S,)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]], labels: Sequence[int], words: int) -> Texts:
        share = torch.zeros(len(sentences), words, dtype=torch.float64)
        for place, sentence in enumerate(sentences):
            for word in sentence:
                share[place, word] += 1 / len(sentence)
        return cls(share, torch.tensor(labels))

    def vectors(self, w: Weights) -> Tensor:
        """(S, H)."""
        return self.share @ w["words"]

    def logits(self, w: Weights) -> Tensor:
        """(S, R)."""
        found = self.vectors(w) @ w["classifier.weight"].T
        return found + w["classifier.bias"] if "classifier.bias" in w else found

    def log_p(self, w: Weights) -> Tensor:
        """(S, R)."""
        logits = self.logits(w)
        return logits - logits.exp().sum(1, keepdim=True).log()


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over sentences of -log softmax(logits)_y."""
    own = logits[torch.arange(len(labels)), labels]
    return (logits.exp().sum(1).log() - own).mean()


def inner(one: Weights, other: Weights) -> Tensor:
    """⟨one, other⟩ over all tensors."""
    return torch.stack([(value * other[name]).sum() for name, value in one.items()]).sum()


def far(one: Weights, other: Weights) -> Tensor:
    """‖one - other‖² over all tensors."""
    return torch.stack([((value - other[name]) ** 2).sum() for name, value in one.items()]).sum()


def cosine(one: Tensor, other: Tensor) -> Tensor:
    """(S,) of the rows of two (S, H)."""
    return (one * other).sum(1) / ((one**2).sum(1) * (other**2).sum(1)).sqrt()


def descend(start: Weights, objective: Objective, *, steps: int, lr: float, decay: float = 0.0) -> Weights:
    """w ← w - lr·(∇objective(w) + decay·w), so many times; each step sees all sentences."""
    w = start
    for _ in range(steps):
        leaves = {name: value.clone().requires_grad_() for name, value in w.items()}
        value = objective(leaves) + decay / 2 * far(leaves, zeros(leaves))
        gradients = torch.autograd.grad(value, list(leaves.values()))
        w = {name: it.detach() - lr * by for (name, it), by in zip(leaves.items(), gradients, strict=True)}
    return w
