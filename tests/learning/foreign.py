"""Subclasses of fedrel's own classes as another package might write them, and small models made of them."""

import torch
from torch import nn

from fedrel.denoisers.base import bias_of
from fedrel.denoisers.none import Nothing
from fedrel.denoisers.one import One
from fedrel.extractors import CNN, PCNN, TextCNN
from fedrel.extractors.word_table import WordTable
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named
from fedrel.util.seeds import seeded

EXTRACTORS = [PCNN, CNN, TextCNN]


def scaled(base):
    """One more learned parameter."""

    class Scaled(base):
        def __init__(self, **settings):
            super().__init__(**settings)
            self.scale = nn.Parameter(torch.full((self.hidden,), 0.8))

        def encode(self, batch):
            return super().encode(batch) * self.scale

    return Scaled


def squared(base):
    """Another function of the same parameters."""

    class Squared(base):
        def encode(self, batch):
            return super().encode(batch) ** 2

    return Squared


def activated(activation):
    """Another activation: nothing but an attribute says so."""

    def extend(base):
        class Activated(base):
            def __init__(self, **settings):
                super().__init__(**settings)
                self.activation = activation

        return Activated

    return extend


def declared(base):
    """A class that promises to compute what its parent computes."""
    return type("Declared", (base,), {"plain_convolution": True})


def declared_with_gelu(base):
    """A promise that its activation breaks."""
    return type("DeclaredWithGelu", (activated(nn.functional.gelu)(base),), {"plain_convolution": True})


def declared_with_a_parameter(base):
    """A promise that its parameters break."""
    return type("DeclaredWithAParameter", (scaled(base),), {"plain_convolution": True})


class TwoPieces(PCNN):
    """Other pieces, and nothing else: up to the second entity, and the rest."""

    plain_convolution = True
    pieces = 2

    def piece_lengths(self, batch):
        first, second, rest, separators = batch.piece_lengths.unbind(1)
        return torch.stack([first + second, rest, separators], dim=1)


def untouched(base):
    return type("Untouched", (base,), {})


FOREIGN = {
    "extra parameter": scaled,
    "overridden encode": squared,
    "gelu": activated(nn.functional.gelu),
    "sigmoid": activated(torch.sigmoid),
    "says nothing": untouched,
    "gelu, declared plain": declared_with_gelu,
    "extra parameter, declared plain": declared_with_a_parameter,
}


class Sharpened(Nothing):
    """Other logits on single sentences, with a parameter."""

    def __init__(self, hidden, relations):
        super().__init__(hidden, relations)
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def logits(self, vectors, bag, labels, classifier, drop):
        return super().logits(vectors, bag, labels, classifier, drop) * self.temperature


class Halved(Nothing):
    """Other logits on single sentences, without a parameter."""

    def logits(self, vectors, bag, labels, classifier, drop):
        return drop(vectors) @ classifier.weight.T / 2 + bias_of(classifier)


class HalvedOne(One):
    def logits(self, vectors, bag, labels, classifier, drop):
        return super().logits(vectors / 2, bag, labels, classifier, drop)


class CosineClassifier(nn.Linear):
    def forward(self, vectors):
        return nn.functional.linear(nn.functional.normalize(vectors), nn.functional.normalize(self.weight))


class Regularised(Model):
    def loss(self, batch, loss=None):
        return super().loss(batch, loss) + self.classifier.weight.square().mean()


class Doubled(WordTable):
    def values(self, chosen):
        return 2 * super().values(chosen)


def model_of(encoder=PCNN, denoiser=Nothing, *, model=Model, activation="tanh", dtype=torch.float64, seed=1):
    """A small model of these classes, and weights to begin with."""
    with seeded(seed):
        reader = encoder(filters=6, reach=5, activation=activation)
        made = model(reader, denoiser(reader.hidden, 4), 4).to(dtype)
        table = torch.randn(32, 50, dtype=dtype)
    table[0] = 0
    return made, Named(made.weights() | {WORDS: table})
