"""What a task may touch: a platform's sentences, model and memory, or the server's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from torch import Tensor

from fedrel.config import Robust, Training
from fedrel.encoding.shard import Shard
from fedrel.errors import UserError
from fedrel.learning.model import Model
from fedrel.learning.named import Named
from fedrel.protocol.aggregation import mean, total
from fedrel.protocol.codec import Record
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.summed import Layout
from fedrel.util.seeds import derive, stream


def _no_keys() -> Tensor:
    raise RuntimeError("this site has no key to blind facts with")


def _no_noise() -> bytes:
    return b""


class Judge(Protocol):
    """People who say whether predictions are right."""

    def __call__(self, shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
        """For every sentence of the shard (S,): the label that was shown, which is the prediction unless they saw an
        earlier one; and what they said of it, 1 right, 0 wrong, -1 nothing.
        """


def nobody_judges(shard: Shard, predicted: Tensor, purpose: str) -> tuple[Tensor, Tensor]:
    raise RuntimeError("nobody judges predictions on this site")


class HeldOut(Protocol):
    """Sentences that a platform holds out to evaluate models with. Nothing but counts leaves the platform."""

    def ranking(self, model: Model, weights: Named) -> Named:
        """How many right and wrong facts got which score."""

    def confusion(self, model: Model, weights: Named) -> Named:
        """How many sentences of each label got each prediction."""

    def confidence(self, model: Model, weights: Named) -> Named:
        """How many of the most likely labels got which score, and were right."""


class Scratch(Record):
    """What a platform noted earlier in this round. It is not on disk: a platform that was started again has none, and
    reading from it is then a UserError.
    """

    def __missing__(self, field: str) -> NoReturn:
        if self:
            raise KeyError(field)
        raise UserError(
            f"nothing is noted in this round, {field} neither: the platform was started again in the middle of it, or "
            "was not asked for what comes first; it takes part in the next one"
        )


@dataclass
class Notes:
    """What a platform keeps: `memory` survives rounds, the rest ends with its round; none of it ever leaves."""

    memory: Record = field(default_factory=dict)
    scratch: Record = field(default_factory=dict)
    round: int = 0  # of the scratch
    selected: Tensor | None = None  # places of the sentences that a method says it selected in this round


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
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)  # dev and test, where the platforms hold them out
    notes: Notes = field(default_factory=Notes)
    robust: Robust = field(default_factory=Robust)  # of the hub: how it takes means
    sizes: Mapping[str, int] = field(default_factory=dict)  # that forms of replies speak of, by word
    layout: Callable[[Ask], Layout | None] = lambda ask: None  # of the hub: of replies whose sum alone it may know
    noise: Callable[[], bytes] = _no_noise  # the secret that noise is drawn from, where replies hold some
    clip: float | None = None  # how much a sentence's gradient may count for; None: sentences are not counted singly
    weighable: frozenset[str] | None = None  # of the hub: fields that means may be weighted by; None: any

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
        """The mean of the models in a field of the replies, as the experiment's [robust] section wants it taken.

        `by` names the field that holds a reply's weight (None: all count alike). A task must declare that field as
        `sentences` or `weight`, because engines refuse inflated values of these kinds alone; TypeError otherwise.
        """
        if by is not None and self.weighable is not None and by not in self.weighable:
            raise TypeError(f'mean(by="{by}"): declare the field as "sentences" or "weight" in @task')
        return mean(base, replies, field, by=by, how=self.robust)

    def total(self, replies: Replies, field: str) -> Named:
        """The sum of the tensors in a field of the replies, whose names, types and shapes are the same everywhere."""
        return total(replies, field)

    def select(self, sentences: Tensor) -> None:
        """Notes which sentences, by their places in the shard, the method selected; only a simulation ever reads it."""
        self.notes.selected = sentences

    def draw(self, purpose: str) -> int:
        """A seed that depends on (seed, round, platform, purpose) alone, so a resumed run repeats exactly. Whoever
        knows the site's seed can repeat what was drawn: in a federation it is the platform's secret.
        """
        return derive(self.seed, self.round, self.name, purpose)

    def stream(self, purpose: str) -> Callable[[bytes, int], bytes]:
        """So many random bytes for a content; they repeat as what is drawn does, for the same content alone."""
        return lambda content, count: stream(content, count, self.seed, self.round, self.name, purpose)
