"""What the server can see of updates without knowing the text behind them, and means that a few wrong ones cannot ruin.

An update is what a platform changed, w_k - w: of a whole model, or of one with a word table as the rows that changed
and a factor for all others (see `named.py`). Everything here takes both, gives the same for both, and never makes the
whole table of a single platform. Patches may lie on disk: they are gone through one by one, some times over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

import torch
from torch import Tensor

from fedrel.learning.named import FACTOR, ROWS, VALUES, Named, weighted_mean

_ROUNDING = 1e-6  # of a difference that is nothing but rounding
_AT_ONCE = 2**26  # numbers of all platforms together: 256 MB


def norms(base: Named, patches: Iterable[Named]) -> list[float]:
    """‖w_k - w‖ of every platform, over all tensors together."""
    squared = {name: _dot(value, value) for name, value in base.items()}
    return [_norm(base, patch, squared) for patch in patches]


def agreement(base: Named, patches: Iterable[Named], lengths: Sequence[float]) -> list[float]:
    """The cosine between each platform's update and the sum of all others', none of which counts for more than one of
    median length does; 0 where there is nothing to compare. `lengths` are their norms.
    """
    most = median(lengths)
    weights = [min(1.0, most / length) if length else 0.0 for length in lengths]  # (k,)
    total = sum(weights)
    if not total:
        return [0.0 for _ in lengths]
    pull = total * (weighted_mean(base, patches, weights) - base)  # Σ weight · update
    along = {name: _dot(value, pull[name]) for name, value in base.items()}
    whole = sum(_dot(value, value) for value in pull.values())  # ‖pull‖²
    found = []
    for patch, length, weight in zip(patches, lengths, weights, strict=True):
        here = _along(base, patch, pull, along)  # ⟨update, pull⟩
        own = weight * length**2
        others = whole - 2 * weight * here + weight * own  # ‖pull - weight · update‖²
        scale = length * math.sqrt(others) if others > _ROUNDING * whole else 0.0
        found.append(max(-1.0, min(1.0, (here - own) / scale)) if scale else 0.0)
    return found


def clipped_mean(base: Named, patches: Iterable[Named], weights: Sequence[float], clip: float) -> Named:
    """The mean, updates longer than `clip` times the median being shortened to that (Sun et al., 2019; one step of
    Karimireddy et al., ICML 2021, around the weights that were sent).
    """
    total = sum(weights)
    if total <= 0:
        return base
    lengths = norms(base, patches)
    most = clip * median(lengths)
    shorter = [
        weight * (most / length if length > most else 1.0) for weight, length in zip(weights, lengths, strict=True)
    ]
    kept = sum(shorter) / total
    mean = weighted_mean(base, patches, shorter)
    return mean if kept == 1 else base + kept * (mean - base)


def coordinate_median(base: Named, patches: Iterable[Named]) -> Named:
    """Number by number, the median of all platforms; of an even count, halfway between the two in the middle. Everybody
    has one vote (Yin et al., ICML 2018).
    """

    def middle(values: Tensor) -> Tensor:
        ordered, count = values.sort(dim=0).values, len(values)
        return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2

    return _by_number(base, patches, middle)


def trimmed_mean(base: Named, patches: Iterable[Named], trim: float) -> Named:
    """Number by number, the mean without the share `trim` of platforms that are highest and as many that are lowest.
    Everybody has one vote (Yin et al., ICML 2018).
    """

    def inner(values: Tensor) -> Tensor:
        cut = min(math.floor(trim * len(values)), (len(values) - 1) // 2)
        return values.sort(dim=0).values[cut : len(values) - cut].mean(0)

    return _by_number(base, patches, inner)


def krum(base: Named, patches: Iterable[Named], liars: float) -> Named:
    """The one model with the least sum of squared distances to its n - f - 2 nearest, f being the share `liars` of all
    n (Blanchard et al., NeurIPS 2017). Of fewer than three, the first.
    """
    distance = distances(base, patches)  # (k, k)
    count = len(distance)
    near = max(count - math.floor(liars * count) - 2, 1)
    others = distance + torch.diag(torch.full((count,), torch.inf, dtype=distance.dtype))
    score = others.sort(dim=1).values[:, :near].sum(1) if count > 2 else torch.zeros(count)
    chosen = int(score.argmin())
    return weighted_mean(base, patches, [float(place == chosen) for place in range(count)])


def distances(base: Named, patches: Iterable[Named]) -> Tensor:
    """(k, k) ‖w_i - w_j‖² between platforms."""
    count = sum(1 for _ in patches)
    found = torch.zeros(count, count, dtype=torch.float64)
    for name, rows, values in _blocks(base, patches):
        sent = base[name] if rows is None else base[name][rows]
        moved = (values - sent).flatten(1).double()  # (k, …): small numbers, of which products lose less
        products = (moved @ moved.T).cpu()
        found += products.diagonal()[:, None] + products.diagonal()[None, :] - 2 * products
    for name, (factor, alone) in _left_alone(base, patches).items():
        found += _dot(base[name][alone], base[name][alone]) * (factor[:, None] - factor[None, :]) ** 2
    return found.clamp(min=0)


def _by_number(base: Named, patches: Iterable[Named], combine: Callable[[Tensor], Tensor]) -> Named:
    """`combine` makes of the platforms' numbers (k, …) one for each place (…); it is the same whichever way is up, so
    that rows which everybody only scaled can be done by their factors.
    """
    found = Named({name: torch.empty_like(value) for name, value in base.items()})
    for name, rows, values in _blocks(base, patches):
        if rows is None:
            found[name] = combine(values)
        else:
            found[name][rows] = combine(values)
    for name, (factor, alone) in _left_alone(base, patches).items():
        found[name][alone] = base[name][alone] * float(combine(factor))
    return found


def _blocks(base: Named, patches: Iterable[Named]) -> Iterator[tuple[str, Tensor | None, Tensor]]:
    """Every tensor of all platforms side by side, (k, …); of a table that comes as patches, the rows that anybody
    changed, a part at a time: the name, which rows (None: all), and the numbers.
    """
    first = next(iter(patches))
    for name, value in base.items():
        if name in first:
            yield name, None, torch.stack([patch[name].to(value.device) for patch in patches])
            continue
        changed = _changed(value, patches, name).nonzero().squeeze(1)
        step = max(1, _AT_ONCE // max(1, value.shape[1] * sum(1 for _ in patches)))
        for part in torch.split(changed, step):
            yield name, part, torch.stack([_rows_of(value, patch, name, part) for patch in patches])


def _left_alone(base: Named, patches: Iterable[Named]) -> dict[str, tuple[Tensor, Tensor]]:
    """Of every table that comes as patches: everybody's factors (k,), and which rows (n,) nobody changed otherwise."""
    first = next(iter(patches))
    return {
        name: (
            torch.tensor([float(patch[name + FACTOR]) for patch in patches], dtype=torch.float64),
            ~_changed(value, patches, name),
        )
        for name, value in base.items()
        if name not in first
    }


def _changed(table: Tensor, patches: Iterable[Named], name: str) -> Tensor:
    """(n,) whether anybody names the row."""
    changed = torch.zeros(len(table), dtype=torch.bool, device=table.device)
    for patch in patches:
        changed[patch[name + ROWS].long().to(table.device)] = True
    return changed


def _rows_of(table: Tensor, patch: Named, name: str, wanted: Tensor) -> Tensor:
    """(|wanted|, d) these rows as the platform has them; `wanted` rises."""
    found = table[wanted] * float(patch[name + FACTOR])
    rows, values = patch[name + ROWS].long().to(table.device), patch[name + VALUES].to(table.device)
    place = torch.searchsorted(wanted, rows).clamp(max=len(wanted) - 1)
    here = wanted[place] == rows
    found[place[here]] = values[here]
    return found


def _norm(base: Named, patch: Named, squared: dict[str, float]) -> float:
    total = 0.0
    for name, sent in base.items():
        if name in patch:
            moved = patch[name].to(sent.device) - sent
            total += _dot(moved, moved)
            continue
        rows, values, left = _patched(sent, patch, name)
        moved = values - sent[rows]
        total += _dot(moved, moved) + left**2 * max(squared[name] - _dot(sent[rows], sent[rows]), 0.0)
    return math.sqrt(total)


def _along(base: Named, patch: Named, pull: Named, along: dict[str, float]) -> float:
    """⟨w_k - w, pull⟩."""
    total = 0.0
    for name, sent in base.items():
        if name in patch:
            total += _dot(patch[name].to(sent.device) - sent, pull[name])
            continue
        rows, values, left = _patched(sent, patch, name)
        total += _dot(values - sent[rows], pull[name][rows])
        total += left * (along[name] - _dot(sent[rows], pull[name][rows]))
    return total


def _patched(sent: Tensor, patch: Named, name: str) -> tuple[Tensor, Tensor, float]:
    """Which rows became what, and what the others became more than they were: factor - 1."""
    rows, values = patch[name + ROWS].long().to(sent.device), patch[name + VALUES].to(sent.device)
    return rows, values, float(patch[name + FACTOR]) - 1


def _dot(one: Tensor, other: Tensor) -> float:
    return float(torch.dot(one.reshape(-1), other.reshape(-1)))
