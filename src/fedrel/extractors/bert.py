"""A pretrained transformer that reads sentences with markers around their entities (Soares et al., ACL 2019).

A mention is the maximum or the sum of its pieces; head and tail side by side, perhaps after [CLS], are the sentence's
vector. A frozen encoder can have a hidden layer on top, which is trained: then the vector has three parts, the means of
the head, of the tail and of the pieces between them, each normalised. Needs the `bert` extra.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedrel.config import Extractor
from fedrel.encoding.pieces import LENGTH_MULTIPLE, PieceBatch, PieceEncoding
from fedrel.encoding.pretrained import read_pretrained, weights_folder
from fedrel.encoding.shard import Batch
from fedrel.errors import UserError
from fedrel.extractors.encoder import Encoder
from fedrel.extractors.word_table import WordTable
from fedrel.kernels.dropout import kept

PAIR_POOLINGS, TEXT_POOLINGS = ("max", "sum", "cls+sum", "parts"), ("cls", "mean")
_CONFIG = "encoder/config.json"
_AT_ONCE = 64  # sentences of like length in a forward pass without gradients; on a GPU, if they are short, more:
_PIECES_AT_ONCE = 65_536
# Families whose layers all look through the mask that they are given: others make several of it, of local attention
_ONE_MASK = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")


class BERT(Encoder):
    words: WordTable

    def __init__(self, body: Any, settings: Extractor, *, pairs: bool, precision: str = "auto") -> None:
        super().__init__()
        self.pooling = pooling_of(settings, pairs=pairs)
        self.precision = precision
        width = body.config.hidden_size
        read = width * {"max": 2, "sum": 2, "cls+sum": 3, "parts": 3, "cls": 1, "mean": 1}[self.pooling]
        self.frozen = settings.encoder == "frozen"
        self._width: int = read
        self.layer = nn.Linear(read, settings.hidden) if settings.hidden else None
        self.hidden = settings.hidden or read
        self.hide = settings.hide
        self.finished_mask = _takes_finished_mask(body)
        # Like any table of word vectors: only the rows that a platform's text uses are trained there, and travel.
        self.words = WordTable(width, trainable=not self.frozen and not settings.lora)
        body.set_input_embeddings(nn.Embedding(1, width).requires_grad_(False))
        if self.frozen:
            body.requires_grad_(False)
        self.body = _with_lora(body, settings.lora) if settings.lora else body
        _let_it_draw_from(self)

    def encode(self, batch: Batch) -> Tensor:
        return self.trained_part(self.frozen_part(batch))

    def trained_part(self, vectors: Tensor) -> Tensor:
        if self.layer is None:
            return vectors
        vectors = vectors.to(self.layer.weight.dtype)
        if self.training and self.pooling == "parts" and self.hide and self.draws is not None:
            vectors = vectors * self._mentions_shown(vectors)
        return F.gelu(self.layer(self.drop(vectors)))

    def _mentions_shown(self, vectors: Tensor) -> Tensor:
        """(S, W) dropout of whole mentions: a layer that sees who is written about all the time learns by heart which
        names a fact has, wrong labels included. What stands between the mentions is always shown.
        """
        assert self.draws is not None
        shown = kept(vectors.new_empty(len(vectors), 2), self.draws.next_key(), self.hide)
        of_parts = torch.cat([shown, torch.ones_like(shown[:, :1])], dim=1)  # (S, 3)
        return of_parts.repeat_interleave(vectors.shape[1] // 3, dim=1)

    def frozen_part(self, batch: Batch) -> Tensor:
        """(S, W) the vectors of the transformer, which is frozen or not. Those that a layer is trained on are kept for
        the whole run, in half the memory.
        """
        vectors = self.transformed(batch)
        return vectors if self.layer is None else vectors.to(torch.float16)

    @property
    def frozen_width(self) -> int:
        return self._width

    def transformed(self, batch: Batch) -> Tensor:
        assert isinstance(batch, PieceBatch)
        lengths, device = torch.from_numpy(batch.lengths), batch.ids.device
        at_once = max(_AT_ONCE, _PIECES_AT_ONCE // batch.ids.shape[1]) if batch.ids.is_cuda else _AT_ONCE
        if self.training or len(lengths) <= at_once:
            return self._encode(batch.ids, lengths, batch.spans)
        order = torch.argsort(lengths)  # sentences of like length together: little padding
        there = order.to(device, non_blocking=True)
        some = zip(torch.split(order, at_once), torch.split(there, at_once), strict=True)
        vectors = torch.cat([self._encode(batch.ids[at], lengths[it], batch.spans[at]) for it, at in some])
        return torch.empty_like(vectors).index_copy_(0, there, vectors)

    def _encode(self, ids: Tensor, lengths: Tensor, spans: Tensor) -> Tensor:
        """`lengths` are in main memory: nothing here waits for a GPU."""
        if not self.training and len(ids):
            longest = int(lengths.max())
            ids = ids[:, : -(-longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE if ids.is_cuda else longest]
        padded = bool((lengths < ids.shape[1]).any())
        lengths = lengths.to(ids.device, non_blocking=True)
        mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]  # (S, L)
        fast = ids.is_cuda or (self.frozen and _fast_bfloat16())
        mixed = self.precision == "bfloat16" or (self.precision == "auto" and fast)
        arithmetic: AbstractContextManager[object] = nullcontext()
        if mixed:
            arithmetic = torch.autocast(ids.device.type, torch.bfloat16)
        with arithmetic:
            words = self.words(ids.reshape(-1)).view(*ids.shape, -1)
            seen = self.seen(mask, torch.bfloat16 if mixed else words.dtype) if padded else None
            pieces: Tensor = self.body(inputs_embeds=words, attention_mask=seen).last_hidden_state  # (S, L, D)
        return self.pooled(pieces.to(torch.float32) if mixed else pieces, lengths, spans)

    def pooled(self, pieces: Tensor, lengths: Tensor, spans: Tensor) -> Tensor:
        """(S, W) the vectors of sentences from those of their pieces (S, L, D), of which the first `lengths` (S,) are
        no padding, and the spans (S, 4) of head and tail, by the pooling.
        """
        place = torch.arange(pieces.shape[1], device=pieces.device)
        mask = place < lengths[:, None]  # (S, L)
        if self.pooling == "cls":
            return pieces[:, 0]
        if self.pooling == "mean":
            total = (pieces * mask[:, :, None]).sum(1)
            return total / lengths[:, None]
        begins, ends = spans[:, 0::2, None], spans[:, 1::2, None]  # (S, 2, 1) of head and tail
        inside = ((place >= begins) & (place < ends)).unbind(1)  # (S, L) of the head, of the tail
        if self.pooling == "parts":
            between = (place >= ends.amin(1)) & (place < begins.amax(1))  # nothing, of mentions that overlap
            return torch.cat([_normalised_mean(pieces, it) for it in (*inside, between)], dim=1)
        if self.pooling == "max":
            mentions = [pieces.masked_fill(~it[:, :, None], -torch.inf).amax(1) for it in inside]
        else:
            mentions = [(pieces * it[:, :, None]).sum(1) for it in inside]
        return torch.cat([pieces[:, 0], *mentions] if self.pooling == "cls+sum" else mentions, dim=1)

    def seen(self, mask: Tensor, dtype: torch.dtype) -> Tensor:
        """The mask (S, L) as the transformer wants it: finished where possible, since making it the library would ask
        the GPU whether it masks anything, and every layer would turn it into numbers again.
        """
        if not self.finished_mask:
            return mask.long()
        nothing = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return nothing.masked_fill_(~mask, -torch.inf)[:, None, None, :]  # (S, 1, 1, L), added to every layer's scores

    def save(self, folder: Path) -> list[str]:
        """Writes the description of the transformer (its weights are with all others); the names of the files."""
        base = self.body.get_base_model() if hasattr(self.body, "get_base_model") else self.body
        base.config.to_json_file(folder / _CONFIG)
        return [_CONFIG]


def _normalised_mean(pieces: Tensor, inside: Tensor) -> Tensor:
    """(S, D) the mean of the pieces (S, L, D) that are `inside` (S, L), with mean 0 and variance 1; 0 for none."""
    total = (pieces * inside[:, :, None]).sum(1)
    return F.layer_norm(total / inside.sum(1, keepdim=True).clamp(min=1), total.shape[1:])


@cache
def _fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 matrices faster than others; then a frozen encoder reads with it."""
    asked = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(supported is not None and supported() for supported in asked)


def pooling_of(settings: Extractor, *, pairs: bool) -> str:
    """The pooling, or the sentence why it cannot be."""
    if settings.pooling == "auto":
        return ("parts" if settings.hidden else "sum") if pairs else "mean"
    known = PAIR_POOLINGS if pairs else TEXT_POOLINGS
    if settings.pooling not in known:
        what = "sentences with pairs of entities" if pairs else "plain text without entities"
        raise UserError(f'extractor.pooling = "{settings.pooling}" does not fit {what}; use {" or ".join(known)}')
    return settings.pooling


def pretrained(settings: Extractor, encoding: PieceEncoding) -> tuple[Any, Tensor]:
    """The transformer with its pretrained weights, and its table of pieces (V, D), with a row for every marker."""
    from transformers import AutoModel

    what = f'extractor.weights = "{settings.weights}"'
    options = {"use_safetensors": True, "output_loading_info": True}
    body, told = read_pretrained(AutoModel.from_pretrained, weights_folder(settings.weights), what, **options)
    missing = sorted(name for name in told["missing_keys"] if not name.startswith("pooler."))
    if missing:  # the library would draw them at random
        raise UserError(f"{what}: the weights lack what their config.json tells of: {missing[0]} and others")
    body = _prepared(body, settings, len(encoding))
    table: Tensor = body.get_input_embeddings().weight.detach().clone()
    table[encoding.padding] = 0  # never looked at
    return body, table


def rebuilt(folder: Path, settings: Extractor, encoding: PieceEncoding) -> Any:
    """The transformer as a saved model describes it, before its weights are loaded."""
    from transformers import AutoConfig, AutoModel

    described = read_pretrained(AutoConfig.from_pretrained, str(folder / _CONFIG), str(folder / _CONFIG))
    body: Any = AutoModel.from_config(described)  # type: ignore[no-untyped-call]
    return _prepared(body, settings, len(encoding))


def _prepared(body: Any, settings: Extractor, tokens: int) -> Any:
    known = body.get_input_embeddings().weight
    limit = _longest(body)
    if limit is not None and settings.max_length > limit:
        raise UserError(f"extractor.max_length = {settings.max_length}: these weights read at most {limit} pieces")
    if tokens > len(known):
        body.resize_token_embeddings(tokens, mean_resizing=False)
        with torch.no_grad():  # the markers are words like others, to begin with
            new = body.get_input_embeddings().weight[len(known) :]
            drawn = known.std(0) * torch.randn(new.shape)
            new.copy_(known.mean(0) + (0 if settings.encoder == "frozen" else drawn))  # never trained, they say nothing
    if settings.layers:
        _cut(body, settings.layers)
    if getattr(body, "pooler", None) is not None:
        body.pooler = None  # never asked; it would only travel
    return body.to(torch.float32)


def _cut(body: Any, layers: int) -> None:
    """Leaves the lowest layers of a transformer alone."""
    there = body.config.num_hidden_layers
    if layers > there:
        raise UserError(f"extractor.layers = {layers}: these weights have {there} layers")
    for part in body.modules():
        for name, stack in part.named_children():
            if isinstance(stack, nn.ModuleList) and len(stack) == there:
                setattr(part, name, stack[:layers])
                body.config.num_hidden_layers = layers
                return
    raise UserError("extractor.layers: these weights are of a kind whose layers are not known; leave it out")


def _longest(body: Any) -> int | None:
    """How many pieces it has places for. Some models count places from behind the padding's number."""
    limit: int | None = getattr(body.config, "max_position_embeddings", None)
    if limit is None or limit < 1:
        return None
    for name, table in body.named_modules():
        first: int | None = getattr(table, "padding_idx", None)
        if name.endswith("position_embeddings") and first is not None:
            return limit - first - 1
    return limit


def _takes_finished_mask(body: Any) -> bool:
    made_in = sys.modules[type(body).__module__]
    kind, attention = body.config.model_type, getattr(body.config, "_attn_implementation", None)
    return kind in _ONE_MASK and attention in ("eager", "sdpa") and hasattr(made_in, "create_bidirectional_mask")


def _with_lora(body: Any, rank: int) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise UserError('extractor.lora needs a package: pip install "fedrel[bert]"') from None
    return get_peft_model(body, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))


class _Drop(nn.Module):
    p = 0.0  # what attention asks for: its weights are not dropped, since it would draw from elsewhere

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self._encoder = [encoder]  # in a list, or it would count as a part of this

    def forward(self, vectors: Tensor) -> Tensor:
        encoder = self._encoder[0]
        if vectors.is_cuda:  # one platform at a time: it draws from the device's own, seeded by the training loop
            return nn.functional.dropout(vectors, encoder.dropout, self.training)
        return encoder.drop(vectors)


def _let_it_draw_from(encoder: BERT) -> None:
    """Its dropout draws from the encoder's generator, so that platforms that train side by side do not disturb each
    other's draws, and a run repeats. What a model would drop by a mere number (of attention, mostly) is not dropped.
    """
    for module in list(encoder.body.modules()):
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        for name, part in list(module.named_children()):
            if isinstance(part, nn.Dropout):
                setattr(module, name, _Drop(encoder))
