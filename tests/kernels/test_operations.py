"""Each compiled operation against the same thing in numpy or torch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from fedrel.kernels.activations import SLOPES, activate, activate_backward
from fedrel.kernels.classifier import classify
from fedrel.kernels.descent import descend
from fedrel.kernels.embedding import add_rows, distinct, take_rows
from fedrel.kernels.layout import aligned, pad, stride, unpad
from fedrel.kernels.matmul import multiply
from fedrel.kernels.row_maxima import maxima_of_sums
from fedrel.kernels.row_sums import gather_rows, scatter_rows
from fedrel.kernels.windows import windows, windows_backward, windows_of

SIZES = st.integers(1, 40)
SEEDS = st.integers(0, 2**16)
PRECISE = {np.float64: 1e-12, np.float32: 2e-5}
either_kind = pytest.mark.parametrize("kind", PRECISE)
few = settings(max_examples=25, deadline=None)


def normal(draw, *shape, kind=np.float64):
    """Random numbers in aligned memory."""
    found = aligned(int(np.prod(shape[:-1])), shape[-1], np.empty(0, kind))
    found[:] = draw.standard_normal(found.shape)
    return found.reshape(shape)


def close(ours, theirs, kind=np.float64):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=PRECISE[kind])


@pytest.mark.parametrize(("width", "padded"), [(1, 16), (16, 16), (17, 32), (60, 64)])
def test_rows_are_padded_to_cache_lines(width, padded):
    assert stride(width) == padded
    rows = np.arange(3.0 * 2 * width).reshape(3, 2 * width)
    whole = aligned(3, 2 * padded, rows)
    assert whole.ctypes.data % 64 == 0
    whole[:] = np.nan
    pad(rows, whole, padded)
    assert not whole.reshape(3, 2, padded)[:, :, width:].any()
    back = np.empty_like(rows)
    unpad(whole, back, padded)
    assert (back == rows).all()


@either_kind
@few
@given(m=SIZES, k=SIZES, n=st.sampled_from([16, 48, 64, 80]), turned=st.booleans(), seed=SEEDS)
def test_products(kind, m, k, n, turned, seed):
    draw = np.random.default_rng(seed)
    left = draw.standard_normal((k, m) if turned else (m, k)).astype(kind)
    left = left.T if turned else left
    right, product = normal(draw, k + 1, n, kind=kind), normal(draw, m, n, kind=kind)
    multiply(left, right, product)
    close(product, left @ right[:k], kind)


@either_kind
@few
@given(count=SIZES, reach=st.sampled_from([16, 192, 208]), seed=SEEDS)
def test_rows_gathered_and_scattered(kind, count, reach, seed):
    """Scattering is gathering, transposed."""
    draw = np.random.default_rng(seed)
    flat, sizes = normal(draw, 1, 40 * 16, kind=kind)[0], draw.standard_normal(count).astype(kind)
    starts = (draw.integers(0, 40 - reach // 16 + 1, count) * 16).astype(np.int32)
    to = normal(draw, 1, reach, kind=kind)[0]
    expected = to + sum(size * flat[start : start + reach] for size, start in zip(sizes, starts, strict=True))
    gather_rows(flat, starts, sizes, to)
    close(to, expected, kind)
    target = np.zeros_like(flat)
    places = draw.permutation(starts)
    expected = target.copy()
    for place, start, size in zip(places, starts, sizes, strict=True):
        expected[place : place + reach] += size * flat[start : start + reach]
    scatter_rows(target, places, flat, starts, sizes, reach)
    close(target, expected, kind)


@either_kind
@few
@given(tokens=SIZES, each=st.integers(1, 6), n=st.sampled_from([16, 80, 96]), seed=SEEDS)
def test_maxima_of_sums_and_their_places(kind, tokens, each, n, seed):
    draw = np.random.default_rng(seed)
    table = normal(draw, 12, n, kind=kind)
    table[:] = np.round(table)  # so that many tie
    rows = draw.integers(0, 12, (tokens, each))
    first = int(draw.integers(tokens))
    best, place = np.empty(n, kind), np.empty(n, np.int32)
    maxima_of_sums(table, (rows * n).astype(np.int32), first, tokens - first, best, place)
    features = table[rows].sum(1)[first:]
    assert (best == features.max(0)).all()
    assert (place == features.argmax(0) + first).all(), "the first of several"


def test_a_maximum_over_nan_is_nan():
    table = np.zeros((3, 16))
    table[1, 4] = np.nan
    best, place = np.empty(16), np.empty(16, np.int32)
    maxima_of_sums(table, np.array([[0], [16], [32]], np.int32), 0, 2, best, place)
    assert np.isnan(best[4]) and place[4] == 1
    assert not np.isnan(np.delete(best, 4)).any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("activation", SLOPES)
def test_activations_and_their_slopes(activation, dtype):
    values = torch.cat([torch.linspace(-20, 20, 4001, dtype=dtype), torch.tensor([0.0, torch.nan], dtype=dtype)])
    leaf = values.clone().requires_grad_()
    expected = activation(leaf)
    expected[:-1].sum().backward()
    ours = values.clone()
    activate(ours.numpy(), activation is torch.tanh)
    torch.testing.assert_close(ours, expected.detach(), rtol=0, atol=5e-7, equal_nan=True)
    grad, scales = torch.ones_like(ours), torch.full_like(ours, 2)
    activate_backward(grad.numpy(), ours.numpy(), scales.numpy(), activation is torch.tanh)
    torch.testing.assert_close(grad[:-1] / 2, leaf.grad[:-1], rtol=0, atol=2e-6)
    torch.testing.assert_close(SLOPES[activation](ours[:-1]), leaf.grad[:-1], rtol=0, atol=2e-6)


@either_kind
@few
@given(sentences=SIZES, classes=st.integers(1, 20), with_bias=st.booleans(), seed=SEEDS)
def test_the_classifier_and_its_gradients(kind, sentences, classes, with_bias, seed):
    draw, hidden = np.random.default_rng(seed), 48
    pooled, weight = normal(draw, sentences, hidden, kind=kind), normal(draw, classes, hidden, kind=kind)
    scales = normal(draw, sentences, hidden, kind=kind)
    scales[:] = np.where(scales > 0, 2, 0)
    bias = draw.standard_normal(classes if with_bias else 0).astype(kind)
    labels = draw.integers(0, classes, sentences)
    to_weight, to_bias, to_seen = np.empty_like(weight), np.empty_like(bias), normal(draw, sentences, hidden, kind=kind)
    loss = classify(pooled, scales, weight, bias, labels, to_weight, to_bias, to_seen)
    seen, leaf, offset = (torch.tensor(it, requires_grad=True) for it in (pooled * scales, weight, bias))
    logits = seen @ leaf.T + (offset if with_bias else 0)
    expected = F.cross_entropy(logits, torch.from_numpy(labels))
    expected.backward()
    close(loss, expected.item(), kind)
    close(to_seen, seen.grad, kind)
    close(to_weight, leaf.grad, kind)
    if with_bias:
        close(to_bias, offset.grad, kind)


def test_gradient_descent_with_weight_decay():
    draw = torch.Generator().manual_seed(3)
    weights, grads = ([torch.randn(n, generator=draw, dtype=torch.float64) for n in (5, 1, 30)] for _ in range(2))
    expected = [0.9 * weight - 0.2 * grad for weight, grad in zip(weights, grads, strict=True)]
    descend(weights, grads, shrink=0.9, lr=0.2)
    for ours, theirs in zip(weights, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-15)
    descend([], [], shrink=0.9, lr=0.2)


def test_rows_of_a_word_table_are_taken_and_added_to():
    table = torch.arange(20.0, dtype=torch.float64).view(5, 4)
    table[0] = 0
    found, places = distinct(torch.tensor([3, 1, 3, 0]), 5)
    assert (found.tolist(), places.tolist()) == ([3, 1, 0], [0, 1, 0, 2])
    vectors = np.full((3, 16), np.nan)
    take_rows(table.numpy(), found.numpy(), 0.5, vectors)
    assert (vectors[:, :4] == 0.5 * table[found].numpy()).all() and not vectors[:, 4:].any()
    expected = table.clone().index_add(0, torch.tensor([3, 1, 3]), 2 * torch.ones(3, 4, dtype=torch.float64))
    add_rows(table, torch.tensor([3, 1, 3, 0]), torch.ones(4, 4, dtype=torch.float64), 2.0)
    assert table.equal(expected), "row 0, padding, stays zero"


@pytest.mark.parametrize("window", [1, 3, 5])
def test_windows_and_their_gradient(window):
    rows = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda it: windows(it, window), rows)
    stacked = torch.randn(2, 6, 3, dtype=torch.float64)
    half = window // 2
    seen = windows_of(F.pad(stacked, (0, 0, half, half)), window)
    back = windows_backward(seen, window)
    for one, its_windows, its_back in zip(stacked, seen, back, strict=True):
        leaf = one.clone().requires_grad_()
        found = windows(leaf, window)
        assert its_windows.equal(found)
        (grad,) = torch.autograd.grad(found, leaf, found.detach())
        assert its_back.equal(grad)
