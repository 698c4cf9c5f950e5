"""Sentence encoders, one per file: packed tokens in, one vector a sentence out."""

from collections.abc import Callable

from fedrel.extractors.cnn import CNN
from fedrel.extractors.convolution import Encoder
from fedrel.extractors.pcnn import PCNN

EXTRACTORS: dict[str, Callable[..., Encoder]] = {"cnn": CNN, "pcnn": PCNN}

__all__ = ["CNN", "EXTRACTORS", "PCNN", "Encoder"]
