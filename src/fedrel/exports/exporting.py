"""A saved model as a folder that others read: ONNX for any runtime, or the files that Hugging Face's libraries load."""

from __future__ import annotations

import importlib.util
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedrel.errors import UserError, suggest
from fedrel.experiment.saved import SavedModel, load_model
from fedrel.exports.card import model_card
from fedrel.exports.checking import SENTENCES, Scorer, by_torch, largest_difference, padded_inputs, random_sentences
from fedrel.exports.padded import INPUTS, OUTPUTS, PaddedModel, PaddedTransformer, padded, plain_body, with_weights
from fedrel.extractors.bert import BERT
from fedrel.learning.model import WORDS
from fedrel.util.files import atomic_folder, write_atomic

_MODEL, _ENCODER = "model.onnx", "encoder"
_OPSET = 18


@dataclass(frozen=True)
class Exported:
    """An exported model: its folder, and the largest difference between its confidences and fedrel's own, on so many
    sentences of random words.
    """

    folder: Path
    difference: float
    sentences: int


def export(model: Path, out: Path, to: str, *, say: Callable[[str], None] = lambda line: None) -> Exported:
    """Writes the model of a run (or a model's folder) to a new folder in another form, one of FORMS, with a README.md
    that says what it was trained on, how well it does, and what left the platforms. Raises UserError for a model that
    has no such form, without the packages that it takes, for an `out` that exists, and if the exported model scores
    sentences differently; then nothing is written.
    """
    if to not in FORMS:
        raise UserError(f'"{to}" is no form of a model{suggest(to, FORMS)}')
    if out.exists():
        raise UserError(f"{out} exists; choose a new folder")
    saved, folder = load_model(model), model / "model" if (model / "model").is_dir() else model
    with atomic_folder(out) as new:
        scorer = FORMS[to](saved, folder, new, say)
        say(f"checking {SENTENCES:,} sentences against fedrel's own scores …")
        difference = largest_difference(saved, scorer)
        write_atomic(new / "README.md", model_card(saved, model, to, difference, SENTENCES))
    return Exported(out, difference, SENTENCES)


def _to_onnx(saved: SavedModel, folder: Path, new: Path, say: Callable[[str], None]) -> Scorer:
    """model.onnx, what is needed to read text (vocabulary.txt or a tokenizer), and config.json with the relations."""
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")):
        raise UserError('ONNX needs packages of its own: pip install "fedrel[onnx]"')
    module = padded(saved)
    say("writing the ONNX graph …")
    _write_graph(saved, module, new / _MODEL)
    for name in ("vocabulary.txt", "stand_ins.txt"):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, new / name)
    if (folder / _ENCODER).is_dir():
        shutil.copytree(folder / _ENCODER, new / _ENCODER)
    described = {
        "relations": saved.relations,
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        "calibration": asdict(saved.calibration),
        "version": saved.version,
    }
    write_atomic(new / "config.json", json.dumps(described, indent=1) + "\n")
    return _by_onnx(new / _MODEL)


def _write_graph(saved: SavedModel, module: PaddedModel, path: Path) -> None:
    split = random_sentences(saved, 3)
    rows = np.arange(3)
    example = padded_inputs(saved, split, rows, saved.encoding.pack(split, rows, np.arange(4)))
    count, longest = torch.export.Dim("sentences", min=1), torch.export.Dim("longest", min=2)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # of packages for images, which are not needed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                tuple(torch.from_numpy(it) for it in example),
                path,
                dynamo=True,
                input_names=INPUTS,
                output_names=OUTPUTS,
                dynamic_shapes=({0: count, 1: longest}, {0: count}, {0: count}),
                opset_version=_OPSET,
                external_data=False,
                verbose=False,
            )
    finally:
        logging.disable(before)


def _by_onnx(path: Path) -> Scorer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda *inputs: session.run([OUTPUTS[1]], dict(zip(INPUTS, inputs, strict=True)))[0]


def _to_huggingface(saved: SavedModel, folder: Path, new: Path, say: Callable[[str], None]) -> Scorer:
    """The folder of the model itself, which fedrel.load reads, with the transformer's weights in encoder/, where
    AutoModel and AutoTokenizer read them.
    """
    model = with_weights(saved)
    encoder = model.encoder
    if not isinstance(encoder, BERT):
        raise UserError(
            "Hugging Face's form is one of transformers, and this is a model of extractor.kind = "
            f'"{saved.extractor.kind}"; export it to onnx'
        )
    from transformers import AutoModel

    shutil.copytree(folder, new, dirs_exist_ok=True)
    say("writing the transformer …")
    body: Any = plain_body(encoder)
    table = torch.nn.Embedding(*saved.weights[WORDS].shape)
    table.weight.data = saved.weights[WORDS].float()
    body.set_input_embeddings(table)
    with tempfile.TemporaryDirectory(dir=new) as apart:
        body.save_pretrained(apart)
        shutil.move(Path(apart) / "model.safetensors", new / _ENCODER / "model.safetensors")
    read: Any = AutoModel.from_pretrained(str(new / _ENCODER))
    again = PaddedTransformer(encoder, read, read.get_input_embeddings().weight.detach().clone())
    return by_torch(PaddedModel(again, model.classifier, saved.calibration).eval())


FORMS: dict[str, Callable[[SavedModel, Path, Path, Callable[[str], None]], Scorer]] = {
    "onnx": _to_onnx,
    "huggingface": _to_huggingface,
}
