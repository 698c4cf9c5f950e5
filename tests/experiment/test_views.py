"""Runs in which names are hidden: what they choose, save and load, and that others are as they were."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from fedrel import config
from fedrel.encoding.words import WordEncoding
from fedrel.errors import UserError
from fedrel.experiment import views
from fedrel.experiment.assembly import prepare
from fedrel.experiment.saved import load_model
from fedrel.learning.model import BOTH_VIEWS, SHOWN
from tests.experiment.small_runs import SMALL, finished


def test_our_own_method_hides_names_and_published_ones_do_not():
    def share(*settings):
        return config.read(None, list(settings)).extractor.hide_names

    assert share() == share("method.name=evidence", "extractor.kind=cnn") == 0.3
    assert share("method.name=none") == share("method.name=lazy-mil") == share("extractor.hide_names=0") == 0.0
    assert share("extractor.kind=bert") == share("extractor.kind=minilm") == 0.0
    assert share("method.name=none", "extractor.hide_names=0.5") == 0.5


def test_an_extractor_that_cannot_hide_names_says_so(tmp_path):
    (tmp_path / "data").mkdir()
    for split, label in (("train", "good"), ("dev", "bad"), ("test", "good")):
        rows = [f"this was {word}\t{word}" for word in ("good", "bad") * 8] + [f"so {label}\t{label}"]
        (tmp_path / "data" / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    said: list[str] = []
    data = ["data.source=classification", f"data.path={tmp_path / 'data'}", "data.allow_overlap=true"]
    settings = [*data, "extractor.kind=text", "method.name=none"]
    prepare(config.read(None, settings), say=said.append)
    assert not any("hide_names" in line for line in said)
    prepare(config.read(None, [*settings, "extractor.hide_names=0.3"]), say=said.append)
    assert 'extractor.hide_names does nothing with extractor.kind = "text"' in said


def test_a_saved_model_scores_with_both_views_as_the_run_did(tmp_path, monkeypatch):
    monkeypatch.setattr(views, "_CLEARLY", 1.0)  # nothing is clear
    setup, result = finished(tmp_path / "run")
    assert result["hidden_view"] == BOTH_VIEWS
    saved = load_model(tmp_path / "run")
    assert saved.model.hidden_view == BOTH_VIEWS and isinstance(saved.encoding, WordEncoding)
    test = setup.dataset.test
    shard = saved.encoding.pack(test, *setup.evaluation.bags(test), saved.encoding.numbers(setup.dataset.words))
    saved.model.load(saved.weights, shard)
    scores = saved.model.score_bags(shard).numpy()
    assert setup.evaluation.metrics(scores, test)["ap"] == result["test"]["ap"]
    saved.model.hidden_view = SHOWN
    assert not np.allclose(saved.model.score_bags(shard).numpy(), scores)


def test_damaged_stand_ins_are_told_in_a_sentence(tmp_path):
    finished(tmp_path / "run")
    path = tmp_path / "run" / "model" / "stand_ins.txt"
    path.write_text(path.read_text().replace("1", "2", 1))
    with pytest.raises(UserError, match=r"stand_ins\.txt: damaged or changed"):
        load_model(tmp_path / "run")
    path.write_text("0\n1")
    with pytest.raises(UserError, match=r"stand_ins\.txt: not the stand-ins of these words"):
        WordEncoding.load(path.parent, config.Extractor(hide_names=0.3))
    path.write_text("\n".join(["-1", *path.read_text().split()]))
    with pytest.raises(UserError, match=r"stand_ins\.txt: not the stand-ins of these words"):
        WordEncoding.load(path.parent, config.Extractor(hide_names=0.3))


def test_names_that_are_not_hidden_leave_a_run_as_it_was(tmp_path):
    setup, result = finished(tmp_path / "run", "extractor.hide_names=0")
    assert result["hidden_view"] == SHOWN and not (tmp_path / "run" / "model" / "stand_ins.txt").exists()
    assert isinstance(setup.encoding, WordEncoding) and setup.encoding.stand_ins is None


class Dev:
    """Scores by view, of platforms that hold dev: they are asked when somebody wants to know, and then never again."""

    def __init__(self, setup, shown, both):
        self.setup, self.by_view, self.said = setup, {SHOWN: shown, BOTH_VIEWS: both}, None

    def __call__(self):
        return Dev(self.setup, self.by_view[SHOWN], self.by_view[BOTH_VIEWS])

    def metrics(self):
        self.said = self.said or {"ap": self.by_view[self.setup.model.hidden_view]}
        return self.said


@pytest.mark.parametrize(
    ("shown", "both", "chosen"), [(0.70, 0.72, BOTH_VIEWS), (0.749, 0.72, BOTH_VIEWS), (0.751, 0.72, SHOWN)]
)
def test_dev_must_clearly_prefer_names_shown_alone(shown, both, chosen):
    setup = prepare(config.read(None, SMALL))
    found = views.choose_view(setup, Dev(setup, shown, both))
    assert setup.model.hidden_view == chosen
    assert found.metrics() == {"ap": both if chosen == BOTH_VIEWS else shown}


def test_training_hides_names_and_repeats(tmp_path):
    weights = []
    for name, share in (("a", "0.3"), ("b", "0.3"), ("c", "0")):
        finished(tmp_path / name, f"extractor.hide_names={share}", "method.name=none")
        weights.append(load_model(tmp_path / name).weights["classifier.weight"])
    assert weights[0].equal(weights[1]) and not torch.allclose(weights[0], weights[2])


def test_names_are_shown_where_hardly_a_sentence_is_without_a_relation(tmp_path):
    world = [sys.executable, "-m", "fedrel.cli", "data", "world", "--out", tmp_path / "set", "--size", "600"]
    subprocess.run(world, check=True, stdout=subprocess.DEVNULL)
    train = tmp_path / "set" / "train.jsonl"

    def share(*settings):
        said = []
        given = ["data.source=opennre", f"data.path={tmp_path / 'set'}", *settings]
        setup = prepare(config.read(None, given), say=said.append)
        assert setup.experiment.extractor.hide_names == setup.model.hide_names
        assert not setup.experiment.extractor.hide_auto
        return setup.model.hide_names, any(line.startswith("names are shown in training") for line in said)

    assert share() == (0.3, False)
    lines = train.read_text(encoding="utf-8").splitlines()
    without = [line for line in lines if json.loads(line)["relation"] == "NA"]
    few = set(without[len(lines) // 20 :])
    train.write_text("\n".join(line for line in lines if line not in few) + "\n", encoding="utf-8")
    assert share() == (0.0, True)
    assert share("extractor.hide_names=0.2") == (0.2, False)
