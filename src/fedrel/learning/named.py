"""Named tensors that add, subtract and scale, so that formulas read like the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from fedrel.kernels.jit import AVAILABLE, compiled


class Named(dict[str, Tensor]):
    """Tensors by name. Arithmetic works on all of them at once and returns a new Named."""

    def _combine(self, other: Named | float, op: Callable[[Tensor, Tensor | float], Tensor]) -> Named:
        if isinstance(other, Named):
            if self.keys() != other.keys():
                raise ValueError(_difference(self.keys() ^ other.keys()))
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


def _difference(names: set[str]) -> str:
    hint = "; make a trained model whole on its platform: apply_patch(sent, trained), declared as `whole model`"
    return f"names differ: {sorted(names)}" + (hint if any(name.endswith(ROWS) for name in names) else "")


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
    return weighted_mean(base, [patch], [1.0])


def weighted_mean(base: Named, patches: Iterable[Named], weights: Sequence[float]) -> Named:
    """Mean of models trained from `base`, each whole or as a patch: exactly the dense mean, without making it. It goes
    over the patches one by one, twice if they hold patches of tables, and keeps none.
    """
    total = sum(weights)
    if not weights or total <= 0:
        return base
    shares = [weight / total for weight in weights]
    factors = _factors(base, patches)
    means = Named({name: _start(name, value, factors, shares) for name, value in base.items()})
    for number, (patch, share) in enumerate(zip(patches, shares, strict=True)):
        for name, mean in means.items():
            if name in factors:
                _add_rows(mean, base[name], patch, name, factors[name][number], share)
            else:
                mean.add_(_held(patch, name), alpha=share)
    return means


def _add_rows(mean: Tensor, base: Tensor, patch: Named, name: str, factor: float, share: float) -> None:
    """mean[rows] += share · (values - factor · base[rows])"""
    rows, values = patch[name + ROWS], patch[name + VALUES]
    fits = values.shape == (len(rows), mean.shape[1]) and mean.dtype == base.dtype == values.dtype
    if AVAILABLE and mean.device.type == "cpu" and fits and _within(rows, len(mean)):  # compiled, nobody would look
        numbers = mean.numpy(), base.numpy(), rows.numpy(), values.numpy()
        _add_in_place(*numbers, numbers[0].dtype.type(factor), numbers[0].dtype.type(share))
    else:
        rows = rows.long().to(mean.device)
        mean.index_add_(0, rows, values - factor * base[rows], alpha=share)


def _within(rows: Tensor, count: int) -> bool:
    return not len(rows) or (int(rows.min()) >= 0 and int(rows.max()) < count)


@compiled
def _add_in_place(mean: Any, base: Any, rows: Any, values: Any, factor: Any, share: Any) -> None:
    for i in range(len(rows)):
        row = rows[i]
        for j in range(mean.shape[1]):
            mean[row, j] += share * (values[i, j] - factor * base[row, j])


def _factors(base: Named, patches: Iterable[Named]) -> dict[str, list[float]]:
    """Of every table that comes as patches: by how much each shrinks the rows that it leaves alone."""
    first = next(iter(patches))
    tables = [name for name in base if name not in first]
    factors: dict[str, list[float]] = {name: [] for name in tables}
    for patch in patches if tables else ():
        for name in tables:
            factors[name].append(float(_held(patch, name, FACTOR)))
    return factors


def _start(name: str, base: Tensor, factors: dict[str, list[float]], shares: list[float]) -> Tensor:
    if name not in factors:
        return torch.zeros_like(base)
    return base * sum(factor * share for factor, share in zip(factors[name], shares, strict=True))


def _held(patch: Named, name: str, part: str = "") -> Tensor:
    if name + part not in patch:
        raise ValueError(f"a reply holds neither {name} nor its rows")
    return patch[name + part]
