"""From an experiment to the things it is made of: data, platforms, model, algorithm."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import torch
from torch import Tensor

from fedrel import config, datasets
from fedrel.algorithms import METHODS, Centralised, FedAvg
from fedrel.bags import Dataset, Ints, Split, fact_bags, fact_name, pair_bags
from fedrel.config import Experiment, Extractor, Training
from fedrel.denoisers import DENOISERS
from fedrel.encoding import vectors
from fedrel.encoding.packed import Shard, pack
from fedrel.encoding.vocabulary import Vocabulary, from_training
from fedrel.errors import UserError, suggest
from fedrel.extractors import EXTRACTORS
from fedrel.federation.protocol import Site
from fedrel.federation.sampling import Sampler
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named
from fedrel.parallel import cores
from fedrel.partition import iid, platform_names
from fedrel.privacy.blind import blind
from fedrel.seeds import derive, seeded

METRICS = ("auc", "auc_2000", "ap", "p@100", "p@200", "p@300", "p@mean", "max_f1")


@dataclass(frozen=True)
class Setup:
    """Everything a run needs; the test split is not opened here."""

    experiment: Experiment
    denoiser: str
    algorithm: FedAvg
    dataset: Dataset
    vocabulary: Vocabulary
    model: Model
    weights: Named  # to start from
    sites: Sites
    sampler: Sampler
    hub: Site

    def shard_of(self, split: Split) -> Shard:
        """A split as pair bags, for evaluation."""
        rows, starts = pair_bags(split)
        return self.sites.pack(split, rows, starts)

    @cached_property
    def dev(self) -> Shard:
        return self.shard_of(self.dataset.dev)


def read_experiment(path: Path | None, settings: Iterable[str] = ()) -> Experiment:
    """The experiment in a file with settings on top; a mistake in the file is told with its line."""
    table, text = config.read_table(path)
    choose_method(config.parse(table, str(path), text).method, str(path), text)
    return config.read(path, settings)


def choose_method(settings: Mapping[str, object], where: str = "", text: str = "") -> tuple[FedAvg, str]:
    """The [method] section, a name and that method's own settings: an algorithm, and the denoiser of its model."""
    options = dict(settings)
    name = str(options.pop("name"))
    if name not in METHODS:
        place = f"{where}{config.line_of(text, 'method.', 'name')}: " if where else ""
        raise UserError(f'{place}method.name = "{name}" is no method{suggest(name, METHODS)}')
    method = METHODS[name]
    algorithm = config.section(method.algorithm, options, where or f"method {name}", "method.", text)
    return algorithm, method.denoiser or vars(algorithm)["denoiser"]


def complete(experiment: Experiment) -> Experiment:
    """With the method's own settings filled in, so that a run's folder says all about it."""
    algorithm, _ = choose_method(experiment.method)
    return replace(experiment, method={"name": experiment.method["name"], **vars(algorithm)})


def prepare(experiment: Experiment, *, say: Callable[[str], None] = lambda line: None) -> Setup:
    experiment = complete(experiment)
    algorithm, denoiser = choose_method(experiment.method)
    if experiment.training.metric not in METRICS:
        wrong = experiment.training.metric
        raise UserError(f'training.metric = "{wrong}" is no metric{suggest(wrong, METRICS)}')
    if experiment.extractor.window % 2 == 0:
        raise UserError(f"extractor.window = {experiment.extractor.window}: must be odd, to have a middle")
    if experiment.training.lr * experiment.training.weight_decay >= 1:
        raise UserError("training.lr times training.weight_decay must be below 1, or every step wipes the weights out")
    device = choose_device(experiment.engine.device)
    torch.set_num_threads(experiment.engine.threads or cores())
    dataset = datasets.load(experiment.data, say=say)
    dataset.require_no_overlap(experiment.data.allow_overlap)
    for note in dataset.notes:
        say(note)
    platforms = 1 if isinstance(algorithm, Centralised) else experiment.partition.platforms
    rows = iid(len(dataset.train), platforms, experiment.seed)
    pretrained = None
    if experiment.extractor.vectors != "random":
        say(f"loading word vectors ({experiment.extractor.vectors}) …")
        pretrained = vectors.load(experiment.extractor.vectors)
    known = set(pretrained.words) if pretrained else ()
    vocabulary = from_training(dataset, experiment.extractor.min_count, known)
    table = vectors.initial_table(vocabulary, experiment.extractor.word_dim, pretrained, experiment.seed)
    model = build_model(experiment.extractor, denoiser, len(dataset.relations), table, experiment.seed)
    weights = model.weights()  # the server's stay where messages are: in main memory
    model.to(device)
    if experiment.extractor.embeddings == "trainable":
        weights[WORDS] = table
    names = platform_names(platforms)
    sites = Sites(
        dataset=dataset,
        rows=dict(zip(names, rows, strict=True)),
        word_numbers=vocabulary.lookup(dataset.words),
        model=model,
        experiment=experiment,
    )
    return Setup(
        experiment=experiment,
        denoiser=denoiser,
        algorithm=algorithm,
        dataset=dataset,
        vocabulary=vocabulary,
        model=model,
        weights=weights,
        sites=sites,
        sampler=Sampler(tuple(names), experiment.training.fraction, experiment.seed),
        hub=Site("server", sites.shard_of(dataset.train, rows[0][:0]), model, experiment.training, experiment.seed),
    )


def build_model(settings: Extractor, denoiser: str, relations: int, table: Tensor, seed: int) -> Model:
    """A fresh model; with frozen embeddings the table is part of it, otherwise part of the weights."""
    trainable = settings.embeddings == "trainable"
    with seeded(derive(seed, "model")):
        encoder = EXTRACTORS[settings.kind](
            word_dim=settings.word_dim,
            position_dim=settings.position_dim,
            filters=settings.filters,
            window=settings.window,
            reach=settings.reach,
            activation=settings.activation,
            trainable_words=trainable,
        )
        denoising = DENOISERS[denoiser](encoder.hidden, relations)
        return Model(encoder, denoising, relations, None if trainable else table)


def choose_device(wanted: str) -> torch.device:
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError('engine.device = "cuda", but torch finds no GPU; use "auto" or "cpu"')
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def workers_of(experiment: Experiment) -> int:
    """How many platforms work side by side: on a GPU one, which fills it."""
    if choose_device(experiment.engine.device).type != "cpu":
        return 1
    return experiment.engine.workers or cores()


class Sites(Mapping[str, Site]):
    """The platforms, each made when it is first asked for."""

    def __init__(
        self, *, dataset: Dataset, rows: dict[str, Ints], word_numbers: Ints, model: Model, experiment: Experiment
    ) -> None:
        self.dataset = dataset
        self.rows = rows
        self.word_numbers = word_numbers
        self.model = model
        self.experiment = experiment
        self.secret = secrets.token_bytes(32)  # the platforms' alone; who wins does not depend on it
        self._made: dict[str, Site] = {}

    def __getitem__(self, name: str) -> Site:
        if name not in self._made:
            self._made[name] = self.make(name, self.dataset.train, self.rows[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def make(self, name: str, split: Split, rows: Ints) -> Site:
        shard = self.shard_of(split, rows)

        @cache
        def keys() -> Tensor:
            firsts = shard.rows[shard.bag_starts[:-1]]
            return blind((fact_name(self.dataset, split, int(row)) for row in firsts), self.secret)

        training: Training = self.experiment.training
        return Site(name, shard, self.model, training, self.experiment.seed, fact_keys=keys)

    def shard_of(self, split: Split, rows: Ints) -> Shard:
        """These rows as fact bags, for training."""
        return self.pack(split, *fact_bags(split, rows))

    def pack(self, split: Split, rows: Ints, starts: Ints) -> Shard:
        settings = self.experiment.extractor
        return pack(split, rows, starts, self.word_numbers, reach=settings.reach, gap=settings.window // 2)

    @property
    def memories(self) -> dict[str, dict[str, Named | float]]:
        return {name: site.memory for name, site in self._made.items() if site.memory}
