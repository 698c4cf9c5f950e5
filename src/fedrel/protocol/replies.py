"""A reply holds what its task declares, and nothing else; whatever is wrong with it, a sentence names the field.

    @task(weights="model", sentences="sentences", loss="loss")
    @task(ballot={"key": "i64 n", "score": "f32 n logodds"})

- `model`: tensors named, shaped and typed like the weights that were sent; a word table among them as the rows that
  changed (see `learning/named.py`). `whole model`: the word table whole. `difference`: a whole model around zero.
- `sentences`: how many sentences the platform trained on, a whole number from 0. `weight`: any number from 0. Means are
  weighted by fields of these two kinds alone, and neither may exceed the sentences that the platform holds.
- `steps`: how many optimizer steps it took, a whole number from 0; no more than epochs × the sentences it holds.
- `loss`: the mean loss of training. `count`: a whole number from 0. `number`: any.
- `f32 n`: a tensor's type and sizes. A letter is any size, the same all over the reply; a word is a size that both
  sides know. `prob`: probabilities. `logodds`: log p/(1-p) of probabilities p, from -10,000 to 10,000. `logprob`:
  logarithms of probabilities that add up to 1 in every row. `counts`: whole numbers from 0. `sums`: over sentences, of
  numbers up to 10,000 each. `cyclic`: integers of which only the sum over platforms mod 2^32 means anything. `places`:
  whole numbers from 0 to below the size `bins`, each larger than the one before.

All of it must be there, or, where the task says `or_nothing`, none. Nothing is NaN or infinite. That keeps broken
platforms out, not clever ones: a reply of the right form may still teach nonsense.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from fedrel.learning.model import WORDS
from fedrel.learning.named import FACTOR, ROWS, VALUES, Named
from fedrel.protocol.codec import Record
from fedrel.protocol.form import Form, array
from fedrel.protocol.records import number_in
from fedrel.protocol.tasks import tasks

# How far a tensor may move, in multiples of (its norm + the root of its size). In trials of every method it was about 1
# at most, and 12 with a learning rate five times too large. A difference is of gradients, whose size the weights do not
# bound (a small transformer's came to 10): it may be a hundred times larger.
FAR, FAR_FROM_ZERO = 100.0, 100.0

_NUMBERS = {  # from, to; what does not fit is no number of sentences, and no loss, that anybody saw
    "sentences": (0.0, 1e9, "a whole number from 0 to 1e9"),
    "steps": (0.0, 1e9, "a whole number from 0 to 1e9"),
    "count": (0.0, 1e9, "a whole number from 0 to 1e9"),
    "weight": (0.0, 1e9, "a number from 0 to 1e9"),
    "loss": (-1e12, 1e12, "a number from -1e12 to 1e12"),
    "number": (-1e12, 1e12, "a number from -1e12 to 1e12"),
}
_WHOLE = ("sentences", "steps", "count")
WEIGHTS = ("sentences", "weight")  # kinds that a mean may be weighted by
_MODELS = ("model", "whole model", "difference")
_MOST_ENTRIES = 10_000_000  # of a size that is a letter
_MOST_HEADER = 64 * 2**10  # beside what names and shapes take
_PER_TENSOR = 256  # its type, shape and place, written out
_SHOWN = 80
LOG_ODDS = 1e4  # no model that has not diverged is so sure


class BadReplyError(ValueError):
    """A reply that is not what its task declares."""


def forms(algorithm: object) -> dict[str, Form]:
    """What each of its tasks replies."""
    return {name: _valid(name, getattr(method, "form", None)) for name, method in tasks(algorithm).items()}


def claims(form: Form | None, reply: Mapping[str, Named | float]) -> dict[str, float]:
    """What a reply says its platform trained on, by field: numbers that a mean may weigh it by, and that cannot be more
    than the sentences it holds.
    """
    fields = form.of_kind(*WEIGHTS) if form else []
    return {field: value for field in fields if not isinstance(value := reply.get(field, 0.0), Named)}


def weighable(algorithm: object) -> frozenset[str] | None:
    """The fields that means of this algorithm may be weighted by: those that every task which replies them declares
    as `sentences` or `weight`. None, which is any, where a task declares nothing: it works within one process only.
    """
    declared = [getattr(method, "form", None) for method in tasks(algorithm).values()]
    if None in declared:
        return None
    kinds = [(field, kind) for form in declared if form for field, kind in form.fields.items()]
    good = {field for field, kind in kinds if isinstance(kind, str) and kind in WEIGHTS}
    return frozenset(good - {field for field, kind in kinds if kind not in WEIGHTS})


def trained(form: Form | None, reply: Mapping[str, Named | float]) -> tuple[float, float] | None:
    """Mean loss and number of sentences of a training that a reply reports; None: it reports none."""
    losses, counts = (form.of_kind("loss"), form.of_kind(*WEIGHTS)) if form else ([], [])
    if not losses or not counts or losses[0] not in reply or counts[0] not in reply:
        return None
    return number_in(reply, losses[0]), number_in(reply, counts[0])


def most_bytes(form: Form, *, weights: Named, sizes: Mapping[str, int]) -> int:
    """No encoded reply of this form is larger: to be looked at before anything is made of the bytes."""
    total = _MOST_HEADER
    for group, declared in form.fields.items():
        tensors = _tensor_bytes(declared, weights, sizes)
        total += sum(_PER_TENSOR + len(json.dumps(f"{group}/{name}")) + size for name, size in tensors.items())
    return total


def check(reply: Record, form: Form, *, weights: Named, sizes: Mapping[str, int], limit: float = FAR) -> None:
    """Raises BadReplyError unless the reply has this form, given the weights that were sent and the sizes that are
    known.
    """
    if form.or_nothing and not reply:
        return
    if form.fields and not reply:
        raise BadReplyError(
            f"the reply is empty, {next(iter(form.fields))} is missing; if the task may have nothing to say, declare "
            "@task(…, or_nothing=True)"
        )
    _check_names("", reply, form.fields)
    known = dict(sizes)  # and the letters, once met
    for field, declared in form.fields.items():
        value = reply[field]
        if isinstance(declared, str) and declared in _NUMBERS:
            _check_number(field, value, declared)
        elif not isinstance(value, Named):
            raise BadReplyError(f"{field} is a number where tensors were expected")
        elif isinstance(declared, str):
            _check_model(field, value, declared, weights, limit)
        else:
            _check_names(f"{field}/", value, declared)
            for name, text in declared.items():
                _check_array(f"{field}/{name}", value[name], text, known)


def _valid(task: str, form: Form | None) -> Form:
    if form is None:
        raise TypeError(f"the task {task} does not say what it replies; write @task(field=…)")
    for field, declared in form.fields.items():
        if isinstance(declared, str):
            if declared not in _NUMBERS and declared not in _MODELS:
                raise TypeError(
                    f"{task}: {field} is declared as {declared!r}, which is none of {[*_NUMBERS, *_MODELS]}"
                )
        else:
            for text in declared.values():
                array(text)
    return form


def _tensor_bytes(declared: str | Mapping[str, str], weights: Named, sizes: Mapping[str, int]) -> dict[str, int]:
    """The most that every tensor of a field takes."""
    if not isinstance(declared, str):
        arrays = {name: array(text) for name, text in declared.items()}
        known = {name: [sizes.get(dim, _MOST_ENTRIES) for dim in dims] for name, (_, dims, _) in arrays.items()}
        return {name: math.prod(known[name]) * dtype.itemsize for name, (dtype, _, _) in arrays.items()}
    if declared in _NUMBERS:
        return {"": torch.float64.itemsize}
    found = {name: sent.nbytes for name, sent in weights.items()}
    if declared == "model" and WORDS in weights:
        found |= {WORDS + ROWS: len(weights[WORDS]) * torch.int32.itemsize, WORDS + FACTOR: torch.float64.itemsize}
    return found


def _check_names(prefix: str, found: Iterable[str], expected: Iterable[str]) -> None:
    found, expected = set(found), list(expected)
    for name in expected:
        if name not in found:
            raise BadReplyError(f"{prefix}{name} is missing")
    for name in sorted(found.difference(expected)):
        shown = prefix + name if len(name) < _SHOWN else f"{prefix}{name[:_SHOWN]}…"
        raise BadReplyError(f"{shown!r} is not part of this reply")


def _check_number(field: str, value: Named | float, kind: str) -> None:
    if isinstance(value, Named):
        raise BadReplyError(f"{field} holds tensors where a number was expected")
    low, high, meaning = _NUMBERS[kind]
    if not low <= value <= high or (kind in _WHOLE and value != int(value)):
        raise BadReplyError(f"{field} is {value:g} where {meaning} was expected")


def _check_model(field: str, found: Named, kind: str, weights: Named, limit: float) -> None:
    patched = kind == "model" and WORDS in weights
    whole = [name for name in weights if not (patched and name == WORDS)]
    _check_names(f"{field}/", found, [*whole, *(WORDS + part for part in (ROWS, VALUES, FACTOR) if patched)])
    for name in whole:
        _check_near(f"{field}/{name}", found[name], weights[name], limit, around_zero=kind == "difference")
    if patched:
        _check_patch(f"{field}/{WORDS}", found, weights[WORDS], limit)


def _check_patch(field: str, found: Named, table: Tensor, limit: float) -> None:
    rows, values, factor = (found[WORDS + part] for part in (ROWS, VALUES, FACTOR))
    _check_tensor(field + FACTOR, factor, torch.float64, (1,))
    if not 0 <= float(factor) <= 1 + 1e-6:  # weight decay shrinks, and never turns round
        raise BadReplyError(f"{field}{FACTOR} is {float(factor):g} where a number from 0 to 1 was expected")
    _check_tensor(field + ROWS, rows, torch.int32, (rows.shape[0] if rows.dim() else 1,))
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(table):
        raise BadReplyError(f"{field}{ROWS} names a row outside the table of {len(table)}")
    if len(torch.unique(rows)) < len(rows):
        raise BadReplyError(f"{field}{ROWS} names a row twice")
    _check_near(field + VALUES, values, table[rows.long().to(table.device)], limit)


def _check_near(field: str, found: Tensor, sent: Tensor, limit: float, *, around_zero: bool = False) -> None:
    _check_tensor(field, found, sent.dtype, tuple(sent.shape))
    here, most = found.to(sent.device), limit * (_norm(sent) + math.sqrt(sent.numel()))
    if around_zero:
        moved, most = _norm(here), most * FAR_FROM_ZERO
    else:
        moved = _norm(here - sent)
    if not moved <= most:
        origin = "zero" if around_zero else "what was sent"
        raise BadReplyError(f"{field} lies {moved:.3g} away from {origin}, where at most {most:.3g} was expected")


def _check_array(field: str, found: Tensor, text: str, known: dict[str, int]) -> None:
    """A letter that has no size yet takes that of this tensor."""
    dtype, dims, values = array(text)
    if found.dim() == len(dims):
        for dim, size in zip(dims, found.shape, strict=True):
            if len(dim) == 1:
                known.setdefault(dim, size)
    _check_tensor(field, found, dtype, tuple(known.get(dim, dim) if len(dim) == 1 else known[dim] for dim in dims))
    if values == "counts" and not bool(((found >= 0) & (found <= _NUMBERS["count"][1])).all()):
        raise BadReplyError(f"{field} holds numbers that are no counts")
    if values == "places" and not _are_places(found, known["bins"]):
        raise BadReplyError(f"{field} holds numbers that are no places in rising order")
    if values == "prob" and not bool(((found >= 0) & (found <= 1 + 1e-6)).all()):
        raise BadReplyError(f"{field} holds numbers that are no probabilities")
    if values == "logodds" and not bool((found.abs() <= LOG_ODDS).all()):
        raise BadReplyError(f"{field} holds numbers that are no log-odds of a probability")
    # Of probabilities p kept as 16-bit logarithms, the sum is off by at most entropy · 2⁻¹¹: 0.005 for 20,000 classes.
    if values == "logprob" and not bool(((found.double().exp().sum(-1) - 1).abs() < 0.01).all()):
        raise BadReplyError(f"{field} holds numbers that are no logarithms of probabilities")


def _are_places(found: Tensor, size: int) -> bool:
    return bool(((found >= 0) & (found < size)).all()) and bool((found.diff() > 0).all())


def _check_tensor(field: str, found: Tensor, dtype: torch.dtype, shape: tuple[int | str, ...]) -> None:
    if found.dtype != dtype:
        raise BadReplyError(f"{field} is of {_plain(found.dtype)} where {_plain(dtype)} was expected")
    if tuple(found.shape) != shape:
        expected = str(shape).replace("'", "")  # a letter stays a letter
        raise BadReplyError(f"{field} has shape {tuple(found.shape)} where {expected} was expected")
    if not _is_finite(found):
        raise BadReplyError(f"{field} holds NaN or infinity")


def _is_finite(tensor: Tensor) -> bool:
    """NaN is both the least and the greatest; twenty times as fast as to look at every number by itself."""
    return not tensor.numel() or all(math.isfinite(float(end)) for end in torch.aminmax(tensor))


def _norm(tensor: Tensor) -> float:
    """Of what is too large for its type, infinity."""
    return float(torch.linalg.vector_norm(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32)))


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
