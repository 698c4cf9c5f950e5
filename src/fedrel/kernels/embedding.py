"""Word vectors: the distinct words of a batch, their rows taken from a table, and gradients added to these rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrel.kernels.jit import compiled


@compiled
def _distinct(tokens: Any, known: int) -> Any:
    """(U,) the distinct numbers in order of appearance, and (T,) the place of every token among them."""
    place_of = np.full(known, -1, np.int32)
    places = np.empty(len(tokens), np.int32)
    found = np.empty(min(len(tokens), known), np.int64)
    count = 0
    for t in range(len(tokens)):
        token = tokens[t]
        if place_of[token] < 0:
            place_of[token] = count
            found[count] = token
            count += 1
        places[t] = place_of[token]
    return found[:count], places


@compiled
def take_rows(table: Any, found: Any, factor: Any, vectors: Any) -> None:
    """vectors (U, D or more) ← factor · table (v, D)[found (U,)]; zeros follow the D numbers of each."""
    for i in range(len(found)):
        row, to = table[found[i]], vectors[i]
        for j in range(len(row)):
            to[j] = factor * row[j]
        for j in range(len(row), len(to)):
            to[j] = 0


@compiled
def add_to_rows(table: Any, rows: Any, change: Any, scale: Any) -> None:
    """table (v, D)[rows (U,)] += scale · change (U, D or more), a row as often as it is named; row 0 stays zero."""
    for i in range(len(rows)):
        row = table[rows[i]]
        for j in range(table.shape[1]):
            row[j] += scale * change[i, j]
    table[0] = 0


def distinct(tokens: Tensor, known: int) -> tuple[Tensor, Tensor]:
    """(U,) the distinct ones of the tokens (T,), all below `known`, in order of appearance; (T,) int32 the place of
    every token among them.
    """
    found, places = _distinct(tokens.numpy(), known)
    return torch.from_numpy(found), torch.from_numpy(places)


def add_rows(table: Tensor, rows: Tensor, change: Tensor, scale: float) -> None:
    """table (v, D)[rows (U,)] += scale · change (U, D), a row as often as it is named; row 0, padding, stays zero."""
    array = table.numpy()
    add_to_rows(array, rows.numpy(), change.numpy(), array.dtype.type(scale))
