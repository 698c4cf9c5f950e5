"""The compiled convolution against the one made of matrix products."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.config import Training
from fedrel.encoding import packed
from fedrel.kernels import jit
from fedrel.learning.fit import fit
from tests.helpers import random_split, shard_of, small_model


def outcome(kind, window, sentences, seed, longest):
    """Maxima of random sentences and the gradients of everything that made them."""
    shard = shard_of(random_split(sentences, seed=seed, longest=longest), gap=window // 2)
    model, weights = small_model(dtype=torch.float64, kind=kind, window=window, seed=seed + 1)
    model.load(weights, shard)
    encoder = model.encoder
    with torch.no_grad():
        encoder.convolution.bias.normal_(generator=torch.Generator().manual_seed(seed))
    vectors = encoder.encode(shard.sentences(torch.arange(sentences)))
    weighted = torch.linspace(-1, 1, vectors.numel(), dtype=torch.float64).view_as(vectors)
    weighted = weighted * (torch.arange(vectors.numel()).view_as(vectors) % 3 > 0)  # dropout leaves zeros
    (vectors * weighted).sum().backward()
    parameters = (encoder.convolution.weight, encoder.convolution.bias, encoder.head_position, encoder.tail_position)
    grads = [parameter.grad.clone() for parameter in parameters]
    encoder.words.step(0.1, 0.01)
    return [vectors.detach(), *grads, encoder.words.values(torch.arange(len(shard.vocabulary)))]


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["pcnn", "cnn"]),
    window=st.sampled_from([1, 3, 5]),
    sentences=st.integers(1, 30),
    seed=st.integers(0, 2**16),
    longest=st.integers(3, 40),
)
def test_compiled_equals_matrix_products(kind, window, sentences, seed, longest):
    fast = outcome(kind, window, sentences, seed, longest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "AVAILABLE", False)
        patch.setattr(packed, "AVAILABLE", False)
        slow = outcome(kind, window, sentences, seed, longest)
    for ours, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(ours, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("denoiser", ["none", "one", "att"])
def test_a_whole_training_is_the_same_without_numba(denoiser, monkeypatch):
    def trained():
        shard = shard_of(random_split(40, seed=3))
        model, weights = small_model(dtype=torch.float64, denoiser=denoiser)
        model.load(weights, shard)
        fitted = fit(model, shard, Training(epochs=2, batch=7, dropout=0.3), lr=0.3, seed=5)
        return model.trained(shard, fitted.sentences)

    fast = trained()
    monkeypatch.setattr(jit, "AVAILABLE", False)
    monkeypatch.setattr(packed, "AVAILABLE", False)
    slow = trained()
    for name in fast:
        torch.testing.assert_close(fast[name], slow[name], rtol=0, atol=1e-10)


def test_nan_propagates():
    shard = shard_of(random_split(10, seed=3))
    model, weights = small_model()
    weights["encoder.convolution.weight"][0, 0] = float("nan")
    model.load(weights, shard)
    assert model.encoder.encode(shard.sentences(torch.arange(10))).isnan().any()
