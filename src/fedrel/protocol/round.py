"""A round is a generator: it yields requests, receives replies and returns the new server state.

No sockets, no threads, no files: every engine drives the same generator, so an algorithm never knows
whether its platforms are in this process or in another country.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar, overload

from torch import Tensor

from fedrel.config import Robust, Training
from fedrel.encoding.shard import Shard
from fedrel.learning.model import Model
from fedrel.learning.named import Named, weighted_mean
from fedrel.learning.robust import clipped_mean, coordinate_median, krum, trimmed_mean
from fedrel.protocol.codec import Record
from fedrel.util.profiling import phase
from fedrel.util.seeds import derive


@dataclass(frozen=True)
class Ask:
    """A request: run `task` on these platforms, each with its own message."""

    task: str
    to: Mapping[str, Record]
    round: int = 0


# Absent = dropped out; ordered like the request, so sums repeat bit for bit. Many at once may lie on disk: a reply's
# tensors are then read whenever they are asked for, its numbers are at hand.
Replies = Mapping[str, Mapping[str, Named | float]]
Round = Generator[Ask, Replies, Record]
Exchange = Callable[[Ask], Replies]


def broadcast(task: str, cohort: Iterable[str], **message: Named | float) -> Ask:
    """The same message to everyone (engines encode it once)."""
    return Ask(task, dict.fromkeys(cohort, message))


def _no_keys() -> Tensor:
    raise RuntimeError("this site has no key to blind facts with")


class Judge(Protocol):
    """People who say whether predictions are right."""

    def __call__(self, shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
        """For every sentence of the shard (S,): the label that was shown, which is the prediction unless they saw an
        earlier one; and what they said of it, 1 right, 0 wrong, -1 nothing.
        """


def nobody_judges(shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
    raise RuntimeError("nobody judges predictions on this site")


class Exam(Protocol):
    """Sentences that a platform holds out to judge models by. What it tells of them is counts."""

    def ranking(self, model: Model, weights: Named) -> Named: ...

    def confusion(self, model: Model, weights: Named) -> Named: ...

    def confidence(self, model: Model, weights: Named) -> Named: ...


@dataclass
class Notes:
    """What a platform keeps: `memory` survives rounds, `scratch` ends with its round; neither ever leaves it."""

    memory: Record = field(default_factory=dict)
    scratch: Record = field(default_factory=dict)
    round: int = 0  # of the scratch


@dataclass
class Site:
    """A platform, or the server's own data: what a task may touch. Its notes outlive it: a platform's text may be
    packed anew whenever the platform is asked.
    """

    name: str
    shard: Shard
    model: Model
    training: Training
    seed: int
    round: int = 0
    everyone: tuple[str, ...] = ()  # of the hub: all platforms, those that do not take part included
    first_relation: int = 1  # label 0 is NA, which states nothing; 0 where there is no NA
    fact_keys: Callable[[], Tensor] = _no_keys  # (bags,) the blinded key of every bag's fact, another in every round
    lasting_keys: Callable[[], Tensor] = _no_keys  # the same throughout a run: who remembers can follow a fact
    common: Shard | None = None  # the server's own sentences, where the method lets every platform read them
    validation: Shard | None = None  # of the hub: gold sentences that nobody trains on
    judge: Judge = nobody_judges
    exams: Mapping[str, Exam] = field(default_factory=dict)  # dev and test, where the platforms hold them out
    notes: Notes = field(default_factory=Notes)
    robust: Robust = field(default_factory=Robust)  # of the hub: how it takes means

    @property
    def memory(self) -> Record:
        return self.notes.memory

    @memory.setter
    def memory(self, memory: Record) -> None:
        self.notes.memory = memory

    @property
    def scratch(self) -> Record:
        return self.notes.scratch

    @scratch.setter
    def scratch(self, scratch: Record) -> None:
        self.notes.scratch = scratch

    @property
    def platforms(self) -> int:
        return len(self.everyone)

    @property
    def lr(self) -> float:
        """The learning rate of this round."""
        return self.training.lr_at(self.round)

    def label_counts(self) -> Tensor:
        """(R,) how many of its sentences have each label, where the model is."""
        return self.shard.label_counts(self.model.classifier.out_features).to(self.model.device)

    def mean(self, base: Named, replies: Replies, field: str, *, by: str | None) -> Named:
        """Of the models in a field of the replies, as the experiment wants it taken; see `mean`."""
        return mean(base, replies, field, by=by, how=self.robust)

    def draw(self, purpose: str) -> int:
        """A seed that depends on (seed, round, platform, purpose) alone, so a resumed run repeats exactly."""
        return derive(self.seed, self.round, self.name, purpose)


class Algorithm(Protocol):
    def start(self, weights: Named) -> Record: ...

    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round: ...


@dataclass(frozen=True)
class Form:
    """What a task's reply holds, by field; `protocol/replies.py` says how it is written, and holds replies to it."""

    fields: Mapping[str, str | Mapping[str, str]]
    or_nothing: bool = False


Task = TypeVar("Task", bound=Callable[..., Record])


@overload
def task(method: Task, /) -> Task: ...


@overload
def task(*, or_nothing: bool = False, **reply: str | dict[str, str]) -> Callable[[Task], Task]: ...


def task(
    method: Callable[..., Record] | None = None, /, *, or_nothing: bool = False, **reply: str | dict[str, str]
) -> Callable[..., Any]:
    """Marks the methods that a platform runs when asked, and says what they reply; nothing else can be asked for. One
    that does not say it works within this process alone: nobody could tell its replies from rubbish.
    """

    def mark(method: Task, form: Form | None) -> Task:
        method.is_task, method.form = True, form  # type: ignore[attr-defined]
        return method

    return partial(mark, form=Form(reply, or_nothing)) if method is None else mark(method, None)


def tasks(algorithm: object) -> dict[str, Callable[[Site, Record], Record]]:
    found = ((name, getattr(algorithm, name)) for name in dir(type(algorithm)))
    return {name: method for name, method in found if getattr(method, "is_task", False)}


def answer(algorithm: object, site: Site, ask: Ask, message: Record, model: Model | None = None) -> Record:
    """Runs one task on one platform, with this model instead of its own where several share one.
    Its memory changes only if the task succeeds.
    """
    notes = site.notes
    if notes.round != ask.round:
        notes.round, notes.scratch = ask.round, {}
    draft = Notes(dict(notes.memory), dict(notes.scratch), ask.round)
    trial = replace(site, round=ask.round, model=model or site.model, notes=draft)
    reply = tasks(algorithm)[ask.task](trial, message)
    notes.memory, notes.scratch = trial.memory, trial.scratch
    return reply


def drive(round_: Round, exchange: Exchange, number: int) -> Record:
    """Carries a round's requests through an engine until the round returns its state."""
    replies: Any = None
    while True:
        try:
            with phase("aggregate"):
                ask = round_.send(replies)
        except StopIteration as done:
            state: Record = done.value
            return state
        replies = exchange(replace(ask, round=number))


def mean(base: Named, replies: Replies, field: str, *, by: str | None, how: Robust | None = None) -> Named:
    """Mean of a reply's models, weighted by another of its fields (None: all alike); a platform with nothing to say is
    left out. `how`: a mean that a few wrong models cannot ruin, where those that count heads do not look at `by`.
    """
    how = how or Robust()
    spoken = [reply for reply in replies.values() if field in reply]
    models, weights = _Field(spoken, field), [number_in(reply, by) if by else 1.0 for reply in spoken]
    if not spoken or how.aggregation == "mean":
        return weighted_mean(base, models, weights)
    if how.aggregation == "clipped":
        return clipped_mean(base, models, weights, how.clip)
    if how.aggregation == "median":
        return coordinate_median(base, models)
    return (trimmed_mean if how.aggregation == "trimmed" else krum)(base, models, how.liars)


@dataclass(frozen=True)
class _Field:
    """One field of every reply, read when its turn comes."""

    replies: list[Mapping[str, Named | float]]
    name: str

    def __iter__(self) -> Iterator[Named]:
        return (named_in(reply, self.name) for reply in self.replies)


def named_in(record: Mapping[str, Named | float], field: str) -> Named:
    value = record[field]
    if not isinstance(value, Named):
        raise TypeError(f"{field} is a number where tensors were expected")
    return value


def number_in(record: Mapping[str, Named | float], field: str) -> float:
    value = record[field]
    if isinstance(value, Named):
        raise TypeError(f"{field} holds tensors where a number was expected")
    return value
