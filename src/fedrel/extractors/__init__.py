"""Sentence encoders, one per file: a batch in, one vector a sentence out."""

from fedrel.extractors.bag_of_words import Bag
from fedrel.extractors.cnn import CNN
from fedrel.extractors.encoder import Encoder
from fedrel.extractors.pcnn import PCNN
from fedrel.extractors.text_cnn import TextCNN
from fedrel.util.plugins import Registry

# With a table of word vectors; bert.py has its own way of being made, and packages that it needs.
_OWN: dict[str, type[Encoder]] = {"bag": Bag, "cnn": CNN, "pcnn": PCNN, "text": TextCNN}


def _wrong(part: object) -> str | None:
    ok = isinstance(part, type) and issubclass(part, Encoder)
    return None if ok else "is no subclass of fedrel.extractors.Encoder"


EXTRACTORS: Registry[type[Encoder]] = Registry("fedrel.extractors", _OWN, _wrong)

__all__ = ["CNN", "EXTRACTORS", "PCNN", "Bag", "Encoder", "TextCNN"]
