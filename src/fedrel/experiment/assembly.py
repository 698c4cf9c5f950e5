"""From an experiment to the things it is made of: data, platforms, model, algorithm."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedrel import config
from fedrel.algorithms import METHODS, Centralised, FedAvg, Feedback
from fedrel.config import Experiment, Extractor
from fedrel.data import loading
from fedrel.data.partition import Division, divide, one_after_another
from fedrel.data.store import Dataset, Ints, Split, fact_bags, fact_names, sentence_bags
from fedrel.denoisers import DENOISERS
from fedrel.encoding import Encoding, vectors
from fedrel.encoding.shard import Shard
from fedrel.encoding.vocabulary import Vocabulary, agreed, from_training, unknown_share
from fedrel.encoding.words import WordEncoding
from fedrel.engines.concurrency import useful_threads
from fedrel.errors import UserError, suggest
from fedrel.evaluation.at_home import SIZES, HeldOutAtHome
from fedrel.evaluation.task import METRICS, Evaluation, evaluation_of, require_metric
from fedrel.extractors import EXTRACTORS, Encoder
from fedrel.extractors.convolution import Convolution
from fedrel.feedback.judges import judges_of
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named
from fedrel.privacy.blind import blind, of_round, of_run
from fedrel.protocol.round import Notes, Site, nobody_judges
from fedrel.protocol.sampling import Sampler
from fedrel.util.lru import Recent
from fedrel.util.parallel import cores
from fedrel.util.profiling import timed
from fedrel.util.seeds import derive, seeded

_AT_ONCE = 256  # platforms that train as one program, as far as memory reaches

__all__ = ["METRICS", "Setup", "Sites", "build_model", "choose_method", "complete", "prepare", "read_experiment"]

_PACKED = 2**28  # bytes of packed text that may stay in memory; the store itself is mapped, not read


@dataclass(frozen=True)
class Setup:
    """Everything a run needs; the test split is not opened here."""

    experiment: Experiment
    denoiser: str
    algorithm: FedAvg
    dataset: Dataset
    encoding: Encoding
    evaluation: Evaluation
    model: Model
    weights: Named  # to start from
    sites: Sites
    sampler: Sampler
    hub: Site
    at_home: tuple[str, ...] = ()  # of dev and test, what the platforms hold out and nobody else has

    @classmethod
    def of(cls, sites: Sites, algorithm: FedAvg, denoiser: str, weights: Named, at_home: Iterable[str]) -> Setup:
        experiment, dataset, hub = sites.experiment, sites.dataset, sites.hub
        if isinstance(algorithm, Feedback):
            hub = replace(hub, validation=sites.pack(dataset.dev, *sentence_bags(dataset.dev)))
        return cls(
            experiment=experiment,
            denoiser=denoiser,
            algorithm=algorithm,
            dataset=dataset,
            encoding=sites.encoding,
            evaluation=sites.evaluation,
            model=sites.model,
            weights=weights,
            sites=sites,
            sampler=Sampler(tuple(sites), experiment.training.fraction, experiment.seed),
            hub=hub,
            at_home=tuple(at_home),
        )

    @property
    def reply_sizes(self) -> dict[str, int]:
        """That the forms of replies speak of."""
        return {"relations": len(self.dataset.relations), "common": len(self.hub.shard), **SIZES}

    def shard_of(self, split: Split) -> Shard:
        """A split as it is judged."""
        rows, starts = self.evaluation.bags(split)
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
    """With the method's own settings filled in, so that a run's folder says all about it; refused, with what to change,
    if the settings do not go together.
    """
    algorithm, _ = choose_method(experiment.method)
    if objection := algorithm.objection(experiment) or _objection(experiment):
        raise UserError(objection)
    require_metric(experiment.training.metric)
    return replace(experiment, method={"name": experiment.method["name"], **vars(algorithm)})


def _objection(experiment: Experiment) -> str | None:
    extractor, training = experiment.extractor, experiment.training
    transformer = extractor.kind == "bert"
    if extractor.window % 2 == 0:
        return f"extractor.window = {extractor.window}: must be odd, to have a middle"
    if training.lr * training.weight_decay >= 1:
        return "training.lr times training.weight_decay must be below 1, or every step wipes the weights out"
    if extractor.blind and not transformer:
        return 'extractor.blind replaces mentions for a transformer; set extractor.kind = "bert", or leave it out'
    if (extractor.lora or extractor.encoder == "frozen") and not transformer:
        return 'extractor.lora and extractor.encoder are of a transformer; set extractor.kind = "bert"'
    if extractor.lora and extractor.encoder == "frozen":
        return 'extractor.lora trains a frozen encoder a little; leave extractor.encoder = "trainable"'
    if transformer and extractor.embeddings == "frozen":
        return 'extractor.embeddings is of word vectors; freeze a transformer with extractor.encoder = "frozen"'
    if extractor.embeddings == "frozen" and extractor.vectors == "random" and extractor.vocabulary != "training":
        return (
            f'extractor.vocabulary = "{extractor.vocabulary}": random vectors that stay as they are tell the model '
            'nothing about words; set extractor.vectors = "glove" or a file, or extractor.embeddings = "trainable"'
        )
    return None


@timed("data")
def prepare(experiment: Experiment, *, say: Callable[[str], None] = lambda line: None) -> Setup:
    experiment = complete(experiment)
    algorithm, denoiser = choose_method(experiment.method)
    set_arithmetic(experiment)
    dataset = loading.load(experiment.data, say=say)
    dataset.require_no_overlap(experiment.data.allow_overlap)
    require_pairs(experiment, dataset)
    for note in dataset.notes:
        say(note)
    if isinstance(algorithm, Centralised):
        division = Division({"p0": np.arange(len(dataset.train))}, np.zeros(0, np.int64))
    else:
        division = divide(dataset, experiment.partition, experiment.seed)
    encoding, model, weights = _model(experiment, denoiser, dataset, division.server, say)
    model.to(choose_device(experiment.engine.device))
    apart = experiment.partition.kind == "folder" and not isinstance(algorithm, Centralised)
    held_out = _held_out(dataset) if apart else {}
    if objection := objection_to_home(algorithm, held_out):
        raise UserError(objection)
    sites = Sites(
        dataset=dataset,
        division=division,
        encoding=encoding,
        model=model,
        experiment=experiment,
        evaluation=evaluation_of(experiment.training.metric, dataset),
        held_out=held_out,
    )
    return Setup.of(sites, algorithm, denoiser, weights, held_out)


def set_arithmetic(experiment: Experiment) -> None:
    """The last digits of a result depend on it. On a GPU products round their factors to 10 bits (TF32) unless asked
    not to.
    """
    torch.set_num_threads(experiment.engine.threads or cores())
    on_gpu = choose_device(experiment.engine.device).type == "cuda"
    rounded = experiment.engine.precision == "tf32" or (experiment.engine.precision == "auto" and on_gpu)
    torch.set_float32_matmul_precision("high" if rounded else "highest")


def require_pairs(experiment: Experiment, dataset: Dataset) -> None:
    """Refuses plain texts where the settings are of sentences with a pair of entities."""
    if dataset.has_pairs:
        return
    if experiment.extractor.kind in ("pcnn", "cnn"):
        raise UserError(
            f'extractor.kind = "{experiment.extractor.kind}" looks for a pair of entities, and these are plain texts; '
            'set extractor.kind = "text", "bag" or "bert"'
        )
    if experiment.extractor.blind:
        raise UserError("extractor.blind replaces mentions of entities, and these are plain texts; leave it out")


def _held_out(dataset: Dataset) -> dict[str, dict[str, Ints]]:
    """Which rows of dev and test each platform holds out."""
    return {split: one_after_another(sizes) for split, sizes in dataset.held_out.items()}


def objection_to_home(algorithm: FedAvg, at_home: Container[str]) -> str | None:
    """Why a method needs public sentences to judge by; none: it does not."""
    if isinstance(algorithm, Feedback) and "dev" in at_home:
        return "feedback estimates how its seed model errs on the coordinator's own dev file; add one"
    return None


def _model(
    experiment: Experiment, denoiser: str, dataset: Dataset, own: Ints, say: Callable[[str], None]
) -> tuple[Encoding, Model, Named]:
    """`own` are the rows of train that the server holds."""
    settings = experiment.extractor

    def words(with_vectors: Sequence[str] | None) -> Vocabulary:
        vocabulary = agreed(settings, dataset, own, with_vectors)
        if vocabulary is None:
            return from_training(dataset, settings.min_count, set(with_vectors or ()))
        unknown, running = unknown_share(dataset, dataset.train, vocabulary)
        say(
            f"{unknown:,} of the {running:,} running words of train are not among the {len(vocabulary) - 2:,} agreed on"
        )
        return vocabulary

    return make_model(experiment, denoiser, len(dataset.relations), pairs=dataset.has_pairs, words=words, say=say)


def make_model(
    experiment: Experiment,
    denoiser: str,
    relations: int,
    *,
    pairs: bool,
    words: Callable[[Sequence[str] | None], Vocabulary],
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Encoding, Model, Named]:
    """How sentences are read, the model on the CPU, and the weights to start from, which stay where messages are: in
    main memory. `words` gives the vocabulary, told which words have a pretrained vector (None: there are no vectors); a
    transformer has its own.
    """
    settings, seed = experiment.extractor, experiment.seed
    if settings.kind == "bert":
        from fedrel.encoding.pieces import PieceEncoding
        from fedrel.extractors.bert import BERT, pretrained

        say(f"loading pretrained weights ({settings.weights}) …")
        pieces = PieceEncoding.of(settings, pairs=pairs)
        with seeded(derive(seed, "model")):
            body, table = pretrained(settings, pieces)
            encoder = BERT(body, settings, pairs=pairs, precision=experiment.engine.precision)
            model = assemble(encoder, settings, denoiser, relations, None if encoder.words.trainable else table)
        return pieces, model, _start(model, table)
    pretrained_vectors = None
    if settings.vectors != "random":
        say(f"loading word vectors ({settings.vectors}) …")
        pretrained_vectors = vectors.load(settings.vectors)
    vocabulary = words(pretrained_vectors.words if pretrained_vectors else None)
    table = vectors.initial_table(vocabulary, settings.word_dim, pretrained_vectors, seed)
    model = build_model(settings, denoiser, relations, table, seed)
    return WordEncoding.of(settings, vocabulary), model, _start(model, table)


def _start(model: Model, table: Tensor) -> Named:
    weights = model.weights()
    return Named({**weights, WORDS: table}) if model.encoder.words.trainable else weights


def build_model(settings: Extractor, denoiser: str, relations: int, table: Tensor, seed: int) -> Model:
    """A fresh model on word vectors; frozen ones are part of it, others part of the weights."""
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
        return assemble(encoder, settings, denoiser, relations, None if trainable else table)


def assemble(
    encoder: Encoder, settings: Extractor, denoiser: str, relations: int, frozen_words: Tensor | None = None
) -> Model:
    denoising = DENOISERS[denoiser](encoder.hidden, relations)
    return Model(encoder, denoising, relations, frozen_words, bias=settings.bias)


def choose_device(wanted: str) -> torch.device:
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError('engine.device = "cuda", but torch finds no GPU; use "auto" or "cpu"')
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def workers_of(experiment: Experiment) -> int:
    """How many platforms work side by side: on a GPU one, which fills it."""
    if choose_device(experiment.engine.device).type != "cpu":
        return 1
    return experiment.engine.workers or useful_threads()


def cohort_of(setup: Setup) -> int:
    """How many platforms train as one program at most; 0: each by itself. A transformer fills a GPU alone."""
    wanted = setup.experiment.engine.cohort
    able = isinstance(setup.model.encoder, Convolution)
    on = wanted == "on" or (wanted == "auto" and setup.model.device.type == "cuda")
    return _AT_ONCE if able and on else 0


class Sites(Mapping[str, Site]):
    """The platforms, each made when it is asked for, and the server's own sentences. The text of those who were asked
    lately stays packed; what a platform noted down stays in any case.
    """

    here = True  # their text is on this machine

    def __init__(
        self,
        *,
        dataset: Dataset,
        division: Division,
        encoding: Encoding,
        model: Model,
        experiment: Experiment,
        evaluation: Evaluation,
        held_out: Mapping[str, Mapping[str, Ints]] = {},
        everyone: Sequence[str] = (),
        secret: bytes = b"",
    ) -> None:
        """`everyone`: all platforms, where some are elsewhere. `held_out`: rows of dev and test, by platform. `secret`:
        what facts are blinded with, anew in every round unless the method remembers, so that nobody can follow one
        from round to round; of a simulation, where nobody looks, the same in all.
        """
        self.dataset = dataset
        self.rows = division.platforms
        self.sizes = {name: len(rows) for name, rows in self.rows.items()}
        self.encoding = encoding
        self.model = model
        self.experiment = experiment
        self.evaluation = evaluation
        self.held_out = held_out
        self.fresh = bool(secret)
        self.secret = secret or of_run(b"simulation", str(experiment.seed))  # a resumed run needs the same
        self._numbers = encoding.numbers(dataset.words)  # of the store's words
        self._notes: dict[str, Notes] = {}
        # A round of all platforms must find all of their text still packed; it takes twice its words, not more
        self._made = Recent[Site](max(_PACKED, 3 * dataset.train.tokens.nbytes))
        self._judges = {}
        if experiment.method["name"] == "feedback":
            self._judges = judges_of(experiment.feedback, dataset, tuple(everyone or self.rows), experiment.seed)
        self._server = self.shard_of(dataset.train, division.server)
        self._common = self._server.unlabelled()  # its labels stay there
        self.hub = Site(  # which has no key to blind facts with
            "server",
            self._server,
            model,
            experiment.training,
            experiment.seed,
            everyone=tuple(everyone or self.rows),
            first_relation=int(dataset.has_na),
            robust=experiment.robust,
        )

    def __getitem__(self, name: str) -> Site:
        return self._made.get(name, lambda: self._make(name), lambda site: site.shard.nbytes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @timed("data")
    def _make(self, name: str) -> Site:
        train, notes = self.dataset.train, self._notes.setdefault(name, Notes())
        shard = self.shard_of(train, self.rows[name])

        @lru_cache(maxsize=1)
        @timed("data")
        def blinded(secret: bytes) -> Tensor:
            firsts = shard.rows[shard.bag_starts[:-1].numpy()]
            return blind(fact_names(self.dataset, train, firsts), secret)

        return Site(
            name,
            shard,
            self.model,
            self.experiment.training,
            self.experiment.seed,
            first_relation=int(self.dataset.has_na),
            fact_keys=lambda: blinded(of_round(self.secret, notes.round) if self.fresh else self.secret),
            lasting_keys=lambda: blinded(self.secret),
            common=self._common,
            judge=self._judges.get(name, nobody_judges),
            exams={split: self._exam(split, rows[name]) for split, rows in self.held_out.items()},
            notes=notes,
        )

    def rows_in_order(self, name: str) -> Ints:
        """The rows of a platform's sentences, as they lie in its shard."""
        return fact_bags(self.dataset.train, self.rows[name])[0]

    def _exam(self, split: str, rows: Ints) -> HeldOutAtHome:
        held: Split = getattr(self.dataset, split)
        return HeldOutAtHome(self.evaluation, held, rows, self.pack, na=self.dataset.has_na)

    def shard_of(self, split: Split, rows: Ints) -> Shard:
        """These rows as fact bags, for training."""
        return self.pack(split, *fact_bags(split, rows))

    def pack(self, split: Split, rows: Ints, starts: Ints) -> Shard:
        return self.encoding.pack(split, rows, starts, self._numbers)
