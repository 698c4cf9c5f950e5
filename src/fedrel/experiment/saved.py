"""A trained model as a folder: weights.safetensors, what is needed to read text as it does (vocabulary.txt, or a
tokenizer in encoder/), and config.json, which describes and seals the others. Never pickle.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch

from fedrel.config import AUTO, Extractor, section
from fedrel.encoding import Encoding
from fedrel.encoding.words import WordEncoding
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Calibration
from fedrel.experiment.models import assemble, build_model
from fedrel.learning.model import SHOWN, WORDS, Model
from fedrel.learning.named import Named
from fedrel.protocol.checkpoint import load_weights, save_weights
from fedrel.util.files import sha256, write_atomic
from fedrel.util.parallel import cores
from fedrel.util.seeds import seeded
from fedrel.version import installed_version

if TYPE_CHECKING:
    from fedrel.experiment.assembly import Setup

FORMAT = 1  # of the folder
_WEIGHTS, _CONFIG = "weights.safetensors", "config.json"
_DENOISER = "denoiser."  # what names of a denoiser's own weights begin with


@runtime_checkable
class Describes(Protocol):
    """An encoder that needs more than the settings to be made again."""

    def save(self, folder: Path) -> list[str]: ...


@dataclass(frozen=True)
class SavedModel:
    model: Model
    weights: Named
    encoding: Encoding
    relations: list[str]
    has_na: bool
    has_pairs: bool
    extractor: Extractor
    calibration: Calibration
    version: str  # of the fedrel that saved it

    def trained(self) -> Named:
        """Those of the weights that training changes; a saved model may have them in half precision."""
        words = [WORDS] if self.model.encoder.words.trainable else []
        names = [*(name for name, _ in self.model.trained_parameters()), *words]
        return Named({name: self.weights[name].float() for name in names})

    @property
    def note(self) -> str:
        """What a person should know before using it, if anything."""
        here = installed_version()
        return "" if self.version == here else f"the model was saved by fedrel {self.version}; this is {here}"

    @property
    def threads(self) -> int:
        """How many threads of torch score fastest. The steps of a small model are small: more threads would wait for
        each other longer than they work. A transformer keeps all cores busy; a frozen one reads on threads of its own.
        """
        return cores() if self.extractor.kind == "bert" and self.extractor.encoder != "frozen" else 1


def save_model(folder: Path, setup: Setup, weights: Named, calibration: Calibration) -> None:
    """What is never trained (frozen word vectors, say) is stored too, so that the folder is all one needs."""
    save_weights(folder / _WEIGHTS, Named({**weights, **setup.model.fixed()}))
    names = [_WEIGHTS, *setup.encoding.save(folder)]
    if isinstance(setup.model.encoder, Describes):
        names += setup.model.encoder.save(folder)
    described: dict[str, object] = {
        "format": FORMAT,
        "version": installed_version(),
        "extractor": vars(setup.experiment.extractor),
        "denoiser": setup.denoiser,
        "bags": setup.model.bags,
        "hidden_view": setup.model.hidden_view if setup.model.hide_names else SHOWN,
        "relations": setup.dataset.relations,
        "na": setup.dataset.has_na,
        "pairs": setup.dataset.has_pairs,
        "calibration": asdict(calibration),
        "sha256": {name: sha256(folder / name) for name in sorted(set(names))},
    }
    write_atomic(folder / _CONFIG, json.dumps(described | {"seal": _seal(described)}, indent=1) + "\n")


def load_model(folder: Path, denoiser: str | None = None) -> SavedModel:
    """The model of a run: its folder, or the folder `model` in it. Another `denoiser` than its own begins untrained."""
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
    relations: list[str] = described["relations"]
    weights = load_weights(folder / _WEIGHTS)
    has_na, has_pairs = described.get("na", True), described.get("pairs", True)
    own = _denoiser(described, weights)
    encoding, model = _rebuild(folder, settings, denoiser or own, len(relations), weights, has_pairs)
    if denoiser not in (None, own):
        fresh = {name: value for name, value in model.weights().items() if name.startswith(_DENOISER)}
        weights = Named({name: it for name, it in weights.items() if not name.startswith(_DENOISER)} | fresh)
    missing = [name for name, _ in model.named_parameters() if name not in weights]
    if missing:
        raise UserError(f"{folder}: the weights lack {', '.join(missing)}")
    fixed = [(name, value) for name, value in model.named_parameters() if not value.requires_grad]
    with torch.no_grad():
        for name, value in fixed:
            value.copy_(weights[name])
    model.bags = described.get("bags", AUTO)
    model.hidden_view = described.get("hidden_view", SHOWN)
    calibration = Calibration(**described["calibration"])
    return SavedModel(model, weights, encoding, relations, has_na, has_pairs, settings, calibration, version)


def _denoiser(described: dict[str, Any], weights: Named) -> str:
    """Models saved before `att` took the classifier's rows as its queries have queries of their own."""
    name = str(described["denoiser"])
    return "att-own" if name == "att" and "denoiser.query" in weights else name


def _rebuild(
    folder: Path, settings: Extractor, denoiser: str, relations: int, weights: Named, has_pairs: bool
) -> tuple[Encoding, Model]:
    if settings.kind != "bert":
        table = weights[WORDS].float()  # which may be stored in half precision
        return WordEncoding.load(folder, settings), build_model(settings, denoiser, relations, table, seed=0)
    from fedrel.encoding.pieces import PieceEncoding
    from fedrel.extractors.bert import BERT, rebuilt

    pieces = PieceEncoding.load(folder, settings, pairs=has_pairs)
    with seeded(0):  # what is drawn here is replaced by what was learnt
        encoder = BERT(rebuilt(folder, settings, pieces), settings, pairs=has_pairs)
        return pieces, assemble(
            encoder, settings, denoiser, relations, None if encoder.words.trainable else weights[WORDS]
        )


def _seal(described: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
