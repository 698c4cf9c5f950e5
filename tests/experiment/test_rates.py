"""The learning rate that a run chooses where nobody gives one, and word vectors that come in any length."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedrel import config
from fedrel.config import Training
from fedrel.encoding.vectors import Pretrained, initial_table
from fedrel.encoding.vocabulary import of_words
from fedrel.errors import DivergedError
from fedrel.experiment.assembly import prepare
from fedrel.experiment.divergence import begin_again
from fedrel.experiment.execution import Execution
from fedrel.experiment.rates import with_rate

SMALL = ["data.size=600", "partition.platforms=3", "extractor.filters=8", "training.rounds=1"]


@pytest.mark.parametrize(
    ("settings", "sentences", "rate"),
    [
        ([], 1_067, 0.3),  # a hundred steps
        ([], 10_667, 0.03),
        ([], 10, 0.5),
        ([], 10**6, 0.01),
        (["training.epochs=1"], 3_200, 0.3),
        (["training.batch=320"], 10_667, 0.3),
        ([], None, 0.3),
        (["training.optimizer=adamw"], 50_000, 0.001),
        (["training.lr=0.7"], 50_000, 0.7),
        (["extractor.kind=text"], 50_000, 0.003),
        (["extractor.kind=bert"], 50_000, 5e-5),
    ],
)
def test_the_rate_follows_the_steps_of_a_platform_unless_one_is_given(settings, sentences, rate):
    chosen = with_rate(config.read(None, settings), sentences).training
    assert (chosen.lr, chosen.lr_auto) == (rate, False)


@pytest.mark.parametrize(
    ("fraction", "platforms", "rate"),
    [(1.0, 2, 0.3), (0.1, 20, 0.14), (0.1, None, 0.14), (0.1, 100, 0.24), (0.1, 1_000, 0.3), (0.5, 2, 0.11)],
)
def test_the_rate_is_smaller_where_few_platforms_are_active(fraction, platforms, rate):
    experiment = config.read(None, [f"training.fraction={fraction}"])
    assert with_rate(experiment, 1_067, platforms=platforms).training.lr == rate
    adamw = config.read(None, [f"training.fraction={fraction}", "training.optimizer=adamw"])
    assert with_rate(adamw, 1_067, platforms=platforms).training.lr == 0.001


@pytest.mark.parametrize(("fraction", "platforms", "rate"), [(0.1, 20, 0.16), (0.1, 100, 0.35), (0.1, 1_000, 0.5)])
def test_so_is_the_highest_rate(fraction, platforms, rate):
    experiment = config.read(None, [f"training.fraction={fraction}"])
    assert with_rate(experiment, 10, platforms=platforms).training.lr == rate


def test_a_training_section_made_in_code_has_the_rate_that_it_says():
    assert (Training().lr, Training().lr_auto) == (1.0, False)


def test_a_run_says_and_writes_down_what_it_chose(tmp_path):
    said = []
    setup = prepare(config.read(None, SMALL), say=said.append)
    # 600 sentences of the world and as many without a fact, on three platforms
    steps = 3 * np.median([len(rows) for rows in setup.sites.rows.values()]) / 32
    expected = float(f"{min(0.5, 30 / steps):.2g}")
    assert setup.experiment.training.lr == expected
    assert f"learning rate {expected:g}, for about {steps:,.0f} steps of a platform in a round" in " ".join(said)
    Execution(setup, tmp_path / "run").close()
    again = config.read(tmp_path / "run" / "experiment.toml")
    assert again == setup.experiment


def test_a_run_that_diverges_begins_again_below_the_rate_it_chose(tmp_path):
    experiment = config.read(None, SMALL)
    setup = prepare(experiment)
    Execution(setup, tmp_path / "run").close()
    lowered = begin_again(experiment, tmp_path / "run", DivergedError("it diverges"))
    assert lowered.training.lr == pytest.approx(0.3 * setup.experiment.training.lr)
    assert not lowered.training.lr_auto


def test_pretrained_vectors_of_any_length_start_alike():
    words = of_words(["a", "b", "c"])
    long = Pretrained(["a", "b"], np.array([[3.0, -4.0], [0.0, 5.0]], np.float32))
    short = replace(long, vectors=long.vectors / 100)
    tables = [initial_table(words, 2, given, seed=1, spread=0.2) for given in (long, short)]
    torch.testing.assert_close(*tables)
    known = tables[0][[words.numbers["a"], words.numbers["b"]]]
    assert float(known.square().mean().sqrt()) == pytest.approx(0.2)
    assert known[0].tolist() == pytest.approx([0.2 * 3 / 12.5**0.5, 0.2 * -4 / 12.5**0.5])
    as_they_come = initial_table(words, 2, long, seed=1)
    assert as_they_come[words.numbers["a"]].tolist() == [3.0, -4.0]
    torch.testing.assert_close(tables[0][words.numbers["c"]], as_they_come[words.numbers["c"]])
