"""A step of gradient descent with weight decay, in one pass over the weights."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fedrel.kernels.jit import compiled


@compiled
def move(weights: Any, grads: Any, shrink: Any, lr: Any) -> None:
    """weight ← shrink · weight - lr · grad, for tuples of arrays of one dimension, in place."""
    for n in range(len(weights)):
        weight, grad = weights[n], grads[n]
        for i in range(len(weight)):
            weight[i] = shrink * weight[i] - lr * grad[i]


def descend(weights: list[Tensor], grads: list[Tensor], *, shrink: float, lr: float) -> None:
    """weight ← shrink · weight - lr · grad, for tensors of one dimension on the CPU, in place."""
    arrays = tuple(weight.numpy() for weight in weights)
    if arrays:
        kind = arrays[0].dtype.type
        move(arrays, tuple(grad.numpy() for grad in grads), kind(shrink), kind(lr))
