"""Scores of a model of real text, if it is at hand: FEDREL_REAL_DATA, or a folder `shared/data` beside the checkout."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from fedrel import config
from fedrel.experiment.assembly import prepare
from fedrel.experiment.execution import Execution
from fedrel.experiment.saved import load_model

DATA = Path(os.environ.get("FEDREL_REAL_DATA") or Path(__file__).parents[3] / "shared" / "data")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "wiki-ds").is_dir(), reason="needs wiki-ds: set FEDREL_REAL_DATA"),
]
SETTINGS = (
    *("data.source=opennre", f"data.path={DATA / 'wiki-ds'}", "partition.platforms=20", "training.fraction=0.1"),
    *("training.rounds=12", "method.name=none"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short run on Wikipedia with a tenth of 20 platforms a round: its folder, and what it was set up with."""
    folder = tmp_path_factory.mktemp("real") / "run"
    setup = prepare(config.read(None, list(SETTINGS)))
    execution = Execution(setup, folder)
    for _ in execution.rounds():
        pass
    execution.finish()
    return folder, setup


def candidates(folder, setup, split):
    """(pairs, relations but NA) log-odds in double precision from the logits on, by the best sentence of each pair; and
    whether each is a fact.
    """
    held, saved = getattr(setup.dataset, split), load_model(folder)
    shard = setup.shard_of(held)
    setup.model.load(saved.weights, shard)
    logits = setup.model.classifier(setup.model.vectors(shard)).detach().double().numpy()
    odds = np.empty_like(logits)
    for relation in range(logits.shape[1]):
        others = np.delete(logits, relation, axis=1)
        top = others.max(axis=1, keepdims=True)
        odds[:, relation] = logits[:, relation] - top[:, 0] - np.log(np.exp(others - top).sum(axis=1))
    scores = np.maximum.reduceat(odds, shard.bag_starts.numpy()[:-1], axis=0)
    facts = np.zeros(scores.shape, bool)
    facts[tuple(held.facts.T)] = True
    return scores[:, 1:], facts[:, 1:], saved.calibration


@pytest.mark.parametrize("split", ["dev", "test"])
def test_reported_ap_is_that_of_log_odds_in_double_precision(trained, split):
    scores, facts, _ = candidates(*trained, split)
    reported = json.loads((trained[0] / "result.json").read_text())[split]
    assert reported["ap"] == pytest.approx(average_precision_score(facts.reshape(-1), scores.reshape(-1)), abs=1e-6)
    assert reported["ap"] > 0.5, "it has learnt something"
    assert reported["facts"] == facts.sum()


def test_hardly_two_facts_share_a_confidence(trained):
    scores, _, calibration = candidates(*trained, "test")
    found = np.sort(calibration.log_odds(scores)[scores > 0].round(9))
    assert len(found) > 500
    shared = np.r_[False, found[1:] == found[:-1]] | np.r_[found[1:] == found[:-1], False]
    assert shared.mean() < 0.01


def test_what_is_held_at_a_confidence_is_right_as_often(trained):
    """Of each pair's best relation, on test, whose pairs dev has not."""
    scores, facts, calibration = candidates(*trained, "test")
    best = scores.argmax(axis=1)
    pairs = np.arange(len(best))
    confidence, right = calibration.confidence(scores[pairs, best]), facts[pairs, best]
    for least in (0.5, 0.9):
        held = confidence >= least
        assert held.sum() > 100
        assert right[held].mean() > confidence[held].mean() - 0.05
