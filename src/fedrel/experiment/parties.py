"""What a coordinator and a platform build when each has its own data alone.

They agree on what they must share before training: the experiment, the relations, the vocabulary, word vectors that
stay as they are and, for methods that need them, the coordinator's own sentences without their labels. The coordinator
writes that down as one record; every platform makes the same model from it.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from fedrel import config
from fedrel.config import Experiment
from fedrel.corpus import Instance, Mention
from fedrel.data import loading
from fedrel.data.partition import Division
from fedrel.data.store import Dataset, Ints, iterate
from fedrel.encoding import Encoding
from fedrel.encoding.shard import Shard
from fedrel.encoding.vocabulary import Vocabulary, agreed, unknown_share
from fedrel.encoding.words import WordEncoding
from fedrel.errors import UserError
from fedrel.evaluation.task import evaluation_of
from fedrel.experiment.assembly import (
    Setup,
    choose_device,
    complete,
    judged_notes,
    objection_to_home,
    require_pairs,
    set_arithmetic,
)
from fedrel.experiment.budget import OFF, Budget, objection_at_home
from fedrel.experiment.fitted import fitted
from fedrel.experiment.methods import method_of
from fedrel.experiment.models import make_model
from fedrel.experiment.sites import Sites
from fedrel.experiment.starting import IN_FEDERATION
from fedrel.experiment.sums import SECURE
from fedrel.experiment.sums_by_default import with_sums
from fedrel.learning.model import Model
from fedrel.learning.named import Named
from fedrel.privacy.accounting import PLATFORM
from fedrel.protocol.algorithm import Algorithm
from fedrel.protocol.codec import CodecError, Payload, Record, decode
from fedrel.protocol.form import Form
from fedrel.protocol.records import named_in, number_in
from fedrel.protocol.replies import BadReplyError, check
from fedrel.protocol.site import Site

_JUDGED = ("dev", "test")
_JOINING = Form({"sentences": "count", "words": "count", "unknown_words": "count"})


def federated(table: Mapping[str, object]) -> dict[str, object]:
    """An experiment's table with the defaults of a federation: nothing agreed on from private text, and word vectors
    that do not travel. What the table says stands.
    """
    filled = dict(table)
    if _section(table, "training").get("start") or _section(table, "data").get("more"):
        raise UserError(IN_FEDERATION)
    extractor = dict(_section(table, "extractor"))
    if extractor.get("kind") != "bert":
        extractor = {"embeddings": "frozen", "vocabulary": "public", **extractor}
    if extractor.get("vocabulary") == "training":  # made of everybody's text, which does not meet in a federation
        extractor["vocabulary"] = "public"
    if _section(table, "data").get("source", "world") == "world":
        raise UserError(
            'data.source = "world" is made on the spot; write it to folders first with: fedrel data partition --out DIR'
        )
    return filled | {"extractor": extractor, "partition": {**_section(table, "partition"), "kind": "folder"}}


def _section(table: Mapping[str, object], name: str) -> dict[str, object]:
    found = table.get(name, {})
    return dict(found) if isinstance(found, dict) else {}


class Elsewhere(Sites):
    """Platforms whose data this process does not have; only the coordinator's own sentences are here."""

    here = False

    def __init__(
        self,
        names: Sequence[str],
        dataset: Dataset,
        encoding: Encoding,
        model: Model,
        algorithm: Algorithm,
        experiment: Experiment,
    ) -> None:
        super().__init__(
            dataset=dataset,
            division=Division({}, np.arange(len(dataset.train))),
            encoding=encoding,
            model=model,
            algorithm=algorithm,
            experiment=experiment,
            evaluation=evaluation_of(experiment.training.metric, dataset),
            everyone=names,
        )
        self.names = tuple(names)
        self.sizes = dict.fromkeys(names, 0)  # until they say

    def __getitem__(self, name: str) -> Site:
        raise KeyError(f"{name} is elsewhere")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Coordination:
    """The coordinator's side of a run."""

    setup: Setup
    agreement: Record
    joined: dict[str, Record] = field(default_factory=dict)

    def welcome(self, name: str, payload: Payload) -> None:
        """A platform has said how much it holds."""
        try:
            said = decode(payload)
            check(said, _JOINING, weights=Named(), sizes={})
        except (CodecError, BadReplyError) as error:
            raise UserError(f"{name} joined in a way that nobody understands: {error}") from None
        self.joined[name] = said
        self.setup.sites.sizes[name] = int(number_in(said, "sentences"))


def coordinate(
    experiment: Experiment, data: Path, names: Sequence[str], *, say: Callable[[str], None] = lambda line: None
) -> Coordination:
    """From the coordinator's own, public data, and the names of the platforms."""
    experiment = with_sums(fitted(complete(experiment)), names, say=say)
    if experiment.privacy.sums == SECURE:  # a round that platforms know of cannot be repeated after the next one
        experiment = replace(experiment, engine=replace(experiment.engine, save_every=1))
    algorithm, denoiser = method_of(experiment)
    if algorithm.pools_text:
        raise UserError("centralised training needs all text in one place; use `fedrel run`")
    set_arithmetic(experiment)
    dataset = loading.load_public(experiment.data, data, relations=experiment.data.relations, say=say)
    at_home = tuple(split for split in _JUDGED if not len(getattr(dataset, split)))
    if objection := objection_to_home(algorithm, at_home) or objection_at_home(experiment, at_home):
        raise UserError(objection)
    for split in at_home:
        say(f"{data}: no {split} file; {split} is what the platforms hold out")
    require_pairs(experiment, dataset)
    for note in judged_notes(experiment, dataset):
        say(note)
    own = np.arange(len(dataset.train))

    def words(with_vectors: Sequence[str] | None) -> Vocabulary:
        found = agreed(experiment.extractor, dataset, own, with_vectors)
        if found is None:
            raise UserError('extractor.vocabulary = "training" is made of everybody\'s text; set it to "public"')
        return found

    encoding, model, weights = make_model(
        experiment, denoiser, len(dataset.relations), pairs=dataset.has_pairs, words=words, say=say
    )
    agreement = _agree(experiment, names, encoding, model)
    if at_home:
        agreement |= {"held_out": _text("\n".join(at_home))}
    model.to(choose_device(experiment.engine.device))
    sites = Elsewhere(names, dataset, encoding, model, algorithm, experiment)
    if algorithm.needs_common and len(sites.hub.shard):
        agreement |= {"common": _described(dataset, sites.hub.shard)}
    return Coordination(Setup.of(sites, denoiser, weights, at_home), agreement)


def _agree(experiment: Experiment, names: Sequence[str], encoding: Encoding, model: Model) -> Record:
    """Nothing in it is private: it is made of the coordinator's data alone."""
    meant = replace(experiment, data=replace(experiment.data, path="", human=""))
    agreement: Record = {
        "experiment": _text(config.to_toml(config.to_table(meant))),
        "platforms": _text("\n".join(names)),
        "fixed": _text(_digest(model.fixed())),
    }
    if isinstance(encoding, WordEncoding):
        agreement["words"] = _text("\n".join(encoding.vocabulary.words))
        if encoding.stand_ins is not None:
            agreement["stand_ins"] = Named(word=torch.from_numpy(encoding.stand_ins))
        if model.frozen_words is not None and experiment.extractor.vectors != "glove":
            agreement["vectors"] = Named(table=model.frozen_words)
    return agreement


def _described(dataset: Dataset, shard: Shard) -> Named:
    """The coordinator's sentences in the order it reads them, without their labels."""
    sentences = iterate(dataset, dataset.train, shard.rows)
    lines = [json.dumps([list(it.tokens), astuple(it.head), astuple(it.tail)], ensure_ascii=False) for it in sentences]
    return Named(**_text("\n".join(lines)), starts=torch.as_tensor(shard.bag_starts).clone())


@dataclass(frozen=True)
class Participant:
    """A platform's side of a run."""

    experiment: Experiment
    algorithm: Algorithm
    site: Site
    summary: Record  # what it says of itself: counts
    hub: Site  # the server's, without its sentences
    first: Named | None  # the weights that all begin with, where they follow from what was agreed on
    budget: Budget | None  # of what it may give away; None: nothing hides it


def read_agreed(agreement: Record, allow: Callable[[Experiment], None] = lambda experiment: None) -> Experiment:
    """The coordinator's experiment. What is wrong with it can be told to everybody: it quotes nothing else. `allow` is
    called before code of any plug-in is loaded, and raises if the experiment is refused.
    """
    try:
        table = tomllib.loads(_read(agreement, "experiment"))
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"the coordinator sent no experiment: {error}") from None
    experiment = config.parse(table, "the coordinator's experiment")
    allow(experiment)
    return fitted(complete(experiment))


def participate(
    agreement: Record, *, name: str, data: Path, store: str = "", secret: bytes, own_secret: bytes = b""
) -> Participant:
    """From what was agreed on and the platform's own data. `secret` is the platforms' alone, `own_secret` this
    platform's: its training draws from it unless `engine.public_seeds` is agreed on, or there is none.
    """
    experiment = read_agreed(agreement)
    experiment = replace(experiment, feedback=replace(experiment.feedback, store=store))
    algorithm, denoiser = method_of(experiment)
    set_arithmetic(experiment)
    held_out = tuple(_read(agreement, "held_out").split("\n")) if "held_out" in agreement else ()
    if others := [split for split in held_out if split not in _JUDGED]:
        raise UserError(f"the coordinator wants {others[0]!r} held out, which is neither dev nor test")
    dataset = loading.load_part(
        experiment.data, data, relations=experiment.data.relations, platform=name, held_out=held_out
    )
    dataset.require_no_overlap(experiment.data.allow_overlap)
    if not len(dataset.train):
        raise UserError(f"{data}: no training sentences")
    encoding, model, first = _same_model(agreement, experiment, denoiser, dataset)
    model.to(choose_device(experiment.engine.device))
    everything = Division({name: np.arange(len(dataset.train))}, np.zeros(0, np.int64))
    names = tuple(_read(agreement, "platforms").split("\n"))
    private = bool(own_secret) and not experiment.engine.public_seeds
    sites = Sites(
        dataset=dataset,
        division=everything,
        encoding=encoding,
        model=model,
        algorithm=algorithm,
        experiment=experiment,
        evaluation=evaluation_of(experiment.training.metric, dataset),
        held_out={split: {name: np.arange(len(getattr(dataset, split)))} for split in held_out},
        everyone=names,
        secret=secret,
        private_seed=int.from_bytes(own_secret, "big") if private else None,
        noise_secret=own_secret,
    )
    site = sites[name]
    site.common = _common(agreement, dataset, encoding)
    summary: Record = {"sentences": len(dataset.train), "words": 0.0, "unknown_words": 0.0}
    if experiment.dp.unit == PLATFORM:
        summary["sentences"] = 0  # what nothing hides is not told
    if isinstance(encoding, WordEncoding) and experiment.dp.unit == OFF:
        unknown, running = unknown_share(dataset, dataset.train, encoding.vocabulary)
        summary |= {"words": running, "unknown_words": unknown}
    return Participant(experiment, algorithm, site, summary, sites.hub, first, sites.budget)


def _same_model(
    agreement: Record, experiment: Experiment, denoiser: str, dataset: Dataset
) -> tuple[Encoding, Model, Named | None]:
    """The coordinator's model, and its first weights, unless it alone has vectors that they are made of."""
    settings = experiment.extractor
    frozen = settings.kind != "bert" and settings.embeddings == "frozen"
    if not (frozen and settings.vectors == "glove"):  # what is sent need not be found here
        settings = replace(settings, vectors="random")
    vocabulary = Vocabulary(tuple(_read(agreement, "words").split("\n"))) if "words" in agreement else None

    def words(with_vectors: Sequence[str] | None) -> Vocabulary:
        if vocabulary is None:
            raise UserError("the coordinator sent no vocabulary")
        return vocabulary

    hide_names = settings.hide_names
    meant = replace(experiment, extractor=replace(settings, hide_names=0.0))  # stand-ins are the coordinator's
    encoding, model, first = make_model(meant, denoiser, len(dataset.relations), pairs=dataset.has_pairs, words=words)
    if isinstance(encoding, WordEncoding) and hide_names:
        encoding, model.hide_names = replace(encoding, stand_ins=_stand_ins(agreement, len(encoding))), hide_names
    if "vectors" in agreement and model.frozen_words is not None:
        model.frozen_words = named_in(agreement, "vectors")["table"].clone()
    if _read(agreement, "fixed") != _digest(model.fixed()):
        raise UserError(
            "pretrained weights or word vectors here are not the coordinator's; install the same versions of packages"
        )
    known = frozen or settings.kind == "bert" or experiment.extractor.vectors == "random"
    return encoding, model, first if known else None


def _stand_ins(agreement: Record, words: int) -> Ints:
    """The coordinator's, since only it may have the vectors that they are made of."""
    found = named_in(agreement, "stand_ins")["word"] if "stand_ins" in agreement else torch.zeros(0)
    if found.dtype != torch.int64 or found.shape != (words,) or not ((found >= 0) & (found < words)).all():
        raise UserError("the coordinator sent no stand-ins for the names that training is to hide")
    numbers: Ints = found.numpy()
    return numbers


def _common(agreement: Record, dataset: Dataset, encoding: Encoding) -> Shard | None:
    """The coordinator's sentences, as it reads them itself."""
    if "common" not in agreement:
        return None
    text, first = _read(agreement, "common"), dataset.relations[0]

    def sentences() -> Iterator[Instance]:
        for line in text.split("\n"):
            tokens, head, tail = json.loads(line)
            yield Instance(tokens, Mention(*head), Mention(*tail), first)

    public = loading.load_common(sentences, text, like=dataset)
    starts = named_in(agreement, "common")["starts"].numpy().astype(np.int64)
    shard = encoding.pack(public.train, np.arange(len(public.train)), starts, encoding.numbers(public.words))
    return shard.unlabelled()


def _digest(tensors: Named) -> str:
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        found.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _text(text: str) -> Named:
    return Named(text=torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8).clone())


def _read(agreement: Record, field_: str) -> str:
    return bytes(named_in(agreement, field_)["text"].numpy()).decode()
