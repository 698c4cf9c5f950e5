"""How many threads are worth it."""

import pytest

from fedrel import config
from fedrel.engines import concurrency
from fedrel.engines.concurrency import best, trial, useful_threads
from fedrel.experiment.assembly import workers_of
from fedrel.util.parallel import cores


@pytest.mark.parametrize(
    ("rates", "most", "expected"),
    [
        ({1: [100]}, 1, 1),
        ({1: [100], 2: [190]}, 2, 2),
        ({1: [100], 2: [97]}, 2, 2),  # a busy machine may not be busy for long
        ({1: [100], 2: [90]}, 2, 1),
        ({1: [100], 2: [190], 4: [370], 6: [500]}, 6, 6),
        ({1: [100], 2: [190], 4: [150], 8: [90]}, 8, 2),
        ({1: [100, 100, 100], 2: [50, 60, 180]}, 2, 2),  # something else was going on
    ],
)
def test_as_many_as_do_not_do_less(rates, most, expected):
    measured = {count: iter(found * 3) for count, found in rates.items()}
    assert best(lambda count: next(measured[count]), most) == expected


def test_a_trial_is_made_once(monkeypatch):
    asked = []
    monkeypatch.setattr(concurrency, "trial", lambda count: asked.append(count) or float(count))
    useful_threads.cache_clear()
    assert useful_threads() == useful_threads() == cores()
    assert len(asked) == 3 * len(set(asked))
    useful_threads.cache_clear()


def test_a_trial_does_something():
    assert trial(1) > 0
    assert trial(2) > 0


def test_a_number_that_is_given_stands(monkeypatch):
    monkeypatch.setattr("fedrel.experiment.assembly.useful_threads", lambda: 3)
    given = config.Engine(device="cpu", workers=7)
    assert workers_of(config.Experiment(engine=given)) == 7
    assert workers_of(config.Experiment(engine=config.Engine(device="cpu"))) == 3
