"""The words a model knows. Number 0 is padding (always the zero vector), 1 any unknown word.

In a federation all parties must agree on the words without sharing their texts: the words that have a public vector,
those of the coordinator's own text, or those of a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fedrel.config import Extractor
from fedrel.corpus.lines import numbered_lines
from fedrel.data.store import Dataset, Ints, Split
from fedrel.errors import UserError

PADDING, UNKNOWN = "<pad>", "<unk>"
_BREAKS = set("\r\n")  # a saved model lists its words one per line


@dataclass(frozen=True)
class Vocabulary:
    """Words by number; lookups ignore case."""

    words: tuple[str, ...]  # lower case; the first two are PADDING and UNKNOWN

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def lookup(self, words: Sequence[str]) -> Ints:
        """(len(words),) the number of each word; 1 for an unknown one."""
        known = self.numbers
        return np.array([known.get(word.lower(), 1) for word in words], dtype=np.int64).reshape(-1)


def from_training(dataset: Dataset, min_count: int, always: Container[str] = ()) -> Vocabulary:
    """The words that occur at least `min_count` times in the training sentences, and those of `always` that occur at
    all; dev and test are not used. Rarer words share one vector: a model with a vector for each would memorise names
    instead of learning language, and reveal who was written about.
    """
    counts = Counter[str]()
    for number, count in zip(*np.unique(dataset.train.tokens, return_counts=True), strict=True):
        counts[dataset.words[number].lower()] += int(count)
    return of_words(word for word, count in counts.items() if count >= min_count or word in always)


def agreed(
    settings: Extractor, dataset: Dataset, own: Ints, with_vectors: Sequence[str] | None = None
) -> Vocabulary | None:
    """The vocabulary that needs no platform's private text; None if the settings ask for one from training text.

    `own` are the rows of train that the coordinator holds, `with_vectors` the words that have a pretrained vector. No
    other text is used, so that the coordinator of a federation finds the same words as a simulation that holds all
    texts. Raises UserError if there is nothing to take words from.
    """
    if settings.vocabulary == "training":
        return None
    if settings.vocabulary != "public" and not settings.vocabulary.startswith("public+"):
        return of_words(read_words(Path(settings.vocabulary)))
    public = sorted(_words_of(dataset, own)) if with_vectors is None else with_vectors
    file = settings.vocabulary.removeprefix("public").removeprefix("+")
    if not public and not file:
        raise UserError(
            'extractor.vocabulary = "public", but the coordinator has no text and there are no word vectors; give it a '
            'train or dev file, set extractor.vectors = "glove", or name a file of words'
        )
    return of_words([*public, *(read_words(Path(file)) if file else [])])


def of_words(words: Iterable[str]) -> Vocabulary:
    """The vocabulary of these words in lower case, in order and without repetition. Words with a line break are left
    out.
    """
    lower = (word.lower() for word in words)
    return Vocabulary(tuple(dict.fromkeys((PADDING, UNKNOWN, *(word for word in lower if not _BREAKS & set(word))))))


def read_words(path: Path) -> list[str]:
    """The words of a file, one per line. Raises UserError if it is missing or empty."""
    if not path.is_file():
        raise UserError(f'{path}: no such file; extractor.vocabulary is "training", "public", "public+FILE" or a file')
    words = [line.strip() for _, line in numbered_lines(path)]
    if not words:
        raise UserError(f"{path}: no words; write one per line")
    return words


def unknown_share(dataset: Dataset, split: Split, vocabulary: Vocabulary) -> tuple[int, int]:
    """(unknown tokens, all tokens) of a split."""
    unknown = vocabulary.lookup(dataset.words) == 1
    return int(unknown[split.tokens].sum()), len(split.tokens)


def _words_of(dataset: Dataset, own: Ints) -> set[str]:
    """The words of dev and of these rows of train. A set, because their order in a store depends on the other rows."""
    train = dataset.train
    used = np.zeros(len(dataset.words), dtype=bool)
    if "dev" not in dataset.held_out:  # else dev is the platforms' text
        used[dataset.dev.tokens] = True
    for row in own:
        used[train.tokens[train.offsets[row] : train.offsets[row + 1]]] = True
    return {dataset.words[number].lower() for number in np.flatnonzero(used)}
