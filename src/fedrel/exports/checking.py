"""An exported model is only handed over if it scores sentences as fedrel does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fedrel.data.store import Ints, Split
from fedrel.denoisers.odds import log_odds
from fedrel.encoding.pieces import PieceBatch, PieceShard
from fedrel.encoding.shard import Shard
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Floats
from fedrel.experiment.saved import SavedModel
from fedrel.exports.padded import with_weights
from fedrel.extractors.bert import BERT
from fedrel.learning.model import WORDS

SENTENCES = 1_000
CLOSE = 1e-5  # of confidences
_AT_ONCE = 100
Scorer = Callable[[Ints, Ints, Ints], Floats]  # padded tokens, lengths, spans → confidences


def largest_difference(saved: SavedModel, score: Scorer, sentences: int = SENTENCES) -> float:
    """The largest difference between the confidences of `score` and fedrel's own, on sentences of random words. Raises
    UserError if it is not small.
    """
    split = random_sentences(saved, sentences)
    differences = []
    for first in range(0, sentences, _AT_ONCE):
        rows = np.arange(first, min(first + _AT_ONCE, sentences))
        shard = saved.encoding.pack(split, rows, np.arange(len(rows) + 1))
        ours = saved.calibration.confidence(own_log_odds(saved, shard))
        theirs = score(*padded_inputs(saved, split, rows, shard))
        differences.append(np.abs(ours - theirs).max())
    worst = float(np.max(differences))
    if not worst <= CLOSE:
        raise UserError(
            f"the exported model scores differently: confidences differ by up to {worst:.1e} on {sentences:,} "
            "sentences, so nothing was written; report this with the versions of torch and onnxruntime"
        )
    return worst


def random_sentences(saved: SavedModel, count: int, seed: int = 1) -> Split:
    """Sentences of words that the model knows, with two mentions each."""
    draw = np.random.default_rng(seed)
    known = _known_words(saved)
    lengths = draw.integers(4, 40, count)
    spans = np.array([_two_spans(draw, int(length)) for length in lengths], dtype=np.int32)
    return Split(
        tokens=known[draw.integers(0, len(known), int(lengths.sum()))].astype(np.int32),
        offsets=np.r_[0, np.cumsum(lengths)],
        spans=spans,
        labels=np.zeros(count, np.int32),
        pairs=np.zeros(count, np.int32),
        sources=np.zeros(count, np.int32),
        expressed=np.full(count, -1, np.int8),
        pair_entities=np.zeros((0, 2), np.int32),
        types=np.full((count, 2), -1, np.int32),
    )


def _two_spans(draw: np.random.Generator, length: int) -> list[int]:
    """Head and tail, in either order."""
    a, b, c, d = sorted(draw.choice(length + 1, 4, replace=False).tolist())
    return [a, b, c, d] if draw.random() < 0.5 else [c, d, a, b]


def _known_words(saved: SavedModel) -> Ints:
    if saved.extractor.kind != "bert":
        return np.arange(1, len(saved.weights[WORDS]))
    pieces = sorted(saved.encoding.tokenizer.get_vocab())  # type: ignore[attr-defined]
    return saved.encoding.numbers([piece for piece in pieces if piece.isalpha()][:5_000])


def own_log_odds(saved: SavedModel, shard: Shard) -> Floats:
    """(S, R) of each sentence by itself, as fedrel computes them; a frozen transformer in full precision, where fedrel
    keeps its vectors in half.
    """
    model = with_weights(saved)
    model.load(saved.weights, shard)
    encoder = model.encoder
    if not isinstance(encoder, BERT):
        return model.score_sentences(shard.bags_of(torch.arange(shard.bags)))[1].numpy()
    encoder.precision = "float32"
    with torch.no_grad():
        return log_odds(model.classifier(encoder.trained_part(encoder.transformed(_with_pieces(shard))))).numpy()


def _with_pieces(shard: Shard) -> PieceBatch:
    """All of a shard, with the pieces that it leaves out once it has kept vectors."""
    assert isinstance(shard, PieceShard)
    shard.kept.clear()
    batch = shard.bags_of(torch.arange(shard.bags))
    assert isinstance(batch, PieceBatch)
    return batch


def padded_inputs(saved: SavedModel, split: Split, rows: Ints, shard: Shard) -> tuple[Ints, Ints, Ints]:
    """Tokens (S, L), lengths (S,) and spans (S, 4) of these rows, as an exported model reads them."""
    if saved.extractor.kind == "bert":
        batch = _with_pieces(shard)
        return shard.vocabulary[batch.ids.numpy()], np.asarray(batch.lengths, np.int64), batch.spans.long().numpy()
    lengths = np.diff(split.offsets)[rows].astype(np.int64)
    tokens = np.zeros((len(rows), int(lengths.max())), np.int64)
    for place, row in enumerate(rows.tolist()):
        tokens[place, : lengths[place]] = split.tokens[split.offsets[row] : split.offsets[row + 1]]
    return tokens, lengths, np.asarray(split.spans)[rows].astype(np.int64)


def by_torch(module: torch.nn.Module) -> Scorer:
    """A scorer that runs a padded model in torch."""

    @torch.no_grad()
    def score(tokens: Ints, lengths: Ints, spans: Ints) -> Floats:
        confidence: Tensor = module(*(torch.from_numpy(it) for it in (tokens, lengths, spans)))[1]
        return confidence.numpy()

    return score
