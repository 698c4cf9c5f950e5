"""What relations score on sentences without one: sums that several platforms can add up."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedrel.learning.background import ENOUGH, Background

SCORES = arrays.arrays(
    np.float64, st.tuples(st.integers(0, 40), st.just(3)), elements=st.floats(-50, 50, allow_nan=False)
)


@given(st.lists(SCORES, min_size=1, max_size=4), st.floats(0, 5))
def test_the_bar_is_that_of_all_sentences_together(parts, deviations):
    together = np.concatenate(parts)
    summed = sum((Background.of(torch.from_numpy(part)) for part in parts), Background.of_nothing(3))
    bar = summed.bar(deviations).numpy()
    if len(together) < ENOUGH:
        assert (bar == -np.inf).all()
    else:
        deviation = np.maximum(together.std(0), 1e-3)
        np.testing.assert_allclose(bar, together.mean(0) + deviations * deviation, rtol=0, atol=1e-4)


def test_few_sentences_say_nothing():
    few = Background.of(torch.ones(ENOUGH - 1, 2, dtype=torch.float64)).if_enough()
    assert few.sentences == 0 and not few.total.any() and not few.squares.any()
    enough = Background.of(torch.ones(ENOUGH, 2, dtype=torch.float64))
    assert enough.if_enough() is enough
