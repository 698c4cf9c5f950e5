"""Sentence encoders, one per file: a batch in, one vector a sentence out."""

from collections.abc import Callable

from fedrel.extractors.bag_of_words import Bag
from fedrel.extractors.cnn import CNN
from fedrel.extractors.encoder import Encoder
from fedrel.extractors.pcnn import PCNN
from fedrel.extractors.text_cnn import TextCNN

# With a table of word vectors; bert.py has its own way of being made, and packages that it needs.
EXTRACTORS: dict[str, Callable[..., Encoder]] = {"bag": Bag, "cnn": CNN, "pcnn": PCNN, "text": TextCNN}

__all__ = ["CNN", "EXTRACTORS", "PCNN", "Bag", "Encoder", "TextCNN"]
