"""A tiny world, a tiny transformer, and every method on every extractor."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from fedrel import config
from fedrel.algorithms import METHODS

TINY = [
    "data.size=600",
    "partition.platforms=4",
    "partition.server=0.2",
    "training.rounds=2",
    "training.epochs=1",
    "training.batch=16",
    "extractor.filters=8",
    "extractor.bias=false",
    "engine.workers=1",
]
EXTRACTORS = ("pcnn", "cnn", "text", "bag", "bert")
# What a method needs, beside the above, to work with the default optimiser of an extractor
NEEDS = {
    "scaffold": ["training.optimizer=sgd", "training.lr=0.01"],
    "lazy-mil": ["method.warmup=1"],
    "evidence": ["method.narrowing=0"],
}


def experiment(method: str, extractor: str, *settings: str) -> config.Experiment:
    chosen = [f"method.name={method}", f"extractor.kind={extractor}", *NEEDS.get(method, [])]
    if extractor == "bert":
        chosen += [f"extractor.weights={tiny_bert()}", "extractor.max_length=32"]
    return config.read(None, [*TINY, *chosen, *settings])


def cases() -> list[tuple[str, str]]:
    return [(method, extractor) for method in METHODS for extractor in EXTRACTORS]


@cache
def tiny_bert() -> Path:
    """A transformer of two small layers with a real tokenizer of few words, as a folder that any AutoModel can be."""
    import tempfile

    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = Path(tempfile.mkdtemp(prefix="tiny-bert-"))
    letters = [chr(code) for code in range(33, 127)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters), "the", "in", "of"]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    raw = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    tokenizer.save_pretrained(folder)
    small: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **small)).save_pretrained(folder)
    return folder
