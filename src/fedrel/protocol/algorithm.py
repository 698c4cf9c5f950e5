"""What a method is: the interface between an algorithm and whoever runs it.

Everything that engines, runs and reports read from a method is declared here or in `@task`; nothing is guessed from
names of fields or tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedrel.config import Experiment
from fedrel.learning.background import Background
from fedrel.learning.named import Named
from fedrel.protocol.codec import Record
from fedrel.protocol.records import named_in, number_in
from fedrel.protocol.round import Round
from fedrel.protocol.site import HeldOut, Site
from fedrel.protocol.tasks import task

_COUNTED = {"bin": "i32 n places", "right": "i32 n counts", "wrong": "i32 n counts"}


@dataclass(frozen=True)
class Scored:
    """A platform's training sentences under some model. S sentences in B bags, one bag for each fact."""

    z: Tensor  # (S,) log-odds of p(label | sentence)
    labels: Tensor  # (S,)
    background: Background  # what relations score on their own sentences and on those labelled with none
    bag: Tensor  # (S,) the bag of every sentence
    key: Tensor  # (B,) equal for equal facts, on every platform


class Algorithm(ABC):
    """A method: what the server does in a round, and the tasks that platforms run."""

    needs_validation: ClassVar[bool] = False  # hub.validation: the coordinator's dev sentences, with gold labels
    needs_common: ClassVar[bool] = False  # site.common: every platform reads the server's sentences, without labels
    needs_judges: ClassVar[bool] = False  # site.judge: people on the platform, or simulated users
    pools_text: ClassVar[bool] = False  # one platform holds all text, which is what a federation must not do
    server_trains: ClassVar[bool] = False  # on sentences of its own: what it asks next, nobody else can work out
    reads_replies: ClassVar[bool] = False  # it looks at replies one by one, not only at means and sums of them
    # what noise may hide of it (dp.unit), said by each class in its own body: "platform" if one clipped change of the
    # weights a round is all that leaves; "sentence" if the local loss is a sum over sentences, each by itself
    noisy_units: ClassVar[tuple[str, ...]] = ()
    selects: ClassVar[bool] = False  # it selects sentences across platforms; `selection` says which
    # how it scores sentences that it selects: names shown (0), hidden (1), both (between); None: as they are evaluated
    view: ClassVar[float | None] = None

    # -- a run ------------------------------------------------------------------------------------------------

    @abstractmethod
    def start(self, weights: Named) -> Record:
        """The server's state before the first round."""

    @abstractmethod
    def round(self, hub: Site, state: Record, cohort: list[str]) -> Round:
        """One round: yields requests, receives replies, returns the new state. `hub` is the server's own site."""

    def model(self, state: Record) -> Named:
        """The weights in a state: they are evaluated and saved, and replies are compared with them."""
        return named_in(state, "weights")

    def sent(self, site: Site, message: Record) -> Named:
        """On a platform, the weights that its trained ones are compared with: those of this message, or, where a
        request of this round has brought them already, of the scratch.
        """
        return named_in(message if "weights" in message else site.scratch, "weights")

    # -- what it asks for -------------------------------------------------------------------------------------

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes that forms of its replies speak of, by word, beside those that all methods have."""
        return {}

    def sizes_in(self, message: Mapping[str, Named | float]) -> Mapping[str, int]:
        """Sizes that a request itself says, of the forms of its replies."""
        return {}

    @property
    def preparation(self) -> int:
        """Rounds at the start that only prepare the method: none of them is kept as its result."""
        return 0

    def unsettled(self, rounds: int) -> int:
        """Rounds, in a run of so many, during which the method itself still changes: early stopping waits for them."""
        return 0

    def objection(self, experiment: Experiment) -> str | None:
        """Why the method cannot work with these settings, and what to change; None: it can."""
        return None

    # -- what it shows ----------------------------------------------------------------------------------------

    def server_loss(self, state: Record) -> float | None:
        """The mean loss of the server's own training in the last round; None: the server did not train."""
        return None

    def trace(self, state: Record) -> Named | None:
        """Tensors of the last round to be logged in metrics.jsonl; None: nothing."""
        return None

    def selection(self, state: Record, platforms: Mapping[str, Scored]) -> Mapping[str, Tensor]:
        """For reports, where the method `selects`: the sentences, by place, that each platform would select after
        these rounds if the model gave these log-odds.
        """
        raise NotImplementedError(f"{type(self).__name__} says that it selects sentences, and not which")

    # -- evaluation where platforms hold dev or test out --------------------------------------------------------

    @task(ranking=_COUNTED)
    def rank(self, site: Site, message: Record) -> Record:
        """How many right and wrong facts of the held-out split got which score."""
        return {"ranking": _held_out(site, message).ranking(site.model, named_in(message, "weights"))}

    @task(confusion={"counts": "i64 relations relations counts"})
    def classify(self, site: Site, message: Record) -> Record:
        """How many held-out sentences of each label got each prediction."""
        return {"confusion": _held_out(site, message).confusion(site.model, named_in(message, "weights"))}

    @task(confidence=_COUNTED)
    def calibrate(self, site: Site, message: Record) -> Record:
        """How many of the most likely labels on the held-out split got which score, and were right."""
        return {"confidence": _held_out(site, message).confidence(site.model, named_in(message, "weights"))}


def _held_out(site: Site, message: Record) -> HeldOut:
    split = "test" if number_in(message, "test") else "dev"
    site.model.hidden_view = number_in(message, "view")
    if split not in site.held_out:
        raise RuntimeError(f"{site.name} holds out no {split}")
    return site.held_out[split]
