"""Exported models score sentences as fedrel does, and say where they come from."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import fedrel
from fedrel import config
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Calibration
from fedrel.experiment.assembly import prepare
from fedrel.experiment.saved import SavedModel, load_model, save_model
from fedrel.exports import checking
from fedrel.exports.card import model_card
from fedrel.exports.checking import by_torch, largest_difference, own_log_odds, random_sentences
from fedrel.exports.padded import _calibrated, padded
from fedrel.learning.model import HIDDEN, SHOWN
from tests.algorithms.tiny import TINY, tiny_bert
from tests.cli.test_cli import sets

TRANSFORMER = ["extractor.kind=bert", "extractor.max_length=48", "training.lr=0.01"]
CONVOLUTIONS = [
    ["extractor.kind=pcnn"],
    ["extractor.kind=cnn", "extractor.activation=relu"],
    ["extractor.kind=pcnn", "extractor.window=5", "extractor.reach=7", "extractor.bias=false"],
    ["extractor.kind=pcnn", "extractor.embeddings=frozen"],
    ["extractor.kind=pcnn", "method.name=att"],
]
TRANSFORMERS = [
    [],
    ["extractor.pooling=max"],
    ["extractor.pooling=cls+sum", "extractor.blind=true"],
    ["extractor.encoder=frozen"],
    ["extractor.encoder=frozen", "extractor.hidden=8", "extractor.layers=1"],
    ["extractor.lora=2"],
]


def saved_in(folder: Path, *settings: str, calibration: Calibration | None = None, view: float = SHOWN) -> SavedModel:
    """A model that has learnt nothing, saved and loaded."""
    weights = [f"extractor.weights={tiny_bert()}"] if "extractor.kind=bert" in settings else []
    setup = prepare(config.read(None, [*TINY, *weights, *settings]))
    setup.model.hidden_view = view
    with torch.no_grad():  # a fresh classifier has no bias to speak of
        for name, value in setup.weights.items():
            if name == "classifier.bias":
                value.copy_(torch.linspace(-1, 1, len(value)))
    save_model(folder, setup, setup.weights, calibration or Calibration(0.6, 0.8, 0.2, 0.1, 0.9))
    return load_model(folder)


@pytest.mark.parametrize("settings", CONVOLUTIONS, ids=" ".join)
def test_padded_convolutions_score_as_packed_ones(settings, tmp_path):
    saved = saved_in(tmp_path, *settings)
    assert largest_difference(saved, by_torch(padded(saved))) < 1e-6


@pytest.mark.parametrize("view", [SHOWN, 0.5, HIDDEN])
def test_names_are_hidden_as_in_fedrel(view, tmp_path):
    saved = saved_in(tmp_path, "extractor.kind=pcnn", "extractor.hide_names=0.3", view=view)
    assert saved.encoding.stand_ins is not None
    assert largest_difference(saved, by_torch(padded(saved))) < 1e-6


@pytest.mark.parametrize("settings", TRANSFORMERS, ids=lambda it: " ".join(it) or "plain")
def test_padded_transformers_score_as_packed_ones(settings, tmp_path):
    saved = saved_in(tmp_path, *TRANSFORMER, *settings)
    assert largest_difference(saved, by_torch(padded(saved)), 300) < 1e-6


def test_padding_and_what_stands_in_it_change_nothing(tmp_path):
    module = padded(saved_in(tmp_path, "extractor.kind=pcnn"))
    tokens, lengths, spans = torch.tensor([[4, 5, 6, 7, 8]]), torch.tensor([5]), torch.tensor([[0, 1, 3, 5]])
    longer = torch.nn.functional.pad(tokens, (0, 6), value=9)
    torch.testing.assert_close(module(longer, lengths, spans), module(tokens, lengths, spans))


@pytest.mark.parametrize("most", [1.0, 0.95, 0.5])
def test_confidences_are_calibrated_alike(most):
    calibration = Calibration(0.7, -0.4, most=most)
    scores = np.linspace(-30, 30, 601)
    ours = _calibrated(calibration, torch.from_numpy(scores)).numpy()
    np.testing.assert_allclose(ours, calibration.log_odds(scores), rtol=1e-12, atol=1e-12)


def test_what_scores_differently_is_refused(tmp_path):
    saved = saved_in(tmp_path, "extractor.kind=pcnn")
    right = by_torch(padded(saved))
    with pytest.raises(UserError, match=r"confidences differ by up to 2\.0e-05"):
        largest_difference(saved, lambda *inputs: right(*inputs) + 2e-5, 100)
    with pytest.raises(UserError, match="differ by up to nan"):
        largest_difference(saved, lambda *inputs: right(*inputs) * np.nan, 100)


def test_the_reference_is_what_extraction_uses(tmp_path):
    saved = saved_in(tmp_path, "extractor.kind=pcnn")
    split = random_sentences(saved, 20)
    shard = saved.encoding.pack(split, np.arange(20), np.arange(21))
    saved.model.load(saved.weights, shard)
    alone = saved.model.score_sentences(shard.bags_of(torch.arange(20)))[1].numpy()
    np.testing.assert_array_equal(own_log_odds(saved, shard), alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [CONVOLUTIONS[0], CONVOLUTIONS[1], *([*TRANSFORMER, *it] for it in TRANSFORMERS)], ids=" ".join
)
def test_onnx_scores_a_thousand_sentences_alike(settings, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    saved = saved_in(tmp_path / "model", *settings)
    done = fedrel.export(tmp_path / "model", tmp_path / "out", to="onnx")
    assert (done.sentences, checking.SENTENCES) == (1_000, 1_000) and done.difference < 1e-5
    session = runtime.InferenceSession(str(tmp_path / "out" / "model.onnx"))
    one = session.run(None, {"tokens": [[2, 3, 4]], "lengths": [3], "spans": [[0, 1, 2, 3]]})  # of another shape
    assert one[0].shape == one[1].shape == (1, len(saved.relations))
    described = json.loads((tmp_path / "out" / "config.json").read_text())
    assert described["relations"] == saved.relations


@pytest.mark.slow
def test_the_general_model_as_onnx(tmp_path):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from fedrel.extraction.general import FOLDER

    assert fedrel.export(FOLDER, tmp_path / "out", to="onnx").difference < 1e-5
    card = (tmp_path / "out" / "README.md").read_text()
    assert "`born_in`" in card and "Not known: the model was exported without the folder of its run." in card


@pytest.mark.parametrize("settings", TRANSFORMERS, ids=lambda it: " ".join(it) or "plain")
def test_hugging_face_reads_the_encoder_and_fedrel_the_whole(settings, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    saved = saved_in(tmp_path / "model", *TRANSFORMER, *settings)
    done = fedrel.export(tmp_path / "model", tmp_path / "out", to="huggingface")
    assert done.difference < 1e-5
    encoder = AutoModel.from_pretrained(str(tmp_path / "out" / "encoder"), add_pooling_layer=False)
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / "out" / "encoder"))
    assert tokenizer.tokenize("[E1] the [/E1]")[0] == "[E1]"
    assert encoder.get_input_embeddings().num_embeddings == len(tokenizer)
    again, text = fedrel.load(tmp_path / "out"), "Ann was born in Bonn."
    first = fedrel.load(tmp_path / "model")
    spans = {"head": (0, 3), "tail": (16, 20)}
    assert again.predict(text, **spans).confidences == first.predict(text, **spans).confidences
    assert again.relations == saved.relations


def test_the_card_says_data_method_scores_and_what_left(fedrel, tmp_path):
    small = sets("data.size=600", "training.rounds=2", "partition.platforms=3", "data.path=/secret")
    assert fedrel("run", *small, "--out", tmp_path / "run").code == 0
    saved = load_model(tmp_path / "run")
    card = model_card(saved, tmp_path / "run", "onnx", 3e-7, 1_000)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert f"| {result['test']['ap']:.3f} |" in card
    assert "600 training sentences (format: world) of 3 platforms. Method: `evidence`, 2 rounds" in card
    left = [line.split(" | ")[0].removeprefix("| ") for line in card.splitlines() if re.search(r" [KM]?B \| ", line)]
    assert "the word-embedding rows that changed" in left and "a blinded key per fact, the same in every" in str(left)
    assert "/secret" not in card and str(tmp_path) not in card


def test_mistakes_are_sentences_and_leave_nothing(refused, tmp_path):
    saved_in(tmp_path / "model", "extractor.kind=pcnn")
    assert "one of transformers" in refused("export", tmp_path / "model", tmp_path / "out", "--to", "huggingface")
    assert 'did you mean "onnx"' in refused("export", tmp_path / "model", tmp_path / "out", "--to", "onx")
    assert "exists; choose a new folder" in refused("export", tmp_path / "model", tmp_path / "model", "--to", "onnx")
    assert "no model in this folder" in refused("export", tmp_path / "nowhere", tmp_path / "out", "--to", "onnx")


def test_without_the_packages_it_says_which(refused, tmp_path, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "onnx" else found(name, *rest))
    saved_in(tmp_path / "model", "extractor.kind=pcnn")
    assert 'pip install "fedrel[onnx]"' in refused("export", tmp_path / "model", tmp_path / "out", "--to", "onnx")


def test_extractors_without_such_a_form_are_refused(refused, tmp_path):
    saved_in(tmp_path / "model", "extractor.kind=text", "data.source=world")
    assert "pcnn, cnn and bert can" in refused("export", tmp_path / "model", tmp_path / "out", "--to", "onnx")
