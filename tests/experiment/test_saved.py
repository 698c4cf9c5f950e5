"""Models as folders: what is loaded is what was saved, to the last bit, or it is refused in one sentence."""

import json
import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

import fedrel
from fedrel.config import Data, Evaluation, Experiment, Extractor, Partition
from fedrel.encoding.words import WordEncoding
from fedrel.errors import UserError
from fedrel.evaluation.calibration import Calibration
from fedrel.experiment import saved as saved_module
from fedrel.experiment.assembly import Setup, prepare
from fedrel.experiment.saved import SavedModel, load_model, save_model
from fedrel.extraction.extract import RelationExtractor
from fedrel.version import installed_version

FILES = ("config.json", "vocabulary.txt", "weights.safetensors")
CALIBRATION = Calibration(1.7, -0.3, 0.2, 0.01)
SENTENCE = "Ann was born in Bonn."


@cache
def prepared(method="none", **extractor) -> Setup:
    settings = {"filters": 3, "min_count": 30, "word_dim": 4, "position_dim": 2, "reach": 8} | extractor
    return prepare(
        Experiment(
            data=Data(size=500),
            partition=Partition(platforms=2),
            extractor=Extractor(**settings),
            method={"name": method},
        )
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model"
    setup = prepared()
    save_model(path, setup, setup.weights, CALIBRATION)
    return path


def scores(model, weights, setup):
    model.load(weights, setup.dev)
    return model.score_bags(setup.dev).numpy()


def same(one: SavedModel, other: SavedModel) -> bool:
    return (
        one.weights.keys() == other.weights.keys()
        and all(value.equal(other.weights[name]) for name, value in one.weights.items())
        and one.model.state_dict().keys() == other.model.state_dict().keys()
        and (one.encoding, one.relations, one.extractor, one.calibration, one.version)
        == (other.encoding, other.relations, other.extractor, other.calibration, other.version)
    )


def refusal(path) -> str:
    with pytest.raises(UserError) as caught:
        load_model(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


# ---------------------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("method", ["none", "one", "ave", "att", "att-own", "att-ra"])
@pytest.mark.parametrize("extractor", [{"kind": "pcnn"}, {"kind": "cnn"}, {"embeddings": "frozen"}])
def test_what_is_loaded_scores_as_what_was_saved(tmp_path, method, extractor):
    setup = prepared(method, **extractor)
    save_model(tmp_path / "model", setup, setup.weights, CALIBRATION)
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(
        scores(loaded.model, loaded.weights, setup), scores(setup.model, setup.weights, setup)
    )
    assert type(loaded.model.denoiser) is type(setup.model.denoiser)
    assert (loaded.encoding, loaded.relations) == (setup.encoding, setup.dataset.relations)
    assert (loaded.calibration, loaded.extractor) == (CALIBRATION, setup.experiment.extractor)
    assert (loaded.version, loaded.note) == (installed_version(), "")
    first, second = (
        RelationExtractor(load_model(tmp_path / "model")).predict(SENTENCE, head=(0, 3), tail=(16, 20))
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("method", "bags"), [("none", "mean"), ("ave", "max"), ("att", "mean"), ("att-ra", "attention")]
)
def test_how_bags_are_scored_is_saved_with_the_model(tmp_path, method, bags):
    usual = prepared(method)
    setup = prepare(replace(usual.experiment, evaluation=Evaluation(bags)))
    save_model(tmp_path / "model", setup, setup.weights, CALIBRATION)
    loaded = load_model(tmp_path / "model")
    assert (loaded.model.bags, loaded.model.scored_by) == (bags, bags)
    found = scores(loaded.model, loaded.weights, setup)
    np.testing.assert_array_equal(found, scores(setup.model, setup.weights, setup))
    same = method == "att-ra"  # whose own way it is
    assert np.array_equal(found, scores(usual.model, usual.weights, usual)) == same


def test_attention_needs_a_method_that_has_one():
    with pytest.raises(UserError) as told:
        prepare(Experiment(method={"name": "one"}, evaluation=Evaluation("attention")))
    assert str(told.value) == (
        'evaluation.bags = "attention": method.name = "one" has no attention; set "max" or "mean", or another method'
    )


def test_attention_saved_with_queries_of_its_own_still_asks_them(tmp_path):
    """Models of before the rows of the classifier became the queries of `att` are described as `att`."""
    setup = replace(prepared("att-own"), denoiser="att")
    save_model(tmp_path / "model", setup, setup.weights, CALIBRATION)
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(
        scores(loaded.model, loaded.weights, setup), scores(setup.model, setup.weights, setup)
    )


def test_frozen_vectors_of_a_file_travel_with_the_model(tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("the 1 0 0 0\nin 0 1 0 0\nof 0 0 1 0\nwas 0 0 0 1\n")
    setup = prepared(vectors=str(vectors), spread=0.0, embeddings="frozen", min_count=1_000)
    save_model(tmp_path / "model", setup, setup.weights, Calibration())
    vectors.unlink()
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded.encoding, WordEncoding)
    assert {"the", "in", "of", "was"} <= set(loaded.encoding.vocabulary.words)
    assert loaded.weights["words"][loaded.encoding.vocabulary.numbers["in"]].tolist() == [0, 1, 0, 0]
    np.testing.assert_array_equal(
        scores(loaded.model, loaded.weights, setup), scores(setup.model, setup.weights, setup)
    )


def test_the_files_are_what_they_say_they_are(folder):
    assert {path.name for path in folder.iterdir()} == set(FILES)
    described = json.loads((folder / "config.json").read_text())
    assert set(described) == {
        *("format", "version", "extractor", "denoiser", "relations", "calibration", "sha256", "seal"),
        *("na", "pairs", "hidden_view", "bags"),
    }
    assert described["calibration"] == {
        "temperature": 1.7,
        "offset": -0.3,
        "ece_before": 0.2,
        "ece_after": 0.01,
        "most": 1.0,
    }
    assert described["relations"][0] == "NA"
    words = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    with safe_open(folder / "weights.safetensors", framework="pt") as file:
        assert file.get_tensor("weights/words").shape == (len(words), 4)


def test_a_model_is_replaced_whole(tmp_path):
    for method in ("none", "att"):
        setup = prepared(method)
        save_model(tmp_path, setup, setup.weights, Calibration())
        assert load_model(tmp_path).weights.keys() == {*setup.weights}
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)


# ----------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_changed_byte_is_refused_or_changes_nothing(folder, tmp_path_factory, name, data):
    content = (folder / name).read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.integers(1, 255)) ^ content[place]
    check_damaged(folder, tmp_path_factory, name, content[:place] + bytes([byte]) + content[place + 1 :])


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=30)
@given(data=st.data())
def test_a_file_cut_off_anywhere_is_refused(folder, tmp_path_factory, name, data):
    content = (folder / name).read_bytes()
    check_damaged(folder, tmp_path_factory, name, content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("more", [b"\0", b"\n", b" ", b"x", b"{}"])
def test_a_longer_file_is_refused_or_the_same(folder, tmp_path_factory, name, more):
    check_damaged(folder, tmp_path_factory, name, (folder / name).read_bytes() + more)


def check_damaged(folder, tmp_path_factory, name, content):
    copy = tmp_path_factory.mktemp("damaged") / "model"
    shutil.copytree(folder, copy)
    (copy / name).write_bytes(content)
    try:
        loaded = load_model(copy)
    except UserError as error:
        sentence = str(error)
        assert "\n" not in sentence
        # A format is told with the folder: the file itself may be in order.
        assert sentence.startswith((f"{copy / name}: ", f"{copy}: this model was saved by fedrel"))
    else:
        assert same(loaded, load_model(folder))
    finally:
        shutil.rmtree(copy.parent)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", "3", "null", '"x"', '{"format": 1}', "[" * 100_000, "\ufeff{}"]
)
def test_what_is_no_description_is_refused(folder, tmp_path, content):
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(content)
    path = tmp_path / "model" / "config.json"
    assert refusal(tmp_path) == f"{path}: damaged, or not the description of a model; copy the model again"


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it["relations"].reverse(),
        lambda it: it["calibration"].update(temperature=1.0),
        lambda it: it["extractor"].update(activation="relu"),
        lambda it: it.update(denoiser="ave"),
        lambda it: it.update(extra=1),
        lambda it: it.pop("seal"),
        lambda it: it.pop("sha256"),
    ],
)
def test_an_edited_description_is_refused(folder, tmp_path, change):
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))
    assert refusal(tmp_path / "model") == (
        f"{path}: this file was changed after the model was saved; take the model from its run again"
    )


def test_a_description_that_was_only_laid_out_anew_is_the_same(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert same(load_model(tmp_path), load_model(folder))


# --------------------------------------------------------------------------------------------- other versions


def test_another_format_says_so(tmp_path, monkeypatch):
    setup = prepared()
    monkeypatch.setattr(saved_module, "FORMAT", 7)
    save_model(tmp_path, setup, setup.weights, Calibration())
    monkeypatch.undo()
    assert refusal(tmp_path) == (
        f"{tmp_path}: this model was saved by fedrel {installed_version()} in format 7; fedrel {installed_version()} "
        "reads format 1: train it again, or install that version"
    )


def test_another_version_of_the_same_format_is_used_and_says_so(tmp_path, monkeypatch):
    setup = prepared()
    monkeypatch.setattr(saved_module, "installed_version", lambda: "0.0.7")
    save_model(tmp_path, setup, setup.weights, CALIBRATION)
    assert load_model(tmp_path).note == ""
    monkeypatch.undo()
    said = f"the model was saved by fedrel 0.0.7; this is {installed_version()}"
    assert load_model(tmp_path).note == said
    with pytest.warns(UserWarning, match=said) as caught:
        fedrel.load(tmp_path)
    assert caught[0].filename == __file__  # where a person called it


# --------------------------------------------------------------------------------------------- missing things


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    sentence = refusal(tmp_path)
    assert name in sentence
    assert sentence.startswith(str(tmp_path / "model"))
    assert "No such file or directory" in sentence


def test_what_is_no_model_is_refused(folder, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.toml").write_text("")
    assert refusal(tmp_path / "nowhere").endswith("no model in this folder (config.json: No such file or directory)")
    assert refusal(folder / "config.json").endswith("no model in this folder (config.json: Not a directory)")
    assert refusal(tmp_path / "run") == (
        f"{tmp_path / 'run'}: no model yet; go on with: fedrel run --resume {tmp_path / 'run'}"
    )


def test_a_folder_in_place_of_a_file_is_refused(folder, tmp_path):
    for name in FILES:
        copy = tmp_path / name
        shutil.copytree(folder, copy)
        (copy / name).unlink()
        (copy / name).mkdir()
        assert "Is a directory" in refusal(copy)


def test_a_run_and_its_model_folder_both_load(folder):
    assert same(load_model(folder), load_model(folder.parent))
    assert repr(fedrel.load(folder.parent)) == repr(fedrel.load(str(folder)))
