"""How relations stand out from sentences without one: sums that several platforms can add up."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedrel.learning.background import ENOUGH, Background

RELATIONS = 3
SCORES = arrays.arrays(
    np.float64, st.tuples(st.integers(0, 40), st.just(RELATIONS)), elements=st.floats(-50, 50, allow_nan=False)
)
OWN = st.lists(st.tuples(st.integers(1, RELATIONS - 1), st.floats(-50, 50, allow_nan=False)), max_size=20)


def sums(without, own):
    labels = torch.tensor([label for label, _ in own], dtype=torch.int64)
    z = torch.tensor([value for _, value in own], dtype=torch.float64)
    return Background.of(torch.from_numpy(without)).with_own(z, labels)


@given(st.lists(st.tuples(SCORES, OWN), min_size=1, max_size=4), st.lists(st.floats(-3, 3), min_size=3, max_size=3))
def test_parts_that_are_added_up_say_what_all_sentences_say(parts, before):
    before = torch.tensor(before, dtype=torch.float64)
    added = Background.of_nothing(RELATIONS)
    for part in parts:
        added += sums(*part)
    together = sums(np.concatenate([without for without, _ in parts]), [it for _, own in parts for it in own])
    torch.testing.assert_close(added.standing_out(), together.standing_out(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(added.bars(before), together.bars(before), rtol=1e-6, atol=1e-3)
    again = Background.of_named(added.named())
    assert torch.equal(again.bars(before), added.bars(before))


def test_bars_by_an_independent_computation():
    random = np.random.default_rng(1)
    without = random.normal(-3, 2, (50, RELATIONS))
    own = {1: random.normal(1, 1, 12), 2: random.normal(-2, 1, 30)}
    found = sums(without, [(label, value) for label, values in own.items() for value in values])
    mean, deviation = without.mean(0), without.std(0)
    stand = {label: (values - mean[label]) / deviation[label] for label, values in own.items()}
    np.testing.assert_allclose(found.standing_out(), [0, stand[1].mean(), stand[2].mean()], atol=1e-9)
    before = np.array([0, 1.5, 0.25])
    levels = np.concatenate([np.full(len(it), it.mean() + before[label]) for label, it in stand.items()])
    within = np.sqrt(np.mean(np.concatenate([(it - it.mean()) ** 2 for it in stand.values()])))
    level = levels.mean() + 1.25 * levels.std() - within / 2
    bars = mean + deviation * (level - before)
    np.testing.assert_allclose(
        found.bars(torch.from_numpy(before)), bars, atol=1e-5
    )  # relation 0 has no sentences, and a bar all the same


def test_where_relations_are_alike_most_sentences_pass_and_where_they_differ_those_of_the_weak_do_not():
    random = np.random.default_rng(2)
    without = random.normal(0, 1, (2000, RELATIONS))

    def passing(before, shift):
        own = {1: random.normal(2, 1, 500), 2: random.normal(2 - shift, 1, 500)}
        found = sums(without, [(label, value) for label, values in own.items() for value in values])
        bars = found.bars(torch.tensor(before, dtype=torch.float64)).numpy()
        return [float((own[label] >= bars[label]).mean()) for label in (1, 2)]

    alike, different = passing([0, 1.0, 1.0], 0), passing([0, 1.5, 0.2], 0.5)
    assert min(alike) > 0.6
    assert different[0] > 0.5 and different[1] < 0.1


@pytest.mark.parametrize("sentences", [0, ENOUGH - 1])
def test_few_sentences_say_nothing(sentences):
    few = sums(np.ones((sentences, RELATIONS)), [(1, 3.0)])
    assert (few.bars(torch.zeros(RELATIONS)) == -torch.inf).all() and not few.standing_out().any()
    assert not any(value.any() for value in few.if_enough().named().values())
    enough = sums(np.ones((ENOUGH, RELATIONS)), [(1, 3.0)])
    assert enough.if_enough() is enough
