"""Activations in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrel.compiled import compiled

# tanh x as x·p(x²)/q(x²), where float32 does not know it from 1 or -1 it is those: Eigen's, right but for the last
# digits. Calling a library for every number takes ten times as long as all other work on it.
_FAR = 7.90531110763549805
_P = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_Q = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


@compiled
def activate(values: Any, is_tanh: bool) -> None:
    """In place: tanh, or else relu."""
    kind = values.dtype.type
    if not is_tanh:
        for i in range(len(values)):
            values[i] = kind(0) if values[i] <= 0 else values[i]  # what is no number stays
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
    value = np.float32(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + np.float32(coefficient)
    return value


@compiled
def back_through(grad: Any, activated: Any, scales: Any, is_tanh: bool) -> None:
    """grad ← grad · scales · the slope where the activation gave these numbers."""
    kind = grad.dtype.type
    for i in range(len(grad)):
        value = activated[i]
        slope = 1 - value * value if is_tanh else kind(value > 0)
        grad[i] *= scales[i] * slope
