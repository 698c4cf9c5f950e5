"""Of a model so sure that probabilities are 1 in 32 bits, a run still reports the ranking of its log-odds."""

import numpy as np
import pytest
import torch

from fedrel import config
from fedrel.experiment.assembly import prepare
from fedrel.learning.named import Named


@pytest.fixture(scope="module")
def sure():
    """A setup with weights whose classifier is 400 times as sure as a fresh one."""
    setup = prepare(config.read(None, ["data.size=600", "partition.platforms=3", "method.name=none"]))
    weights = Named(
        {name: value * 400 if name.startswith("classifier") else value for name, value in setup.weights.items()}
    )
    setup.model.load(weights, setup.dev)
    return setup


def by_hand(setup):
    """(P, R) log-odds of every pair by its best sentence, in double precision from the logits on."""
    logits = setup.model.classifier(setup.model.vectors(setup.dev)).detach().double().numpy()  # (S, R)
    odds = np.empty_like(logits)
    for r in range(logits.shape[1]):
        others = np.delete(logits, r, axis=1)
        top = others.max(axis=1, keepdims=True)
        odds[:, r] = logits[:, r] - top[:, 0] - np.log(np.exp(others - top).sum(axis=1))
    starts = setup.dev.bag_starts.numpy()
    return np.maximum.reduceat(odds, starts[:-1], axis=0)


def average_precision(scores, facts):
    """Of distinct scores, one candidate after another."""
    truth = {(pair, relation) for pair, relation in facts.tolist()}
    pairs, relations = scores.shape
    candidates = [(p, r) for p in range(pairs) for r in range(1, relations)]
    ranked = sorted(((scores[it], it in truth) for it in candidates), reverse=True)
    found, total = 0, 0.0
    for place, (_, right) in enumerate(ranked, 1):
        if right:
            found += 1
            total += found / place
    return total / len(truth)


def test_reported_ap_is_that_of_log_odds(sure):
    expected = by_hand(sure)
    scores = sure.model.score_bags(sure.dev).numpy()
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
    metrics = sure.evaluation.metrics(scores, sure.dataset.dev)
    assert metrics["ap"] == pytest.approx(average_precision(expected, sure.dataset.dev.facts), abs=1e-6)
    assert metrics["ties"] <= 0.01 * scores.size


def test_probabilities_would_not_have_told_them_apart(sure):
    logits = sure.model.classifier(sure.model.vectors(sure.dev))
    saturated = torch.softmax(logits, 1).max(1).values == 1.0
    assert saturated.float().mean() > 0.5
    z = sure.model.label_log_odds(sure.dev)
    assert len(torch.unique(z)) > 0.8 * len(z)  # some sentences are there twice
