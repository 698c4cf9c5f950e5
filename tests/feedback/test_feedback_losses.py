"""Losses on judged predictions: the paper's formulas in numbers, their limits, and that they stay finite."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from fedrel.feedback.losses import complementary, cross_entropy, log_p, nce, rce, robust, robust_complementary, schedule

Z = torch.tensor([[2.0, 1.0, 0.0]])
FIRST = torch.tensor([0])
SWAP = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # Q of two classes
LOSSES = (
    cross_entropy,
    lambda z, y: nce(log_p(z), y),
    lambda z, y: rce(log_p(z).exp(), y),
    robust,
    lambda z, y: complementary(z, y, uniform(z.shape[1])),
    lambda z, y: robust_complementary(z, y, uniform(z.shape[1])),
    lambda z, y: complementary(z, y, torch.eye(z.shape[1]).roll(1, 0)),
    lambda z, y: robust_complementary(z, y, torch.eye(z.shape[1]).roll(1, 0)),
)
some_logits = st.integers(2, 6).flatmap(
    lambda classes: st.lists(
        st.lists(st.floats(-1e4, 1e4, width=32), min_size=classes, max_size=classes), min_size=1, max_size=4
    )
)


def uniform(classes):
    return (1 - torch.eye(classes)) / (classes - 1)


def close(found, expected, digits=5e-5):
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=digits)


def test_the_numbers_of_the_formulas():
    close(torch.softmax(Z, 1)[0], [0.6652, 0.2447, 0.0900])
    close(cross_entropy(Z, FIRST), [0.4076])
    close(nce(log_p(Z), FIRST), [0.0965])
    close(rce(log_p(Z).exp(), FIRST), [1.3390])
    close(robust(Z, FIRST), [2.7746])
    close(rce(log_p(Z).exp(), FIRST, a=-1.0), [1 - 0.6652])


def test_the_complementary_loss_of_three_classes():
    q = torch.tensor([[0.0, 0.3, 0.7], [0.6, 0.0, 0.4], [0.5, 0.5, 0.0]])
    f = torch.softmax(Z, 1)[0]
    others = [f[1] * 0.6 + f[2] * 0.5, f[0] * 0.3 + f[2] * 0.5, f[0] * 0.7 + f[1] * 0.4]
    assert sum(others).item() == pytest.approx(1)
    for wrong in range(3):
        given_ = torch.tensor([wrong])
        close(complementary(Z, given_, q), [-math.log(others[wrong])], 1e-6)
        expected = math.log(others[wrong]) / sum(map(math.log, others)) + 2 * 4 * (1 - others[wrong].item())
        close(robust_complementary(Z, given_, q), [expected], 1e-5)


def test_one_loss_for_every_item():
    z, y = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 1, 0])
    for loss in LOSSES:
        assert loss(z, y).shape == (5,)
        torch.testing.assert_close(loss(z, y)[3:4], loss(z[3:4], y[3:4]))
        assert loss(z[:0], y[:0]).shape == (0,)
    torch.testing.assert_close(cross_entropy(z, y).mean(), F.cross_entropy(z, y))


@given(st.lists(st.tuples(*[st.floats(-30, 30, width=32)] * 2), min_size=1, max_size=5))
def test_with_two_classes_a_wrong_prediction_is_a_label_of_the_other(rows):
    z = torch.tensor(rows, dtype=torch.float64)
    for wrong in (0, 1):
        given_, other = torch.full((len(rows),), wrong), torch.full((len(rows),), 1 - wrong)
        floor = 1e-30
        torch.testing.assert_close(complementary(z, given_, SWAP, floor=floor), cross_entropy(z, other))
        torch.testing.assert_close(robust_complementary(z, given_, SWAP, floor=floor), robust(z, other))
        stopped = cross_entropy(z, other).clamp(max=-math.log(1e-7))
        torch.testing.assert_close(complementary(z, given_, SWAP), stopped)


@given(some_logits, st.randoms(use_true_random=False), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
@settings(max_examples=150)
def test_losses_and_gradients_are_finite(rows, random, dtype):
    z = torch.tensor(rows, dtype=dtype, requires_grad=True)
    y = torch.tensor([random.randrange(z.shape[1]) for _ in rows])
    for loss in LOSSES:
        found = loss(z, y)
        assert found.isfinite().all()
        assert (found >= 0).all()
        (gradient,) = torch.autograd.grad(found.sum(), z)
        assert gradient.isfinite().all()
    assert (nce(log_p(z), y) <= 1).all()


def test_a_class_that_is_never_predicted_wrongly_teaches_nothing():
    """Its column of Q is 0, whatever the model thinks: a constant loss instead of an endless one."""
    q = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    z = Z.clone().requires_grad_()
    loss = complementary(z, torch.tensor([2]), q)
    close(loss.detach(), [-math.log(1e-7)], 1e-4)
    (gradient,) = torch.autograd.grad(loss.sum(), z)
    assert not gradient.any()


def test_a_wrong_prediction_moves_weight_to_what_it_is_confused_with():
    q = torch.tensor([[0.0, 0.9, 0.1], [0.9, 0.0, 0.1], [0.1, 0.9, 0.0]])
    z = torch.zeros(1, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(complementary(z, FIRST, q).sum(), z)
    assert gradient[0, 1] < 0 < gradient[0, 0]  # 0 was wrong; what is often taken for 0 is 1


def test_the_schedule_begins_with_labels_alone():
    assert schedule(0.9, 0) == 0
    assert schedule(0.9, 1) == pytest.approx(0.1)
    assert schedule(0.9, 2) == pytest.approx(0.19)
    assert [schedule(0.5, t) for t in range(4)] == [0, 0.5, 0.75, 0.875]
