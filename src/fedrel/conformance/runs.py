"""Short runs on the built-in world, each beside the same run done in another way."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from fedrel import config
from fedrel.config import Experiment
from fedrel.data import loading
from fedrel.data.partition import COORDINATOR, divide, write_parts
from fedrel.engines.remote import Remote
from fedrel.experiment.assembly import Setup, prepare
from fedrel.experiment.execution import Execution
from fedrel.experiment.parties import Participant, coordinate, federated, participate
from fedrel.learning.named import Named
from fedrel.protocol.codec import Payload, Record, decode, encode
from fedrel.protocol.replies import BadReplyError, check, forms
from fedrel.protocol.round import Ask, Replies
from fedrel.protocol.tasks import answer

SMALL = (
    *("data.size=600", "partition.platforms=4", "partition.server=0.2", "seed=1"),
    *("training.rounds=3", "training.fraction=0.75", "training.epochs=1", "training.batch=16", "training.dropout=0.3"),
    *("extractor.filters=8", "extractor.bias=false", "extractor.vocabulary=public", "extractor.embeddings=trainable"),
    *("engine.device=cpu", "engine.workers=1", "engine.stacked=off"),
)
CLOSE = 1e-3  # how far stacked training may differ, relative and absolute


class Problem(Exception):
    """What a part does that breaks a rule, in one sentence."""


class Unchecked(Problem):
    """A rule about a run that fails: whether the part keeps to it cannot be said."""


@dataclass
class Runs:
    """Runs of one experiment, which `settings` change on top of SMALL, in a folder of its own."""

    settings: tuple[str, ...]
    folder: Path
    _failed: bool = False  # the usual run

    @classmethod
    @contextmanager
    def of(cls, settings: Iterable[str]) -> Iterator[Runs]:
        with tempfile.TemporaryDirectory(prefix="fedrel-check-") as folder:
            yield cls(tuple(settings), Path(folder))

    def experiment(self, *more: str) -> Experiment:
        return config.read(None, [*SMALL, *self.settings, *more])

    def setup(self, *more: str) -> Setup:
        return prepare(self.experiment(*more))

    @cached_property
    def usual(self) -> Execution:
        """Three rounds, one platform after the other, in this process. Where it fails, whoever asks first is told why;
        the next ones get Unchecked.
        """
        if self._failed:
            raise Unchecked("not checked, since a plain run fails")
        self._failed = True
        execution = self._run("usual")
        self._failed = False
        return execution

    def _run(self, name: str, *more: str) -> Execution:
        execution = Execution(self.setup(*more), self.folder / name)
        for _ in execution.rounds():
            pass
        return execution

    # -- the checks --------------------------------------------------------------------------------------------

    def learns(self) -> None:
        """A run ends with weights that are finite and not those it began with, and with scores on test."""
        before, after = self.usual.setup.weights, self._weights(self.usual)
        if before.keys() != after.keys():
            raise Problem("the weights after a run are named otherwise than before it")
        if not all(bool(value.isfinite().all()) for value in after.values()):
            raise Problem("weights are not finite after three rounds")
        if all(torch.equal(after[name], before[name]) for name in before):
            raise Problem("nothing was learnt in three rounds")
        if not self.usual.finish()["test"]:
            raise Problem("there are no scores on test")

    def repeats(self) -> None:
        """The same seed gives the same weights, bit for bit."""
        self._equal("again", "a second run with the same seed")

    def side_by_side(self) -> None:
        """Two platforms at a time give the same weights, bit for bit."""
        self._equal("threads", "two platforms at a time", "engine.workers=2")

    def resumes(self) -> None:
        """A run that was cut off and resumed gives the same weights, bit for bit."""
        whole, folder = self._weights(self.usual), self.folder / "cut"
        first = Execution(self.setup(), folder)
        for _ in first.rounds():
            break
        first.close()
        second = Execution(self.setup(), folder, resume=True)
        for _ in second.rounds():
            pass
        _require_equal(whole, self._weights(second), "resuming after the first round")

    def stacks(self) -> None:
        """Platforms stacked into one program, as on a GPU, give the same weights but for rounding."""
        alone, together = self._weights(self.usual), self._weights(self._run("stacked", "engine.stacked=on"))
        for name, value in alone.items():
            if not torch.allclose(together[name].cpu(), value, rtol=CLOSE, atol=CLOSE):
                worst = float((together[name].cpu() - value).abs().max())
                raise Problem(f"stacked training differs from one by one: {name} by {worst:.2g}")

    def declares(self) -> None:
        """Every reply has the form that its task declares, and nothing in it is NaN or infinite."""
        setup = self.setup()
        declared, wrong = forms(setup.algorithm), []

        class Checked(Execution):
            def _exchange(self, ask: Ask) -> Replies:
                replies = super()._exchange(ask)
                for platform, reply in replies.items():
                    try:
                        check(
                            dict(reply),
                            declared[ask.task],
                            weights=ask.model.to(torch.device("cpu")),
                            sizes=setup.reply_sizes,
                        )
                    except BadReplyError as error:
                        wrong.append(f"{ask.task} on {platform}: {error}")
                return replies

        for _ in Checked(setup, self.folder / "checked").rounds():
            pass
        if wrong:
            raise Problem(f"a reply is not what its task declares: {wrong[0]}")

    def survives_absence(self) -> None:
        """A round in which nobody answers ends with a state whose weights are finite."""
        setup = self.setup()
        state = setup.algorithm.start(setup.weights)
        for number in range(2):
            flow = setup.algorithm.round(replace(setup.hub, round=number), state, list(setup.sites))
            replies: Replies | None = None
            try:
                while True:
                    flow.send(replies)  # type: ignore[arg-type]
                    replies = {}
            except StopIteration as done:
                state = done.value
            if not all(bool(value.isfinite().all()) for value in setup.algorithm.model(state).values()):
                raise Problem("weights are not finite after a round in which nobody answered")

    def federates(self) -> None:
        """Platforms that read their own folder alone, and exchange encoded messages, give the same weights, bit for
        bit, as one process.
        """
        experiment, world = self._divided()
        together = Execution(prepare(experiment), self.folder / "together")
        apart = _Apart(experiment, world)
        execution = Execution(apart.setup, self.folder / "apart", engine=apart.engine)
        for it in (together, execution):
            for _ in it.rounds():
                pass
        _require_equal(self._weights(together), self._weights(execution), "separate parties")

    def _divided(self) -> tuple[Experiment, Path]:
        """The world as a folder for each platform, and the experiment on it."""
        experiment, folder = self.experiment(), self.folder / "world"
        dataset = loading.load(experiment.data)
        folder.mkdir()
        source = write_parts(dataset, divide(dataset, experiment.partition, experiment.seed), folder)
        relations = tuple(dataset.relations[int(dataset.has_na) :])
        data = replace(experiment.data, source=source, path=str(folder), dev=0.0, relations=relations)
        plain = replace(experiment, data=data, privacy=replace(experiment.privacy, sums="off"))
        return config.parse(federated(config.to_table(plain))), folder

    def _equal(self, name: str, what: str, *more: str) -> None:
        _require_equal(self._weights(self.usual), self._weights(self._run(name, *more)), what)

    @staticmethod
    def _weights(execution: Execution) -> Named:
        return execution.setup.algorithm.model(execution.state)


class _Apart:
    """A coordinator and platforms, each with its own data, that exchange encoded messages within this process."""

    def __init__(self, experiment: Experiment, world: Path) -> None:
        names = sorted(path.name for path in world.iterdir() if path.is_dir() and path.name != COORDINATOR)
        coordination = coordinate(experiment, world / COORDINATOR, names)
        self.setup = coordination.setup
        agreement: Record = decode(encode(coordination.agreement))
        self.parties: dict[str, Participant] = {
            name: participate(agreement, name=name, data=world / name, secret=b"0" * 32) for name in names
        }
        for name, party in self.parties.items():
            coordination.welcome(name, encode(party.summary))
        self.engine = Remote(
            self.setup.algorithm,
            self._carry,
            sizes=self.setup.reply_sizes,
            announced=self.setup.sites.sizes,
            on_failure=_fail,
        )

    def _carry(self, task: str, round_: int, messages: Mapping[str, Payload], most: int) -> dict[str, Payload]:
        return {
            name: encode(
                answer(self.parties[name].algorithm, self.parties[name].site, Ask(task, {}, round_), decode(payload))
            )
            for name, payload in messages.items()
        }


def _fail(ask: Ask, platform: str, why: str) -> None:
    raise Problem(f"{ask.task} on {platform}: {why}")


def _require_equal(one: Named, other: Named, what: str) -> None:
    if one.keys() != other.keys():
        raise Problem(f"{what}: other names of weights")
    for name, value in one.items():
        if not torch.equal(value.cpu(), other[name].cpu()):
            worst = float((value.cpu() - other[name].cpu()).abs().max())
            raise Problem(f"{what}: {name} differs by up to {worst:.2g}")
