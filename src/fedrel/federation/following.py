"""A platform checks what it is asked to train from: in a run with secure sums, everything follows from what was opened.

The platform does the server's part of every round again, with the method's own code, from the first weights and the
sums that were opened: so it knows what it is asked next, whichever method it is. A request that says anything else is
refused. That a sum is what the platforms sent, tags in it prove (`privacy/tags.py`), whose key the coordinator lacks.

What it has followed is kept on disk. A platform that was away is told the sums that it missed; one that begins late
takes the coordinator's word for the first weights, and must arrive at the same weights as those it shares a sum with.

A method that trains on sentences of the server's own, which no platform has, cannot be followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from fedrel.experiment.parties import Participant
from fedrel.experiment.sums import adds_up, layout_of
from fedrel.learning.named import Named
from fedrel.privacy import tags
from fedrel.privacy.masks import derived_key
from fedrel.privacy.secure_sum import NotOpenedError
from fedrel.protocol.algorithm import Algorithm
from fedrel.protocol.checkpoint import load_record, save_record
from fedrel.protocol.codec import Record
from fedrel.protocol.form import Form
from fedrel.protocol.records import number_in
from fedrel.protocol.round import Ask, Round
from fedrel.protocol.sampling import Sampler
from fedrel.protocol.site import Site
from fedrel.protocol.sum_messages import Opened
from fedrel.protocol.summed import Layout, Summed, Units
from fedrel.protocol.tasks import form_of
from fedrel.util.files import private_folder

NOT_BEGUN = -1
_EXACT, _HALF = 1e-5, 4e-3  # how far numbers may be off: by another processor's rounding, or by that of 16 bits
_STATE = "state|"
_ROUND = "round"


class UnfoundedError(NotOpenedError):
    """What a platform is asked does not follow from what was added up."""


@dataclass
class Following:
    """`hub`: the server's site, as a platform can build it. `layout`: how replies of a form add up in a round. `sizes`:
    that forms speak of. `close`: how far numbers may
    be off, absolutely and as a share, which is more where they travel in 16 bits. `key`: of tags. `folder`: of the
    run's memory.
    """

    name: str
    algorithm: Algorithm
    hub: Site
    sampler: Sampler
    layout: Callable[[Form, Units, int], Layout]
    sizes: Mapping[str, int]
    close: float
    key: bytes
    folder: Path
    first: Named | None = None  # the first weights, where a platform can know them
    round: int = NOT_BEGUN
    state: Record = field(default_factory=dict)
    _attempt: int = -1
    _flow: Round | None = None  # of the round at work
    _next: Ask | None = None  # what is asked next in it
    _done: int = 0  # sums of it that were followed

    @classmethod
    def of(cls, participant: Participant, secret: bytes, folder: Path) -> Self:
        """Of a platform's side of a run; `secret` is the platforms' alone."""
        experiment = participant.experiment
        return cls(
            name=participant.site.name,
            algorithm=participant.algorithm,
            hub=participant.hub,
            sampler=Sampler(participant.hub.everyone, experiment.training.fraction, experiment.seed),
            layout=partial(layout_of, budget=participant.budget),
            sizes=participant.site.sizes,
            close=_HALF if experiment.engine.transport == "half" else _EXACT,
            key=secret,
            folder=folder,
            first=participant.first,
        )

    def __post_init__(self) -> None:
        if self._file.exists():
            kept = load_record(self._file)
            self.round = int(number_in(kept, _ROUND))
            self.state = {key.removeprefix(_STATE): it for key, it in kept.items() if key.startswith(_STATE)}

    def follow(self, sums: Iterable[Opened], first: Named | None) -> int:
        """The round that the platform is ready for, after these sums; it passes over those that it knows. Raises
        UnfoundedError for one that nobody sent like this.
        """
        if self.algorithm.server_trains:
            return max((it.round + 1 for it in sums), default=NOT_BEGUN)
        if self.round == NOT_BEGUN and first is not None:
            self._begin(first)
        place: Counter[tuple[int, int]] = Counter()
        for it in sums:
            known = it.attempt == self._attempt and place[it.round, it.attempt] < self._done
            place[it.round, it.attempt] += 1
            if it.round == self.round and not known:
                self._add(it)
        return self.round

    def require(self, task: str, round_: int, attempt: int, message: Record) -> None:
        """Raises UnfoundedError unless a request for something that is added up says what follows."""
        if self.algorithm.server_trains:
            return
        if self.round == NOT_BEGUN and round_ == 0:
            sent = message.get("weights")
            if isinstance(sent, Named):
                self._begin(sent)
        if self.round != round_:
            ready = "has not begun" if self.round == NOT_BEGUN else f"is ready for round {self.round + 1}"
            raise UnfoundedError(f"round {round_ + 1} is asked for, and by what was added up this platform {ready}")
        if self.name not in self.sampler.cohort(round_):
            raise UnfoundedError(f"it is not among those who were drawn for round {round_ + 1}")
        if self._flow is None or attempt != self._attempt:
            self._restart(attempt)
        if self._next is None or self._next.task != task:
            raise UnfoundedError(f"{task} is asked for, which is not what comes next in round {round_ + 1}")
        expected = next(iter(self._next.to.values()), {})
        if (what := _difference(expected, message, self.close)) is not None:
            raise UnfoundedError(f"{what} in round {round_ + 1} does not follow from what platforms have sent")

    def _begin(self, weights: Named) -> None:
        if self.first is not None and (what := _difference(self.first, weights, self.close)) is not None:
            raise UnfoundedError(f"weights/{what} in round 1 does not follow from what was agreed on")
        self.round, self.state = 0, self.algorithm.start(weights)

    def _restart(self, attempt: int) -> None:
        self._attempt, self._done = attempt, 0
        self._flow = self.algorithm.round(replace(self.hub, round=self.round), self.state, [self.name])
        self._go_on(None)

    def _go_on(self, replies: object) -> None:
        """To the next request for something that is added up, or the end of the round."""
        assert self._flow is not None
        try:
            self._next = self._flow.send(replies)  # type: ignore[arg-type]
            while not adds_up(self.algorithm, self._next.task):
                self._next = self._flow.send({name: {} for name in self._next.to})
        except StopIteration as done:
            self.round, self.state, self._flow, self._next = self.round + 1, done.value, None, None
            self._done = 0
            private_folder(self.folder)
            kept = {f"{_STATE}{name}": value for name, value in self.state.items()}
            save_record(self._file, {**kept, _ROUND: float(self.round)})

    def _add(self, it: Opened) -> None:
        if self._flow is None or it.attempt != self._attempt:
            self._restart(it.attempt)
        asked = self._next
        form = form_of(self.algorithm, it.task)
        if len(set(it.platforms)) < len(it.platforms) or not set(it.platforms) <= set(self.hub.everyone):
            raise UnfoundedError(f"a sum of {it.task} was opened over platforms that do not take part")
        if asked is None or asked.task != it.task or form is None:
            raise UnfoundedError(f"a sum of {it.task} was opened, which is not what comes next")
        message = next(iter(asked.to.values()), {})
        sizes = {**self.sizes, **self.algorithm.sizes_in(message)}
        layout = replace(self.layout(form, it.units, it.round), model=self.algorithm.model(self.state), sizes=sizes)
        numbers, found = it.numbers[: layout.size].copy(), it.numbers[layout.size :]
        key = self.tag_key(it.attempt, it.round, it.task, it.units)
        if len(numbers) < layout.size or not tags.fit(numbers, found, layout.cyclic, key, len(it.platforms)):
            raise UnfoundedError(f"what is said to be the sum of {it.task} in round {it.round + 1} is another one")
        self._done += 1
        self._go_on(Summed(layout, numbers, it.platforms))

    def tag_key(self, attempt: int, round_: int, task: str, units: Units) -> bytes:
        """Of the tags of one sum, and of what its numbers mean."""
        numbers = (number.to_bytes(8, "big") for number in (attempt, round_, units.parties, units.sentences))
        return derived_key(self.key, b"fedrel sum: tags", *numbers, task.encode())

    @property
    def _file(self) -> Path:
        return self.folder / "followed.safetensors"


def _difference(expected: Record | Named, found: Record | Named, close: float) -> str | None:
    """What of it is not as expected, but for rounding; None: nothing."""
    if expected.keys() != found.keys():
        return "what is asked"
    for name, value in expected.items():
        other = found[name]
        if isinstance(value, Named) and isinstance(other, Named):
            inner = _difference(value, other, close)
            if inner is not None:
                return f"{name}/{inner}"
        elif isinstance(value, Tensor) and isinstance(other, Tensor):
            if value.shape != other.shape or value.dtype != other.dtype or not _alike(value, other, close):
                return str(name)
        elif isinstance(value, Named) or isinstance(other, Named) or not _alike(value, other, close):
            return str(name)
    return None


def _alike(one: Tensor | float, other: Tensor | float, close: float) -> bool:
    one, other = torch.as_tensor(one).cpu(), torch.as_tensor(other).cpu()
    if not one.is_floating_point():
        return torch.equal(one, other)
    return torch.allclose(one, other, rtol=close, atol=close)
