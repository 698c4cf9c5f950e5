"""Replies of which only the sum is known: how a reply becomes integers that add up, and what their sum says.

A platform's reply becomes one vector of integers mod 2^32, its summand; added up over platforms, the vectors give what
means and totals need, and nothing about one of them. With n the sentences that the platform trained on, S a power of
two that no platform's sentences exceed, w its model and x the one that it was sent, a summand holds

- whether the platform had something to say, 0 or 1, and n, both exactly;
- n/S · loss and, for every weight, n/S · (w - x) in fixed point (`privacy/masks.py`). A weight that moved by more than
  8 counts as moved by 8. Where means are plain, the factor is 1. Of a word table every row is there, with zeros where
  nothing was trained;
- `counts` exactly, `sums` in fixed point, `cyclic` integers as they are.

The same integers are added in a simulation, which leaves masks out: masks cancel exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedrel.errors import DivergedError, UserError
from fedrel.learning.named import FACTOR, ROWS, VALUES, Named
from fedrel.privacy.entries import Field
from fedrel.privacy.fixed_point import MOST, FixedPoint, Words
from fedrel.protocol.codec import Record
from fedrel.protocol.form import Form, array
from fedrel.protocol.records import named_in, number_in

MASKED = "masked"  # the field of a reply that holds a summand
REACH = 8.0  # how far a weight moves in a round, at most
_LOSS = 64.0  # a mean loss, at most
_SQUARE = 1e4  # of `sums`: what one sentence adds, at most
MODELS = ("model", "whole model")
_WEIGHTS = ("sentences", "weight")
_SUMMABLE = ("counts", "sums", "cyclic")


@dataclass(frozen=True)
class Units:
    """What all platforms of a sum must know alike. `sentences`: S, a power of two that nobody's sentences exceed."""

    parties: int
    sentences: int

    @classmethod
    def of(cls, parties: int, held: Mapping[str, int]) -> Units:
        most = max(held.values(), default=1)
        found = cls(parties, 2 ** math.ceil(math.log2(max(most, 1))))
        if parties * (found.sentences + 0.5) > MOST:
            raise UserError(
                f"{parties:,} platforms with up to {most:,} sentences each are too many for sums of 32 bits; divide "
                "them among more platforms, of which fewer take part in a round (training.fraction)"
            )
        return found


def objection_to_form(form: Form | None) -> str:
    """Which field of a reply cannot be added up; empty: all can."""
    if form is None:
        return "what it does not declare"
    for name, declared in form.fields.items():
        arrays = [] if isinstance(declared, str) else [array(text)[2] for text in declared.values()]
        if declared not in (*MODELS, *_WEIGHTS, "loss") and (not arrays or not set(arrays) <= set(_SUMMABLE)):
            return name
    return "" if form.of_kind(*_WEIGHTS) or not form.of_kind(*MODELS, "loss") else "models without their sentences"


@dataclass(frozen=True)
class Part:
    """A stretch of a summand: one tensor, or one number."""

    field: str
    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    fixed: FixedPoint | None  # None: integers as they are

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def described(self) -> Field:
        """As a ledger names it; it takes no bytes of its own."""
        return Field(f"{self.field}/{self.name}" if self.name else self.field, "in a sum", self.shape, 0)


@dataclass(frozen=True)
class Layout:
    """Where what lies in a summand. `model`: the weights that trained ones are compared with. `sizes`: those that forms
    speak of, by word.
    """

    noisy: ClassVar[bool] = False  # whether it holds nothing but changes of weights, hidden in noise (`noised.py`)
    form: Form
    units: Units
    model: Named = field(default_factory=Named)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def least(self) -> int:
        """Platforms without which the sum is not opened, where that depends on how many are asked."""
        return 0

    @property
    def weight(self) -> str:
        """The field that holds n; empty: the reply has none."""
        return next(iter(self.form.of_kind(*_WEIGHTS)), "")

    @cached_property
    def parts(self) -> list[Part]:
        units = self.units
        one, most = FixedPoint(1.0, units.parties), float(units.sentences)
        found = [Part("", "", "spoke", (), torch.float64, FixedPoint(1.0, units.parties))]
        for name, declared in self.form.fields.items():
            if not isinstance(declared, str):
                for tensor, text in declared.items():
                    dtype, dims, kind = array(text)
                    bound = {"counts": most, "sums": most * _SQUARE}.get(kind)
                    fixed = FixedPoint(bound, units.parties) if bound else None
                    found.append(Part(name, tensor, kind, tuple(self.sizes[dim] for dim in dims), dtype, fixed))
            elif declared in MODELS:
                fixed = replace(one, bound=REACH)
                found += [Part(name, it, "model", tuple(w.shape), w.dtype, fixed) for it, w in self.model.items()]
            else:
                bound = _LOSS if declared == "loss" else most
                found.append(Part(name, "", declared, (), torch.float64, replace(one, bound=bound)))
        return found

    @cached_property
    def size(self) -> int:
        """Integers of a summand."""
        return sum(part.size for part in self.parts)

    @cached_property
    def cyclic(self) -> list[slice]:
        """Where the integers of a summand lie that add up mod 2^32 alone."""
        found, place = [], 0
        for part in self.parts:
            if part.fixed is None:
                found.append(slice(place, place + part.size))
            place += part.size
        return found

    def summand(self, reply: Mapping[str, Named | float], key: bytes = b"") -> Words:
        """(size,) from a reply; of an empty one, zeros. Raises UserError for what no sum could hold. `key`: of noise,
        where there is some.
        """
        words, place = np.zeros(self.size, np.uint32), 0
        n = (number_in(reply, self.weight) if self.weight else 0.0) if reply else 0.0
        for part in self.parts if reply else ():
            stretch = slice(place, place + part.size)
            words[stretch] = self._encoded(part, reply, n)
            place = stretch.stop
        return words

    def count(self, platforms: Mapping[str, object], total: Words) -> float:
        """What the sum of all changes is divided by: how many platforms spoke, or their n/S."""
        field = "" if self.form.plain else self.weight
        place = 0
        for part in self.parts:
            if part.field == field and part.fixed is not None:
                number = float(part.fixed.decode(total[place : place + 1])[0])
                return number if self.form.plain else number / self.units.sentences
            place += part.size
        raise KeyError(field)

    def _encoded(self, part: Part, reply: Mapping[str, Named | float], n: float) -> Words:
        share = 1.0 if self.form.plain else n / self.units.sentences
        if part.kind == "spoke":
            numbers = np.ones(1)
        elif part.kind == "model":
            change = moved(named_in(reply, part.field), part.name, self.model[part.name])
            numbers = np.clip(change, -REACH, REACH) * share
        elif part.kind == "loss":
            numbers = np.clip([number_in(reply, part.field)], -_LOSS, _LOSS) * (n / self.units.sentences)
        elif part.kind in _WEIGHTS:
            numbers = np.array([number_in(reply, part.field)])
        else:
            tensor = named_in(reply, part.field)[part.name].detach().cpu()
            if tuple(tensor.shape) != part.shape:
                raise UserError(f"{part.field}/{part.name} has shape {tuple(tensor.shape)}, declared is {part.shape}")
            if part.fixed is None:
                return tensor.reshape(-1).numpy().view(np.uint32)
            numbers = tensor.reshape(-1).double().numpy()
            numbers = numbers if part.kind == "counts" else np.clip(numbers, -part.fixed.bound, part.fixed.bound)
        assert part.fixed is not None
        if not np.isfinite(numbers).all():
            raise DivergedError(f"{part.field} holds what is no number")
        try:
            return part.fixed.encode(numbers)
        except ValueError as error:
            raise UserError(f"{part.field}: {error}") from None


def moved(model: Named, name: str, sent: Tensor) -> npt.NDArray[np.float64]:
    """(n,) by how much every weight differs from what was sent, exactly as far as doubles go."""
    before = sent.detach().cpu().double()
    if name in model:
        return (model[name].detach().cpu().double() - before).reshape(-1).numpy()
    rows, factor = model[name + ROWS].long().cpu(), float(model[name + FACTOR])
    change = before * (factor - 1)
    change[rows] = model[name + VALUES].detach().cpu().double() - before[rows]
    return change.reshape(-1).numpy()


class Summed(Mapping[str, Mapping[str, "Named | float"]]):
    """The replies of the platforms in one sum. Who they are is known, what each of them said is not."""

    def __init__(self, layout: Layout, total: Words | None = None, platforms: tuple[str, ...] = ()) -> None:
        self.layout = layout
        self._total = np.zeros(layout.size, np.uint32) if total is None else total
        self._platforms = dict.fromkeys(platforms)

    def add(self, name: str, reply: Record, payload: object = None) -> None:
        """One more platform's summand, as `masked` has written it."""
        self._total += words_of(reply, self.layout.size)
        self._platforms[name] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._platforms)

    def __len__(self) -> int:
        return len(self._platforms)

    def __getitem__(self, name: str) -> Mapping[str, Named | float]:
        raise UserError(
            f'this method looks at the reply of {name} by itself, and with privacy.sums = "secure" only sums over '
            'platforms are known; set privacy.sums = "off", or choose another method'
        )

    @property
    def by(self) -> str | None:
        """The field that means of models are weighted by, as the task declares it."""
        return None if self.layout.form.plain else self.layout.weight

    def mean(self, base: Named, field: str, by: str | None) -> Named:
        """The mean of the models in a field, those of platforms with nothing to say left out."""
        if by != self.by:
            raise TypeError(f"mean(by={by!r}): the task declares a mean by {self.by!r}; see @task(plain=True)")
        count = self.layout.count(self, self._total)
        if not count:
            return base
        change = self._tensors(field)
        return Named(
            {
                name: (value.double() + change[name].to(value.device) / count).to(value.dtype)
                for name, value in base.items()
            }
        )

    def total(self, field: str) -> Named:
        """The sum of the tensors in a field."""
        parts = {part.name: part for part in self.layout.parts if part.field == field}
        return Named({name: tensor.to(parts[name].dtype) for name, tensor in self._tensors(field).items()})

    def number(self, field: str) -> float:
        """The sum of the numbers in a field; of losses, each times n/S."""
        return float(self._tensors(field)[""])

    def trained(self) -> tuple[float, float] | None:
        """Mean loss and number of sentences of a training; None: it reports none."""
        if self.layout.noisy:
            return None
        losses, weight = self.layout.form.of_kind("loss"), self.layout.weight
        sentences = self.number(weight) if losses and weight else 0.0
        if not sentences:
            return None
        return self.number(losses[0]) * self.layout.units.sentences / sentences, sentences

    def _tensors(self, field: str) -> dict[str, Tensor]:
        found, place = {}, 0
        for part in self.layout.parts:
            words = self._total[place : place + part.size]
            place += part.size
            if part.field == field:
                numbers = words.view(np.int32).copy() if part.fixed is None else part.fixed.decode(words)
                found[part.name] = torch.from_numpy(numbers).reshape(part.shape)
        if not found:
            raise KeyError(field)
        return found


def masked(words: Words) -> Record:
    """A summand as a reply."""
    return {MASKED: Named(numbers=torch.from_numpy(words.view(np.int32)))}


def words_of(reply: Mapping[str, Named | float], size: int | None = None) -> Words:
    """The summand in a reply. Raises ValueError if there is none, or one of another size than this."""
    found = reply.get(MASKED)
    numbers = found.get("numbers") if isinstance(found, Named) else None
    if reply.keys() != {MASKED} or numbers is None or numbers.dtype != torch.int32 or numbers.dim() != 1:
        raise ValueError("the reply is no summand")
    if size is not None and len(numbers) != size:
        raise ValueError(f"the reply is a summand of {len(numbers):,} integers where {size:,} were expected")
    words: Words = numbers.numpy().view(np.uint32)
    return words
