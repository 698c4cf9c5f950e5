"""Made-up replies and small sites for tests that compare methods with `tests.algorithms.reference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from fedrel.config import Robust, Training
from fedrel.encoding.shard import Shard
from fedrel.learning.named import Named
from fedrel.protocol import Algorithm, Ask, Record, Replies, Site, named_in, number_in
from fedrel.protocol.round import drive
from tests.algorithms.reference import Texts, Weights, whole
from tests.helpers import random_split, shard_of, small_model

EVERYONE = ("p0", "p1", "p2", "p3", "p4")
COHORTS = (["p0", "p2", "p3"], ["p1", "p2", "p4"])
SILENT = "p4"  # is asked, and never answers
SPLIT = random_split(40, seed=3)
WORDS, RELATIONS = 32, 4  # of small_model
# A step sees all sentences, so that their order does not matter
TRAINING = Training(epochs=3, batch=10**6, lr=0.8, lr_decay=0.25, weight_decay=0.02, dropout=0.0)

Answer = Callable[[str, str, Record, torch.Generator], Record | None]


def close(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """The same tensors by name, to five digits of the largest number of each."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        most = 1e-5 * float(value.abs().max()) if value.numel() else 0.0
        said = partial("{}: {}".format, name)
        torch.testing.assert_close(found[name].double(), value.double(), rtol=0, atol=most, msg=said)


def start_weights() -> Named:
    draw = torch.Generator().manual_seed(5)
    shapes = {"words": (7, 3), "encoder.convolution.weight": (2, 4), "classifier.weight": (4, 5)}
    return Named({name: torch.randn(shape, generator=draw) for name, shape in shapes.items()})


def moved(base: Named, draw: torch.Generator) -> Named:
    """A whole model some way from `base`."""
    return Named({name: it + 0.5 * torch.randn(it.shape, generator=draw, dtype=it.dtype) for name, it in base.items()})


def trained(base: Named, draw: torch.Generator) -> Named:
    """A model as a platform sends it: of the word table three rows, and a factor for all others."""
    model = moved(base, draw)
    rows = torch.randperm(len(base["words"]), generator=draw)[:3].int()
    factor = 0.8 + 0.2 * torch.rand(1, generator=draw, dtype=torch.float64)
    table = {"words#rows": rows, "words#values": model["words"][rows.long()], "words#factor": factor}
    return Named({name: value for name, value in model.items() if name != "words"} | table)


def sentences(platform: str) -> float:
    """That a platform says it trained on: of everybody another number."""
    return 3.0 + 7.0 * int(platform[1:]) ** 2


def a_hub(robust: Robust | None = None) -> Site:
    """A server of five platforms without sentences of its own."""
    model, _ = small_model(kind="bag")
    nothing = shard_of(SPLIT, [])
    return Site("server", nothing, model, TRAINING, 1, everyone=EVERYONE, robust=robust or Robust())


def a_site(rows: Sequence[int], *, name: str = "p0", bias: bool = True) -> tuple[Site, Named]:
    """A platform with these rows of SPLIT and a model in float64 that reads a sentence as the mean of its words; and
    weights to begin with.
    """
    model, weights = small_model(kind="bag", dtype=torch.float64, bias=bias)
    return Site(name, shard_of(SPLIT, rows), model, TRAINING, 1), weights


def texts_of(shard: Shard) -> Texts:
    """The sentences of a shard of SPLIT, in its order, as the reference reads them; `shard_of` numbers words from 2."""
    read = [(SPLIT.tokens[SPLIT.offsets[row] : SPLIT.offsets[row + 1]] + 2).tolist() for row in shard.rows]
    return Texts.of(read, [int(SPLIT.labels[row]) for row in shard.rows], WORDS)


class Rounds:
    """Drives a method's rounds from number 0 on. `answer(task, platform, message, draw)` makes up what a platform says;
    None: nothing comes back. Every request of the last round and its replies are in `asked` and `replies`.
    """

    def __init__(
        self, algorithm: Algorithm, answer: Answer, *, hub: Site | None = None, weights: Named | None = None
    ) -> None:
        self.algorithm, self.answer = algorithm, answer
        self.hub = hub or a_hub()
        self.state: Record = algorithm.start(weights or start_weights())
        self.number = -1  # of the last round
        self.asked: list[Ask] = []
        self.replies: list[Replies] = []

    def play(self, cohort: list[str]) -> None:
        self.number += 1
        self.asked, self.replies = [], []
        flow = self.algorithm.round(replace(self.hub, round=self.number), self.state, list(cohort))
        self.state = drive(flow, self._exchange, self.number)

    def _exchange(self, ask: Ask) -> Replies:
        self.asked.append(ask)
        found = {}
        for platform, message in ask.to.items():
            draw = torch.Generator().manual_seed(100 * self.number + int(platform[1:]))
            reply = None if platform == SILENT else self.answer(ask.task, platform, message, draw)
            if reply is not None:
                found[platform] = reply
        self.replies.append(found)
        return found

    def models(self, base: Weights, field: str = "weights") -> list[Weights]:
        """Dense, of all whose reply to the last request holds one."""
        return [whole(base, named_in(reply, field)) for reply in self.replies[-1].values() if field in reply]

    def counts(self) -> list[float]:
        """The sentences that their models stand for."""
        return [number_in(reply, "sentences") for reply in self.replies[-1].values() if "sentences" in reply]

    def sent(self, cohort: list[str] | tuple[str, ...], **expected: Mapping[str, Tensor]) -> None:
        """Fails unless the last request went to this cohort and said this to each."""
        assert list(self.asked[-1].to) == list(cohort)
        for message in self.asked[-1].to.values():
            assert message.keys() == expected.keys()
            for field, value in expected.items():
                close(named_in(message, field), value)


def answers_training(task: str, platform: str, message: Record, draw: torch.Generator) -> Record:
    assert task == "train"
    return {"weights": trained(named_in(message, "weights"), draw), "sentences": sentences(platform), "loss": 0.5}


def answers_whole(task: str, platform: str, message: Record, draw: torch.Generator) -> Record:
    """With SCAFFOLD's change of a control variate, where one was sent."""
    assert task == "train"
    found: Record = {
        "weights": moved(named_in(message, "weights"), draw),
        "sentences": sentences(platform),
        "loss": 0.5,
    }
    return found | ({"change": moved(named_in(message, "control"), draw)} if "control" in message else {})
