"""Named tensors that add, subtract and scale, so that formulas read like the paper."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Named(dict[str, Tensor]):
    """Tensors by name. Arithmetic works on all of them at once and returns a new Named."""

    def _combine(self, other: Named | float, op: Callable[[Tensor, Tensor | float], Tensor]) -> Named:
        if isinstance(other, Named):
            if self.keys() != other.keys():
                raise ValueError(f"names differ: {sorted(self.keys() ^ other.keys())}")
            return Named({name: op(value, other[name]) for name, value in self.items()})
        return Named({name: op(value, other) for name, value in self.items()})

    def __add__(self, other: Named) -> Named:
        return self._combine(other, torch.add)

    def __sub__(self, other: Named) -> Named:
        return self._combine(other, torch.sub)

    def __mul__(self, factor: float) -> Named:
        return self._combine(factor, torch.mul)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Named | float) -> Named:
        return self._combine(divisor, torch.div)

    def __pow__(self, exponent: float) -> Named:
        return self._combine(exponent, torch.pow)

    def to(self, device: torch.device) -> Named:
        return Named({name: value.to(device) for name, value in self.items()})

    def zeros(self) -> Named:
        return Named({name: torch.zeros_like(value) for name, value in self.items()})


# A large table of which a platform changes few rows travels as those rows and one factor for all
# others (weight decay shrinks every row alike): new = factor * old, then new[rows] = values.
ROWS, VALUES, FACTOR = "#rows", "#values", "#factor"


def table_patch(name: str, rows: Tensor, values: Tensor, factor: float) -> Named:
    """How `name` changed, for a receiver that holds the table as it was."""
    return Named(
        {
            name + ROWS: rows,
            name + VALUES: values,
            name + FACTOR: torch.tensor([factor], dtype=torch.float64),
        }
    )


def apply_patch(base: Named, patch: Named) -> Named:
    """The whole model that `patch` stands for, given the model it was trained from."""
    return weighted_mean(base, [(patch, 1.0)])


def weighted_mean(base: Named, patches: list[tuple[Named, float]]) -> Named:
    """Mean of models trained from `base`, each whole or as a patch: exactly the dense mean, without making it."""
    total = sum(weight for _, weight in patches)
    if not patches or total <= 0:
        return base
    shares = [(patch, weight / total) for patch, weight in patches]
    return Named({name: _mean_tensor(name, value, shares) for name, value in base.items()})


def _mean_tensor(name: str, base: Tensor, shares: list[tuple[Named, float]]) -> Tensor:
    if all(name in patch for patch, _ in shares):
        mean = torch.zeros_like(base)
        for patch, share in shares:
            mean.add_(patch[name], alpha=share)
        return mean
    if any(name + ROWS not in patch for patch, _ in shares):
        raise ValueError(f"a reply holds neither {name} nor its rows")
    mean = base * sum(float(patch[name + FACTOR]) * share for patch, share in shares)
    for patch, share in shares:
        rows, factor = patch[name + ROWS].long().to(base.device), float(patch[name + FACTOR])
        mean.index_add_(0, rows, patch[name + VALUES] - factor * base[rows], alpha=share)
    return mean
