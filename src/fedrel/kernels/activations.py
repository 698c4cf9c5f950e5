"""Activations, forward and backward: in compiled loops, and the slopes that stacked training multiplies by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrel.kernels.jit import compiled

Activation = Callable[[Tensor], Tensor]
# Every activation that kernels know, with its slope as a function of the activated values (same shape). An encoder with
# any other activation trains by autograd.
SLOPES: dict[Activation, Activation] = {
    torch.tanh: lambda activated: 1 - activated**2,
    torch.relu: lambda activated: (activated > 0).to(activated.dtype),
}

# tanh x as x·p(x²)/q(x²), highest powers first: the quotient with the least relative error between 0 and 8 (4e-9; in
# float32 at most 4e-7), found by least squares whose weights grow where the error is large. Beyond 8 it is that of 8,
# 2e-7 from 1. Calling a library for every number takes ten times as long as all other work on it.
_FAR = 8.0
_P = (-1.15643225e-13, 6.36553942e-11, -2.23146764e-08, 1.16424472e-05, 3.14936505e-03, 1.31243501e-01, 1.0)
_Q = (2.61297474e-04, 2.46750017e-02, 4.64576816e-01, 1.0)


@compiled
def activate(values: Any, is_tanh: bool) -> None:
    """Forward: values (n,) ← tanh of them, or else relu, in place. NaN propagates."""
    kind = values.dtype.type
    if not is_tanh:
        for i in range(len(values)):
            values[i] = kind(0) if values[i] <= 0 else values[i]
    elif values.itemsize == 4:
        for i in range(len(values)):
            x = values[i]
            x = kind(_FAR) if x > kind(_FAR) else (kind(-_FAR) if x < kind(-_FAR) else x)
            values[i] = x * _polynomial(_P, x * x) / _polynomial(_Q, x * x)
    else:
        for i in range(len(values)):
            values[i] = np.tanh(values[i])


@compiled
def _polynomial(coefficients: Any, x: Any) -> Any:
    """Coefficients from the highest power down."""
    value = np.float32(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + np.float32(coefficient)
    return value


@compiled
def activate_backward(grad: Any, activated: Any, scales: Any, is_tanh: bool) -> None:
    """Backward, with dropout: grad ← grad · scales · the slope where the activation gave `activated`, all (n,)."""
    kind = grad.dtype.type
    for i in range(len(grad)):
        value = activated[i]
        slope = 1 - value * value if is_tanh else kind(value > 0)
        grad[i] *= scales[i] * slope
