"""Log-odds from logits: exact where a probability in any precision has long been 0 or 1."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.denoisers import label_log_odds, log_odds

rows = st.lists(st.floats(-60, 60, width=32), min_size=2, max_size=6)


def by_hand(logits):
    """With exact sums of the exponentials, so that nothing cancels."""
    terms = [Fraction(float(np.exp(np.float64(x)))) for x in logits]
    return [float(np.log(float(term / (sum(terms) - term)))) for term in terms]


@given(rows)
def test_every_class_against_all_others(logits):
    expected = by_hand(logits)
    found = log_odds(torch.tensor([logits], dtype=torch.float32))
    assert found.dtype == torch.float64
    assert found[0].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    labels = torch.arange(len(logits))
    own = label_log_odds(torch.tensor([logits] * len(logits), dtype=torch.float64), labels)
    assert own.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_sentences_that_share_a_probability_differ():
    logits = torch.tensor([[0.0, 20.0], [0.0, 25.0], [0.0, 90.0]])
    assert set(torch.softmax(logits, 1)[:, 1].tolist()) == {1.0}
    assert log_odds(logits)[:, 1].tolist() == [20.0, 25.0, 90.0]
    assert log_odds(logits)[:, 0].tolist() == pytest.approx([-20.0, -25.0, -90.0])


def test_two_classes_that_are_equally_likely():
    assert log_odds(torch.tensor([[3.0, 3.0]])).tolist() == [[0.0, 0.0]]


def test_nan_propagates():
    assert log_odds(torch.tensor([[torch.nan, 1.0]])).isnan().all()
    assert label_log_odds(torch.tensor([[torch.nan, 1.0]]), torch.tensor([1])).isnan().all()


def test_platforms_side_by_side_under_vmap():
    logits, labels = torch.randn(4, 5, 3), torch.randint(0, 3, (4, 5))
    mapped = torch.func.vmap(label_log_odds)(logits, labels)
    for one, other, label in zip(mapped, logits, labels, strict=True):
        torch.testing.assert_close(one, label_log_odds(other, label))
