"""The compiled step against autograd: gradients, and whole trainings with either."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.config import Training
from fedrel.kernels import jit
from fedrel.learning import fit as fitting
from fedrel.learning.compiled_step import CompiledStep, compiled_step_of
from fedrel.learning.fit import fit
from fedrel.learning.losses import Output, cross_entropy
from fedrel.learning.named import Named
from fedrel.learning.proximal import Pull
from tests.helpers import random_split, shard_of, small_model

EXACT = {torch.float64: 1e-11, torch.float32: 1e-4}

SIZES = {
    "kind": st.sampled_from(["pcnn", "cnn", "text"]),
    "window": st.sampled_from([1, 3, 5]),
    "filters": st.sampled_from([1, 6, 17, 40]),
    "activation": st.sampled_from(["tanh", "relu"]),
    "bias": st.booleans(),
    "relations": st.integers(2, 9),
    "seed": st.integers(0, 2**16),
}


def loaded(shard, dtype=torch.float64, **of_model):
    model, weights = small_model(dtype=dtype, **of_model)
    draw = torch.Generator().manual_seed(3)
    for name, value in weights.items():  # biases that begin as zeros would hide what is wrong with them
        if name.endswith("bias"):
            value.normal_(generator=draw)
    model.load(weights, shard)
    return model, weights


def gradients(model, shard, sentences, backward, dropout):
    model.train()
    model.draw_from(7, dropout)
    loss = backward(sentences)
    found = {name: value.grad.clone() for name, value in model.trained_parameters()}
    for value in model.parameters():
        value.grad = None
    return found | {"words": model.encoder.words.gradient(), "loss": loss.detach()}


@settings(max_examples=60, deadline=None)
@given(
    sentences=st.integers(1, 20),
    longest=st.integers(3, 40),
    dropout=st.sampled_from([0.0, 0.3, 0.9]),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    **SIZES,
)
def test_every_gradient_is_autograds(sentences, longest, dropout, dtype, seed, window, relations, **of_model):
    split = random_split(sentences + 5, seed=seed, longest=longest, relations=relations)
    shard = shard_of(split, gap=window // 2)  # many a piece is empty: entities stand at either end
    model, _ = loaded(shard, dtype, seed=seed % 100, window=window, relations=relations, **of_model)
    chosen = torch.randperm(len(shard), generator=torch.Generator().manual_seed(seed))[:sentences]
    compiled = compiled_step_of(model, shard, None, at_once=sentences)
    assert compiled is not None

    def autograd(units):
        loss = model.loss(shard.sentences(units))
        loss.backward()
        return loss

    expected = gradients(model, shard, chosen, autograd, dropout)
    ours = gradients(model, shard, chosen, compiled, dropout)
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        assert ours[name].dtype == value.dtype
        torch.testing.assert_close(ours[name], value, rtol=0, atol=EXACT[dtype])


def trained(shard, training, *, compiled, monkeypatch, pull=None, loss=None, dtype=torch.float64, **of_model):
    model, weights = loaded(shard, dtype, **of_model)
    calls = []
    with monkeypatch.context() as patch:

        def watched(*args, **kwargs):
            found = compiled_step_of(*args, **kwargs) if compiled else None
            calls.append(found)
            return found

        patch.setattr(fitting, "compiled_step_of", watched)
        pulled = Pull(pull[0], random_push(weights) if pull[1] else None) if pull else None
        fitted = fit(model, shard, training, lr=training.lr, seed=5, loss=loss, pull=pulled)
    assert not compiled or isinstance(calls[0], CompiledStep), "nothing was compared"
    return model.trained(shard, fitted.sentences, pulled), fitted.loss


def random_push(weights):
    draw = torch.Generator().manual_seed(9)
    return Named({name: 0.1 * torch.randn(v.shape, generator=draw, dtype=v.dtype) for name, v in weights.items()})


@pytest.mark.parametrize("pull", [None, (0.7, False), (0.0, True), (0.5, True)])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("embeddings", ["trainable", "frozen"])
def test_a_whole_training_is_the_same(pull, optimizer, embeddings, monkeypatch):
    shard = shard_of(random_split(40, seed=3))
    lr = 0.2 if optimizer == "sgd" else 0.002  # AdamW divides by the gradient's size, and so blows up rounding
    training = Training(epochs=3, batch=7, dropout=0.4, weight_decay=0.01, optimizer=optimizer, lr=lr)
    settings = {"monkeypatch": monkeypatch, "pull": pull, "embeddings": embeddings}
    ours, our_loss = trained(shard, training, compiled=True, **settings)
    theirs, their_loss = trained(shard, training, compiled=False, **settings)
    assert our_loss == pytest.approx(their_loss, abs=1e-10)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("denoiser", "loss"), [("one", None), ("one", cross_entropy), ("ave", cross_entropy)])
def test_denoisers_that_train_on_single_sentences_do_it_too(denoiser, loss, monkeypatch):
    shard = shard_of(random_split(40, seed=3))
    training = Training(epochs=2, batch=7, dropout=0.4, lr=0.2)
    settings = {"monkeypatch": monkeypatch, "denoiser": denoiser, "loss": loss}
    ours, _ = trained(shard, training, compiled=True, **settings)
    theirs, _ = trained(shard, training, compiled=False, **settings)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-9)


def test_what_is_not_usual_is_left_to_autograd(monkeypatch):
    shard = shard_of(random_split(20, seed=3))

    def possible(loss=None, **of_model):
        return compiled_step_of(loaded(shard, **of_model)[0], shard, loss, at_once=4) is not None

    def own_loss(output: Output) -> torch.Tensor:
        return 2 * cross_entropy(output)

    assert possible()
    assert possible(cross_entropy, denoiser="ave")
    assert not possible(own_loss)
    assert not possible(denoiser="ave")
    assert not possible(cross_entropy, denoiser="att"), "its own weights would get no gradient"
    assert not possible(kind="bag")
    assert compiled_step_of(loaded(shard)[0], dataclasses.replace(shard, rows=shard.rows[:0]), None, at_once=4) is None
    monkeypatch.setattr(jit, "AVAILABLE", False)
    assert not possible()


def test_micro_batches_are_left_to_autograd_which_adds_them_up(monkeypatch):
    shard = shard_of(random_split(20, seed=3))
    monkeypatch.setattr(fitting, "compiled_step_of", lambda *args, **kwargs: pytest.fail("a part is not the whole"))
    model, _ = loaded(shard)
    assert fit(model, shard, Training(epochs=1, batch=8, micro_batch=3), lr=0.1, seed=1).steps == 3


def test_weights_that_are_not_numbers_show_in_the_loss():
    shard = shard_of(random_split(20, seed=3))
    model, _ = loaded(shard, filters=20)
    with torch.no_grad():
        model.encoder.convolution.weight[0, 0] = torch.nan
    compiled = compiled_step_of(model, shard, None, at_once=20)
    assert compiled is not None
    assert compiled(torch.arange(20)).isnan()
