"""A trained model as a folder: weights (safetensors), config.json, vocabulary.txt. Never pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from fedrel.assembly import Setup, build_model
from fedrel.config import Extractor, section
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.errors import UserError
from fedrel.federation.checkpoint import load_weights, save_weights
from fedrel.files import write_whole
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named


@dataclass(frozen=True)
class SavedModel:
    model: Model
    weights: Named
    vocabulary: Vocabulary
    relations: list[str]
    extractor: Extractor


def save_model(folder: Path, setup: Setup, weights: Named) -> None:
    """Frozen word vectors are stored too, so that the folder is all one needs."""
    frozen = setup.model.frozen_words
    whole = weights if frozen is None else Named({**weights, WORDS: frozen})
    save_weights(folder / "weights.safetensors", whole)
    write_whole(folder / "vocabulary.txt", "\n".join(setup.vocabulary.words))
    described = {
        "extractor": vars(setup.experiment.extractor),
        "denoiser": setup.denoiser,
        "relations": setup.dataset.relations,
    }
    write_whole(folder / "config.json", json.dumps(described, indent=1) + "\n")


def load_model(folder: Path) -> SavedModel:
    try:
        described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        words = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
        settings = section(Extractor, described["extractor"], str(folder / "config.json"))
        denoiser, relations = described["denoiser"], list(described["relations"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder}: no model in this folder ({error})") from None
    weights = load_weights(folder / "weights.safetensors")
    model = build_model(settings, denoiser, len(relations), weights[WORDS], seed=0)
    with torch.no_grad():
        missing = [name for name, _ in model.named_parameters() if name not in weights]
    if missing:
        raise UserError(f"{folder}: the weights lack {', '.join(missing)}")
    return SavedModel(model, weights, Vocabulary(tuple(words)), relations, settings)
