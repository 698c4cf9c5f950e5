"""Kim, EMNLP 2014: a convolution over words with one maximum, for plain text. It does not look for entities."""

from typing import Any

from fedrel.extractors.cnn import CNN


class TextCNN(CNN):
    needs_pairs = False
    plain_convolution = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "position_dim": 0})
