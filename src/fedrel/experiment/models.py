"""A fresh model: how it reads sentences, its layers, and the weights to start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from fedrel.config import Experiment, Extractor
from fedrel.denoisers import DENOISERS
from fedrel.encoding import Encoding, vectors
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.encoding.words import WordEncoding
from fedrel.extractors import EXTRACTORS, Encoder
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named
from fedrel.util.seeds import derive, seeded


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
        model.bags = experiment.evaluation.bags
        return pieces, model, _start(model, table)
    pretrained_vectors = None
    if settings.vectors != "random":
        say(f"loading word vectors ({settings.vectors}) …")
        pretrained_vectors = vectors.load(settings.vectors)
    vocabulary = words(pretrained_vectors.words if pretrained_vectors else None)
    table = vectors.initial_table(vocabulary, settings.word_dim, pretrained_vectors, seed, spread=settings.spread)
    model = build_model(settings, denoiser, relations, table, seed)
    model.bags = experiment.evaluation.bags
    stand_ins = vectors.stand_ins(vocabulary, pretrained_vectors) if settings.hide_names else None
    return WordEncoding.of(settings, vocabulary, stand_ins), model, _start(model, table)


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
        model = assemble(encoder, settings, denoiser, relations, None if trainable else table)
        model.hide_names = settings.hide_names
        return model


def assemble(
    encoder: Encoder, settings: Extractor, denoiser: str, relations: int, frozen_words: Tensor | None = None
) -> Model:
    denoising = DENOISERS[denoiser](encoder.hidden, relations)
    return Model(encoder, denoising, relations, frozen_words, bias=settings.bias)
