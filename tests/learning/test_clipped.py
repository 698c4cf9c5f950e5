"""Gradients of single sentences, clipped: the compiled ones against autograd, and none longer than it may be."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from fedrel.config import Training
from fedrel.errors import DivergedError
from fedrel.kernels import jit
from fedrel.learning.clipped import clipped_gradients
from fedrel.learning.compiled_step import compiled_step_of
from fedrel.learning.named import apply_patch
from tests.helpers import random_split, shard_of
from tests.learning.test_compiled_step import EXACT, SIZES, loaded


def by_autograd(model, shard, chosen, clip, dropout):
    """The sum of the clipped gradients, from one backward pass a sentence through the whole batch."""
    model.train()
    total = {}
    for place in range(len(chosen)):
        model.draw_from(7, dropout)
        batch = shard.sentences(chosen)
        model.loss(
            batch, lambda out, at=place: F.cross_entropy(out.logits[at : at + 1], out.labels[at : at + 1])
        ).backward()
        grads = {name: value.grad.clone() for name, value in model.trained_parameters()}
        for value in model.parameters():
            value.grad = None
        grads["words"] = model.encoder.words.gradient()
        length = sum(float(grad.double().square().sum()) for grad in grads.values()) ** 0.5
        for name, grad in grads.items():
            total[name] = total.get(name, 0) + grad.double() * min(1, clip / max(length, 1e-300))
    return total


@settings(max_examples=40, deadline=None)
@given(
    sentences=st.integers(1, 12),
    longest=st.integers(3, 40),
    dropout=st.sampled_from([0.0, 0.3, 0.9]),
    clip=st.sampled_from([1e-3, 0.3, 3.0, 1e6]),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    **SIZES,
)
def test_compiled_sums_are_autograds(sentences, longest, dropout, clip, dtype, seed, window, relations, **of_model):
    split = random_split(sentences + 5, seed=seed, longest=longest, relations=relations)
    shard = shard_of(split, gap=window // 2)
    model, _ = loaded(shard, dtype, seed=seed % 100, window=window, relations=relations, **of_model)
    chosen = torch.randperm(len(shard), generator=torch.Generator().manual_seed(seed))[:sentences]
    expected = by_autograd(model, shard, chosen, clip, dropout)
    compiled = compiled_step_of(model, shard, None, at_once=sentences)
    sums = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in model.trained_parameters()}
    rows = torch.zeros_like(model.encoder.words.rows, dtype=torch.float64)
    model.draw_from(7, dropout)
    compiled.clipped(chosen, clip, sums, rows)
    for name, value in expected.items():
        torch.testing.assert_close(rows if name == "words" else sums[name], value, rtol=0, atol=EXACT[dtype])


def descent(shard, clip, seed, *, dtype=torch.float32, scale=1.0, relations=4):
    """The whole weights, less the sum of clipped gradients."""
    model, weights = loaded(shard, dtype, relations=relations)
    weights = scale * weights
    model.load(weights, shard)
    _, _, less = clipped_gradients(model, shard, torch.arange(len(shard)), clip, seed, Training(dropout=0.5))
    before = type(less)({name: value.double() for name, value in weights.items()})
    return before - apply_patch(before, less)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**16), st.sampled_from([1e-2, 1.0, 30.0]), st.sampled_from([0.1, 1.0, 100.0]))
def test_no_sentence_counts_for_more_than_the_clip(seed, clip, scale):
    """Whatever the gradients: of one sentence the sum is at most that long, of several at most so many times."""
    for count in (1, 7):
        shard = shard_of(random_split(count, seed=seed, longest=30, relations=4))
        change = descent(shard, clip, seed, scale=scale)
        length = sum(float(value.square().sum()) for value in change.values()) ** 0.5
        assert length <= count * clip * (1 + 1e-3)


@pytest.mark.parametrize("clip", [0.05, 1e6])
def test_it_is_the_same_without_compiled_loops(clip, monkeypatch):
    shard = shard_of(random_split(9, seed=4, longest=20, relations=4))
    training = Training(dropout=0.0)

    def learnt():
        model, _ = loaded(shard, relations=4)
        return clipped_gradients(model, shard, torch.arange(len(shard)), clip, 1, training)

    loss, _, ours = learnt()
    monkeypatch.setattr(jit, "usable", lambda device: False)
    other_loss, _, plain = learnt()
    assert loss == pytest.approx(other_loss, abs=1e-12)
    assert ours.keys() == plain.keys()
    for name, value in plain.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=1e-11)


def test_of_one_sentence_it_is_the_plain_gradient():
    shard = shard_of(random_split(1, seed=2, longest=12, relations=4))
    model, _ = loaded(shard, relations=4)
    model.eval()
    expected = by_autograd(model, shard, torch.arange(1), 1e9, 0.0)
    loss, sentences, less = clipped_gradients(model, shard, torch.arange(1), 1e9, 0, Training(dropout=0.0))
    assert sentences.tolist() == [0]
    assert loss > 0
    for name, value in model.trained_parameters():
        torch.testing.assert_close(value.detach() - less[name], expected[name], rtol=0, atol=1e-11)


def test_what_is_no_number_is_told():
    shard = shard_of(random_split(3, seed=2, longest=12, relations=4))
    with pytest.raises(DivergedError, match="gradients are not numbers"):
        descent(shard, 1.0, 0, scale=float("nan"))
