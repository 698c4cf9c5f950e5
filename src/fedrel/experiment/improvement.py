"""Whether verdicts made a model better: what they are worth before, and what came of them after a training.

A training by verdicts (`method.name = "verdicts"`) goes on from the model that was judged. The new model is compared
with the old one on dev, and on verdicts that were held out, all of a pair together. The old one stays in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedrel import config
from fedrel.config import WORLD, Experiment
from fedrel.corpus.detection import detect
from fedrel.data.store import Dataset, Ints, sentence_bags
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Floats, sigmoid
from fedrel.evaluation.task import evaluation_of
from fedrel.experiment.saved import SavedModel, load_model
from fedrel.experiment.starting import Start, run_of, settings_from
from fedrel.feedback.doubts import LABEL, Person, judge_people
from fedrel.feedback.store import RIGHT, UNKNOWN
from fedrel.feedback.stored_verdicts import StoredVerdicts, read_verdicts, rows_by_key

HELD_OUT = 0.2  # of the judged pairs
BY_VERDICTS = "verdicts"  # the method
_RATE = 0.4  # times the learning rate of the run that made the model
_TRAINING = {"rounds": 8, "patience": 8, "epochs": 1, "lr_decay": 0.2, "fraction": 1.0}
_FEWEST = 10  # verdicts; of fewer nothing can be held out, and nothing learnt that dev could confirm


@dataclass(frozen=True)
class Better:
    """A score of the old model and of the new one."""

    old: float
    new: float
    error: float = 0.0  # standard error of the difference, where it is known

    @property
    def worse(self) -> bool:
        """Whether the new one is below the old one by more than chance explains."""
        return self.new < self.old - self.error

    @property
    def shares(self) -> tuple[str, str]:
        """Both in words, as percentages with as many digits as it takes to tell them apart, up to three."""
        found = [(f"{self.old:.{digits}%}", f"{self.new:.{digits}%}") for digits in range(4)]
        return next((it for it in found if it[0] != it[1]), found[0])


@dataclass(frozen=True)
class Improvement:
    """What became of verdicts: which model to use, and why."""

    old: str
    new: str | None  # None: nothing was trained
    accepted: bool  # whether the new one is to be used
    why: tuple[str, ...]
    people: Mapping[str, Person] = field(default_factory=dict)
    without: tuple[str, ...] = ()  # people whose verdicts did not count
    metric: str = ""
    dev: Better | None = None
    held_out: Better | None = None  # the mean probability of the verdicts that were held out

    @property
    def use(self) -> str:
        """The folder of the model to use."""
        return self.new if self.accepted and self.new is not None else self.old

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "use": self.use}


def settings_of(model: Path, verdicts: Path, data: Path | None, changes: Mapping[str, object]) -> dict[str, object]:
    """The table of the experiment that trains a model by verdicts on sentences of `data` (None: the data that it was
    trained on), with `changes` by dotted key on top. The model's own text is read again where it still lies; `data` is
    added to it.
    """
    table = settings_from(model)
    own, there = table.get("data", {}), missing_text(model) is None
    assert isinstance(own, dict)
    values: dict[str, object] = {}
    if data is None and not there:
        raise UserError(f"{model}: its training data are not where they were; say with --data where the judged text is")
    if data is not None and not there:
        table.pop("partition", None)
        table["data"] = {"source": detect(data).source, "path": str(data)}
    elif data is not None and not _same(data, own):
        values["data.more"] = [*(it for it in own.get("more", ()) if it != str(data)), str(data)]
    training = table.get("training", {})
    rate = training.get("lr") if isinstance(training, dict) else None
    if rate is not None and not _by_verdicts(table):  # else it is such a rate already
        values["training.lr"] = float(f"{_RATE * rate:.2g}")
    values |= {f"training.{key}": value for key, value in _TRAINING.items()}
    values |= {"method.name": BY_VERDICTS, "feedback.store": str(verdicts), "feedback.hold_out": HELD_OUT}
    return config.with_values(table, [*values.items(), *changes.items()])


def missing_text(model: Path) -> str | None:
    """Where the text that a model was trained on would be; None: it is there."""
    run = run_of(model)
    if run is None:
        return "the place of its run"
    own = config.read_table(run / "experiment.toml")[0].get("data", {})
    assert isinstance(own, dict)
    path = str(own.get("path", ""))
    return None if own.get("source", WORLD) == WORLD or Path(path).exists() else path


def _by_verdicts(table: Mapping[str, object]) -> bool:
    method = table.get("method")
    return isinstance(method, dict) and method.get("name") == BY_VERDICTS


def _same(data: Path, own: Mapping[str, object]) -> bool:
    listed = [own.get("path", ""), *own.get("more", ())]  # type: ignore[misc]
    return any(it and Path(str(it)).absolute() == data.absolute() for it in listed)


@dataclass(frozen=True)
class Judged:
    """A model, and the verdicts on sentences that an experiment trains on."""

    name: Path
    saved: SavedModel
    experiment: Experiment
    dataset: Dataset
    unlabelled: Container[str] = ()  # keys of sentences whose labels say nothing about the people

    @classmethod
    def of(
        cls, experiment: Experiment, say: Callable[[str], None], *, unlabelled: Container[str] = frozenset()
    ) -> Judged:
        """UserError where the data do not fit the model, or no verdict is about them."""
        name = Path(experiment.training.start)
        saved = load_model(name)
        experiment, dataset = Start(saved, str(name)).load(experiment, say)
        return cls(name, saved, experiment, dataset, unlabelled)

    @cached_property
    def people(self) -> Mapping[str, Person]:
        """By name, everybody who said "right" or "wrong" of a sentence of train."""
        dataset, rows = self.dataset, rows_by_key(self.dataset, self.dataset.train)
        relations = {name: number for number, name in enumerate(dataset.relations)}
        store = Path(self.experiment.feedback.store)
        StoredVerdicts.read(store, dataset, dataset.train)  # UserError where none is about these sentences
        given = [
            (rows[it.key][0], relations[it.relation], it)
            for it in read_verdicts(store)
            if it.key in rows and it.relation in relations and it.verdict != UNKNOWN and not it.decides
        ]
        if not given:
            return {}
        places, asked = (np.array([it[at] for it in given]) for at in (0, 1))
        scores = self.saved.calibration.log_odds(_scores(self.saved, dataset, places)[np.arange(len(asked)), asked])
        labels = np.asarray(dataset.train.labels)[places]
        told = np.array([it.key not in self.unlabelled for *_, it in given])
        chance = sigmoid(scores + np.where(labels == asked, LABEL, -LABEL) * told)
        users = [it.user for *_, it in given]
        return judge_people(users, chance, np.array([it.verdict == RIGHT for *_, it in given]))

    @cached_property
    def without(self) -> tuple[str, ...]:
        """Whose verdicts should not count."""
        return tuple(sorted(name for name, person in self.people.items() if person.doubt))

    def objection(self) -> tuple[str, ...]:
        """Why there is nothing to train by; empty: there is something."""
        doubts = tuple(f"{name} {self.people[name].doubt}" for name in self.without)
        counts = [person for name, person in self.people.items() if name not in self.without]
        total = sum(person.verdicts for person in counts)
        if self.people and not counts:
            return doubts
        if total < _FEWEST:
            return (*doubts, f"{total} verdicts that count are too few to learn from; {_FEWEST} are the least")
        if total == sum(person.right for person in counts):
            return (
                *doubts,
                "nobody has called a prediction wrong, so there is nothing that the model does not say yet",
            )
        return ()

    def refused(self) -> Improvement:
        """Where there is an objection."""
        return Improvement(str(self.name), None, False, self.objection(), self.people, self.without)

    def compare(self, folder: Path) -> Improvement:
        """The model of a finished run against the one that it began with."""
        new, settings, dataset = load_model(folder), self.experiment, self.dataset
        metric = settings.training.metric
        dev = Better(*(_dev_score(it, dataset, metric) for it in (self.saved, new)))
        store = StoredVerdicts.read(Path(settings.feedback.store), dataset, dataset.train, without=self.without)
        apart = store.divided(settings.feedback.hold_out, dataset, dataset.train)[1].decided
        held_out = _expected(self.saved, new, dataset, apart) if len(apart) > 1 else None
        why = []
        if dev.worse:
            why.append(f"on dev its {metric} is {dev.new:.3f}, and {dev.old:.3f} of the old one")
        if held_out and held_out.worse:
            before, after = held_out.shares
            why.append(
                f"it gives the {len(apart):,} verdicts that were held out {after} on average, the old one {before}"
            )
        gained = dev.new > dev.old or (held_out is not None and held_out.new > held_out.old)
        if not why and not gained:
            why.append("it scores the same on dev and on the verdicts that were held out")
        return Improvement(
            old=str(self.name),
            new=str(folder),
            accepted=not why,
            why=tuple(why),
            people=self.people,
            without=self.without,
            metric=metric,
            dev=dev,
            held_out=held_out,
        )


def _scores(saved: SavedModel, dataset: Dataset, rows: Ints) -> Floats:
    """(n, R) of sentences of train, each by itself."""
    shard = saved.encoding.pack(
        dataset.train, *sentence_bags(dataset.train, rows), saved.encoding.numbers(dataset.words)
    )
    saved.model.load(saved.trained(), shard)
    found: Floats = saved.model.score_bags(shard).numpy()
    return found


def _dev_score(saved: SavedModel, dataset: Dataset, metric: str) -> float:
    evaluation, dev = evaluation_of(metric, dataset), dataset.dev
    shard = saved.encoding.pack(dev, *evaluation.bags(dev), saved.encoding.numbers(dataset.words))
    saved.model.load(saved.trained(), shard)
    return evaluation.metrics(saved.model.score_bags(shard).numpy(), dev)[metric]


def _expected(old: SavedModel, new: SavedModel, dataset: Dataset, verdicts: Mapping[int, tuple[int, int]]) -> Better:
    """The mean probability that the models give to these verdicts."""
    rows = np.array(list(verdicts))
    asked, accepted = np.array(list(verdicts.values())).T
    found = []
    for saved in (old, new):
        chance = sigmoid(_scores(saved, dataset, rows)[np.arange(len(rows)), asked])
        found.append(np.where(accepted == 1, chance, 1 - chance))
    error = float((found[1] - found[0]).std(ddof=1) / np.sqrt(len(rows)))
    return Better(float(found[0].mean()), float(found[1].mean()), error)
