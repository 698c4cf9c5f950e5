"""Sentences padded to one length, as other runtimes read them: the same scores as the packed text of training.

Inputs: `tokens` (S, L) int64, the words or pieces of each sentence, then anything; `lengths` (S,) how many are the
sentence's; `spans` (S, 4) head start, head end, tail start, tail end, in tokens. Outputs: `log_odds` (S, R) of every
relation in double precision, and `confidence` (S, R), what fedrel calls the calibrated probability. Of several
sentences about one pair, the highest log-odds count, unless evaluation.bags says otherwise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedrel.denoisers.odds import log_odds
from fedrel.encoding.words import WordEncoding
from fedrel.errors import UserError
from fedrel.evaluation import calibration
from fedrel.evaluation.calibration import Calibration
from fedrel.experiment.saved import SavedModel
from fedrel.extractors.bert import BERT
from fedrel.extractors.cnn import CNN
from fedrel.extractors.convolution import Convolution
from fedrel.extractors.pcnn import PCNN
from fedrel.learning.model import HIDDEN, SHOWN, WORDS, Model

INPUTS, OUTPUTS = ("tokens", "lengths", "spans"), ("log_odds", "confidence")


class PaddedModel(nn.Module):
    """A reader of sentences under a classifier, with its calibration."""

    def __init__(self, reader: nn.Module, classifier: nn.Linear, calibrated: Calibration) -> None:
        super().__init__()
        self.reader = reader
        self.classifier = classifier
        self.calibration = calibrated

    def forward(self, tokens: Tensor, lengths: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
        odds = log_odds(self.classifier(self.reader(tokens, lengths, spans)))
        return odds, torch.sigmoid(_calibrated(self.calibration, odds))


def _calibrated(calibrated: Calibration, odds: Tensor) -> Tensor:
    """`Calibration.log_odds` in torch."""
    free = odds / calibrated.temperature + calibrated.offset
    if calibrated.most >= 1:
        return free
    bound = math.log(calibrated.most) - math.log1p(-calibrated.most)
    below = (bound - free) / calibration.BEND
    half = math.log(2.0)
    above = below.clamp(min=0.0) + torch.log1p(torch.exp(-below.abs()))  # log(1 + exp(below)), whatever below is
    lacking = torch.where(below > 0, above, half / (1.0 - below.clamp(max=0.0) / (2.0 * half)))
    return bound - calibration.BEND * lacking


class PaddedConvolution(nn.Module):
    """PCNN and CNN."""

    stand_ins: Tensor

    def __init__(self, encoder: Convolution, table: Tensor, view: float, stand_ins: Tensor | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.table = nn.Parameter(table, requires_grad=False)  # (V, D)
        self.reach = len(encoder.head_position) // 2 - 1
        self.view = SHOWN if stand_ins is None else view
        self.register_buffer("stand_ins", torch.zeros(0, dtype=torch.int64) if stand_ins is None else stand_ins)

    def forward(self, tokens: Tensor, lengths: Tensor, spans: Tensor) -> Tensor:
        place = torch.arange(tokens.shape[1], device=tokens.device)
        if self.view == SHOWN:
            return self._read(tokens, place, lengths, spans)
        begins, ends = spans[:, 0::2, None], spans[:, 1::2, None]  # (S, 2, 1)
        named = ((place >= begins) & (place < ends)).any(1)  # (S, L)
        hidden = self._read(torch.where(named, self.stand_ins[tokens], tokens), place, lengths, spans)
        if self.view == HIDDEN:
            return hidden
        return (1 - self.view) * self._read(tokens, place, lengths, spans) + self.view * hidden

    def _read(self, tokens: Tensor, place: Tensor, lengths: Tensor, spans: Tensor) -> Tensor:
        """(S, hidden) the vectors of sentences."""
        encoder = self.encoder
        inside = place < lengths[:, None]  # (S, L)
        parts = [F.embedding(tokens, self.table)]
        for start, positions in ((spans[:, :1], encoder.head_position), (spans[:, 2:3], encoder.tail_position)):
            parts.append(F.embedding((place - start).clamp(-self.reach, self.reach) + self.reach + 1, positions))
        rows = torch.cat(parts, dim=2) * inside[:, :, None]  # (S, L, D), zero beyond the sentence
        side = encoder.window // 2
        around = F.pad(rows, (0, 0, side, side))
        count = tokens.shape[1]
        features = encoder.convolution(torch.cat([around[:, at : at + count] for at in range(encoder.window)], dim=2))
        ends = torch.stack([spans[:, 1::2].amin(1), spans[:, 1::2].amax(1), lengths], dim=1)  # (S, 3) of the pieces
        begins = F.pad(ends[:, :2], (1, 0))
        if encoder.pieces == 1:
            begins, ends = begins[:, :1], ends[:, 2:]
        maxima = []
        for begin, end in zip(begins.unbind(1), ends.unbind(1), strict=True):
            holds = (place >= begin[:, None]) & (place < end[:, None])  # (S, L)
            lowest = torch.finfo(features.dtype).min
            highest = torch.where(holds[:, :, None], features, lowest).amax(1)
            maxima.append(torch.where((end > begin)[:, None], highest, torch.zeros_like(highest)))
        return encoder.activation(torch.cat(maxima, dim=1))


class PaddedTransformer(nn.Module):
    """A transformer, from the table of its pieces to the vectors of sentences."""

    def __init__(self, encoder: BERT, body: nn.Module, table: Tensor) -> None:
        super().__init__()
        self.encoder: BERT = encoder
        self.body = body
        self.table = nn.Parameter(table, requires_grad=False)  # (V, D)

    def forward(self, tokens: Tensor, lengths: Tensor, spans: Tensor) -> Tensor:
        encoder: BERT = self.encoder
        place = torch.arange(tokens.shape[1], device=tokens.device)
        words = F.embedding(torch.where(place < lengths[:, None], tokens, 0), self.table)
        seen = encoder.seen(place < lengths[:, None], words.dtype)
        pieces = self.body(inputs_embeds=words, attention_mask=seen).last_hidden_state
        vectors: Tensor = encoder.trained_part(encoder.pooled(pieces, lengths, spans))
        return vectors


def with_weights(saved: SavedModel) -> Model:
    """A model of its own with all of the saved weights but the word table."""
    model = saved.model.twin()
    with torch.no_grad():
        for name, value in model.trained_parameters():
            value.copy_(saved.weights[name])
    return model.eval()


def padded(saved: SavedModel) -> PaddedModel:
    """The saved model for padded sentences. Raises UserError for an extractor that has no such form."""
    model, table = with_weights(saved), saved.weights[WORDS].float()
    encoder = model.encoder
    reader: nn.Module
    if type(encoder) in (PCNN, CNN):
        assert isinstance(encoder, Convolution)
        assert isinstance(saved.encoding, WordEncoding)
        stand_ins = None if saved.encoding.stand_ins is None else torch.from_numpy(saved.encoding.stand_ins)
        reader = PaddedConvolution(encoder, table, model.hidden_view, stand_ins)
    elif isinstance(encoder, BERT):
        reader = PaddedTransformer(encoder, plain_body(encoder), table)
    else:
        raise UserError(
            f'a model of extractor.kind = "{saved.extractor.kind}" cannot be exported; pcnn, cnn and bert can'
        )
    return PaddedModel(reader, model.classifier, saved.calibration).eval()


def plain_body(encoder: BERT) -> nn.Module:
    """The transformer alone, with what low-rank training has changed in its weights."""
    body: nn.Module = encoder.body.merge_and_unload() if hasattr(encoder.body, "merge_and_unload") else encoder.body
    return body
