"""Q: which wrong class an item is taken for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.feedback.transition import transition

shares = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 5e-324, 1e-300]))
tables = st.integers(2, 6).flatmap(
    lambda classes: st.lists(
        st.tuples(st.lists(shares, min_size=classes, max_size=classes), st.integers(0, classes - 1)), max_size=12
    ).map(lambda rows: (classes, rows))
)


def test_every_item_is_normalised_before_the_mean():
    found = transition(torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]), torch.tensor([0, 0]))
    torch.testing.assert_close(found[0], torch.tensor([0, 0.3681, 0.6319]), rtol=0, atol=5e-5)
    assert found[1:].tolist() == [[0.5, 0, 0.5], [0.5, 0.5, 0]]  # nothing known


def test_items_that_the_model_gets_right_do_not_count():
    right = torch.tensor([[0.6, 0.4, 0.0], [0.2, 0.5, 0.3]])
    found = transition(right, torch.tensor([0, 0]))
    torch.testing.assert_close(found[0], torch.tensor([0, 0.625, 0.375]))
    uniform = (1 - torch.eye(3)) / 2
    torch.testing.assert_close(transition(right[:1], torch.tensor([0])), uniform)
    torch.testing.assert_close(transition(right[:0], torch.tensor([], dtype=torch.long)), uniform)


def test_two_classes_leave_no_choice():
    p = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    assert transition(p, torch.tensor([1, 0, 1])).tolist() == [[0, 1], [1, 0]]


@given(tables, st.sampled_from([torch.float32, torch.float64]), st.booleans())
@settings(max_examples=200)
def test_rows_sum_to_1_and_the_diagonal_is_0(table, dtype, normalised):
    classes, rows = table
    p = torch.tensor([row for row, _ in rows], dtype=dtype).reshape(-1, classes)
    if normalised:
        p = torch.softmax(p * 1000, 1)  # among them probabilities of exactly 0 and 1
    q = transition(p, torch.tensor([label for _, label in rows], dtype=torch.long))
    assert q.shape == (classes, classes)
    assert not q.diagonal().any()
    assert ((q >= 0) & (q <= 1)).all()
    torch.testing.assert_close(q.sum(1), torch.ones(classes, dtype=dtype))


def test_one_class_is_refused():
    with pytest.raises(UserError, match="two classes"):
        transition(torch.ones(2, 1), torch.tensor([0, 0]))
