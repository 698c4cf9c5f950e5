"""A trained model as a folder: weights.safetensors, vocabulary.txt and config.json, which describes and seals the
others. Never pickle.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fedrel.assembly import Setup, build_model
from fedrel.config import Extractor, section
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Calibration
from fedrel.federation.checkpoint import load_weights, save_weights
from fedrel.files import sha256, write_whole
from fedrel.learning.model import WORDS, Model
from fedrel.learning.named import Named
from fedrel.version import installed_version

FORMAT = 1  # of the folder
_WEIGHTS, _VOCABULARY, _CONFIG = "weights.safetensors", "vocabulary.txt", "config.json"


@dataclass(frozen=True)
class SavedModel:
    model: Model
    weights: Named
    vocabulary: Vocabulary
    relations: list[str]
    extractor: Extractor
    calibration: Calibration
    version: str  # of the fedrel that saved it

    @property
    def note(self) -> str:
        """What a person should know before using it, if anything."""
        here = installed_version()
        return "" if self.version == here else f"the model was saved by fedrel {self.version}; this is {here}"


def save_model(folder: Path, setup: Setup, weights: Named, calibration: Calibration) -> None:
    """Frozen word vectors are stored too, so that the folder is all one needs."""
    frozen = setup.model.frozen_words
    whole = weights if frozen is None else Named({**weights, WORDS: frozen})
    save_weights(folder / _WEIGHTS, whole)
    write_whole(folder / _VOCABULARY, "\n".join(setup.vocabulary.words))
    described: dict[str, object] = {
        "format": FORMAT,
        "version": installed_version(),
        "extractor": vars(setup.experiment.extractor),
        "denoiser": setup.denoiser,
        "relations": setup.dataset.relations,
        "calibration": asdict(calibration),
        "sha256": {name: sha256(folder / name) for name in (_WEIGHTS, _VOCABULARY)},
    }
    write_whole(folder / _CONFIG, json.dumps(described | {"seal": _seal(described)}, indent=1) + "\n")


def load_model(folder: Path) -> SavedModel:
    """The model of a run: its folder, or the folder `model` in it."""
    if (folder / "model").is_dir():
        folder = folder / "model"
    elif (folder / "experiment.toml").is_file():
        raise UserError(f"{folder}: no model yet; go on with: fedrel run --resume {folder}")
    path = folder / _CONFIG
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        version, format_ = described["version"], described["format"]
        seal, expected = described.pop("seal", None), _seal(described)
    except OSError as error:
        raise UserError(f"{folder}: no model in this folder ({_CONFIG}: {error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path}: damaged, or not the description of a model; copy the model again") from None
    if format_ != FORMAT:
        raise UserError(
            f"{folder}: this model was saved by fedrel {version} in format {format_}; fedrel {installed_version()} "
            f"reads format {FORMAT}: train it again, or install that version"
        )
    if seal != expected:
        raise UserError(f"{path}: this file was changed after the model was saved; take the model from its run again")
    for name, digest in described["sha256"].items():
        if sha256(folder / name) != digest:
            raise UserError(f"{folder / name}: damaged or changed since the model was saved; copy the model again")
    settings = section(Extractor, described["extractor"], str(path))
    words = (folder / _VOCABULARY).read_text(encoding="utf-8").split("\n")
    relations: list[str] = described["relations"]
    weights = load_weights(folder / _WEIGHTS)
    model = build_model(settings, described["denoiser"], len(relations), weights[WORDS], seed=0)
    missing = [name for name, _ in model.named_parameters() if name not in weights]
    if missing:
        raise UserError(f"{folder}: the weights lack {', '.join(missing)}")
    calibration = Calibration(**described["calibration"])
    return SavedModel(model, weights, Vocabulary(tuple(words)), relations, settings, calibration, version)


def _seal(described: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
