"""Tasks that pause where they train, so that their trainings can be done as one."""

import threading
from dataclasses import replace

import pytest
import torch

from fedrel.config import Training
from fedrel.engines.rendezvous import meet
from fedrel.errors import DivergedError
from fedrel.learning.fit import Fitted, fit, rendezvous
from tests.helpers import random_split, shard_of, small_model

SHARD = shard_of(random_split(12))
MODEL, WEIGHTS = small_model()
NOTHING = torch.zeros(0, dtype=torch.int64)


def train(seed):
    return fit(MODEL, SHARD, Training(epochs=1), lr=0.1, seed=seed)


def fitted(work):
    return Fitted(steps=work.seed, loss=0.0, sentences=NOTHING)


def test_all_trainings_of_a_step_meet_and_each_task_gets_its_own():
    met = []

    def together(works):
        met.append([work.seed for work in works])
        return [fitted(work) for work in works]

    def twice(first, second):
        return [train(first).steps, train(second).steps]

    tasks = [lambda: twice(1, 2), lambda: "no training", lambda: [train(3).steps], lambda: twice(4, 5)]
    assert meet(tasks, together) == [[1, 2], "no training", [3], [4, 5]]
    assert met == [[1, 3, 4], [2, 5]]


def test_only_one_task_runs_at_a_time_and_in_order():
    seen = []

    def task(number):
        seen.append(("begins", number))
        train(number)
        seen.append(("ends", number))

    meet([lambda n=n: task(n) for n in range(1, 4)], lambda works: [fitted(work) for work in works])
    assert seen == [(what, number) for what in ("begins", "ends") for number in (1, 2, 3)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_that_fails_calls_the_others_off(when):
    ended = []

    def fails():
        if when == "before":
            raise ValueError("so it goes")
        train(1)
        raise ValueError("so it goes")

    def waits():
        train(2)
        train(3)
        ended.append(True)

    before = threading.active_count()
    with pytest.raises(ValueError, match="so it goes"):
        meet([waits, fails, waits], lambda works: [fitted(work) for work in works])
    assert not ended
    assert threading.active_count() == before


def test_a_training_that_diverges_fails_in_its_own_task():
    def together(works):
        return [DivergedError("lost") if work.seed == 2 else fitted(work) for work in works]

    def catches():
        try:
            return train(2)
        except DivergedError as error:
            return str(error)

    assert meet([lambda: train(1).steps, catches], together) == [1, "lost"]


def test_a_trainer_that_fails_fails_for_all():
    def broken(works):
        raise RuntimeError("no memory")

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="no memory"):
        meet([lambda: train(1), lambda: train(2)], broken)
    assert threading.active_count() == before


def test_outside_of_a_meeting_training_happens_at_once():
    assert rendezvous.get() is None
    MODEL.load(WEIGHTS, SHARD)
    assert fit(MODEL, SHARD, replace(Training(), epochs=1, batch=4), lr=0.1, seed=1).steps == 3
