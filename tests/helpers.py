"""Small data for tests: random sentences in random bags, as a split and as shards."""

import numpy as np
import torch

from fedrel.config import Extractor
from fedrel.data.store import Split, fact_bags
from fedrel.encoding.packed import PackedShard, pack
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.encoding.words import WordEncoding
from fedrel.experiment.assembly import Setup
from fedrel.experiment.models import build_model
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named


def random_split(sentences=40, *, words=30, relations=4, pairs=12, seed=0, longest=12) -> Split:
    draw = np.random.default_rng(seed)
    lengths = draw.integers(2, longest, sentences)
    offsets = np.r_[0, np.cumsum(lengths)]
    spans = []
    for n in lengths:
        a, b = draw.choice(n, 2, replace=False)
        spans.append((a, a + 1, b, b + 1))
    pair = draw.integers(0, pairs, sentences)
    label_of_pair = draw.integers(0, relations, pairs)
    return Split(
        tokens=draw.integers(0, words, offsets[-1]).astype(np.int32),
        offsets=offsets,
        spans=np.array(spans, dtype=np.int32).reshape(-1, 4),
        labels=label_of_pair[pair].astype(np.int32),
        pairs=pair.astype(np.int32),
        sources=np.zeros(sentences, np.int32),
        expressed=draw.integers(0, 2, sentences).astype(np.int8),
        pair_entities=np.stack([np.arange(pairs), np.arange(pairs) + 100], axis=1).astype(np.int32),
    )


def shard_of(split: Split, rows=None, *, words=30, reach=5, gap=1) -> PackedShard:
    """The rows as fact bags; word i of the split is number i + 2 of the model."""
    chosen = np.arange(len(split)) if rows is None else np.asarray(rows, dtype=np.int64)
    ordered, starts = fact_bags(split, chosen)
    return pack(split, ordered, starts, np.arange(words) + 2, reach=reach, gap=gap)


def vocabulary_of(setup: Setup) -> Vocabulary:
    assert isinstance(setup.encoding, WordEncoding)
    return setup.encoding.vocabulary


def small_model(
    *, denoiser="none", relations=4, words=32, seed=1, kind="pcnn", filters=6, reach=5, dtype=torch.float32, **settings
) -> tuple[Model, Named]:
    """A model with few filters and its starting weights, word table included."""
    draw = torch.Generator().manual_seed(seed)
    table = torch.randn(words, 50, generator=draw, dtype=torch.float64).to(dtype)
    table[0] = 0
    extractor = Extractor(kind=kind, filters=filters, reach=reach, **settings)
    model = build_model(extractor, denoiser, relations, table, seed).to(dtype)
    weights = model.weights()
    if extractor.embeddings == "trainable":
        weights[WORDS] = table
    return model, weights
