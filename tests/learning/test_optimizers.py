"""Steps on a sparse word table are the dense steps, number for number, whatever pulls and pushes."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedrel.config import Training
from fedrel.kernels import jit
from fedrel.learning.fit import fit
from fedrel.learning.losses import cross_entropy
from fedrel.learning.model import WORDS
from fedrel.learning.named import Named, apply_patch
from fedrel.learning.proximal import Pull
from fedrel.util.seeds import generator
from tests.helpers import random_split, shard_of, small_model

DTYPE = torch.float64
EXACT = {"rtol": 0.0, "atol": 1e-9}


def plain_logits(weights: Named, shard, sentences: torch.Tensor) -> torch.Tensor:
    """A bag of words by hand: the classifier on the mean of a sentence's rows of the whole table."""
    means = []
    for sentence in sentences.tolist():
        tokens = shard.tokens[shard.starts[sentence] : shard.starts[sentence + 1] - 1].long()
        means.append(weights[WORDS][torch.from_numpy(shard.vocabulary)[tokens]].mean(0))
    return F.linear(torch.stack(means), weights["classifier.weight"], weights["classifier.bias"])


def batches(shard, training: Training, seed: int) -> list[torch.Tensor]:
    order = generator(seed, torch.device("cpu"))
    shuffled = [torch.randperm(len(shard), generator=order) for _ in range(training.epochs)]
    return [batch for epoch in shuffled for batch in torch.split(epoch, training.batch)]


def gradients(weights: Named, shard, sentences: torch.Tensor) -> Named:
    leaves = Named({name: value.clone().requires_grad_() for name, value in weights.items()})
    loss = F.cross_entropy(plain_logits(leaves, shard, sentences), shard.labels[sentences])
    found = torch.autograd.grad(loss, list(leaves.values()))
    return Named(dict(zip(leaves, found, strict=True)))


def dense_sgd(weights: Named, shard, training: Training, lr: float, seed: int, pull: Pull) -> Named:
    """w ← w - lr·(g + wd·w + strength·(w - w_loaded) + push), on every row of the table."""
    now = Named({name: value.clone() for name, value in weights.items()})
    push = pull.push or weights.zeros()
    for batch in batches(shard, training, seed):
        g = gradients(now, shard, batch)
        now = now - lr * (g + training.weight_decay * now + pull.strength * (now - weights) + push)
        now[WORDS][0] = 0
    return now


def bag_model(dtype=DTYPE, words=50):
    """A table of more words than the shard has."""
    return small_model(kind="bag", dtype=dtype, words=words)


def random_push(weights: Named, scale=0.1) -> Named:
    draw = torch.Generator().manual_seed(9)
    return Named({name: scale * torch.randn(v.shape, generator=draw, dtype=DTYPE) for name, v in weights.items()})


def sparse(weights: Named, model, shard, training: Training, lr: float, seed: int, pull: Pull | None):
    """What a platform sends after training."""
    model.load(weights, shard)
    fitted = fit(model, shard, training, lr=lr, seed=seed, pull=pull)
    return model.trained(shard, fitted.sentences, pull)


@pytest.fixture(params=[True, False], ids=["compiled", "plain"])
def either_way(request, monkeypatch):
    """With the compiled kernels, and without them."""
    if not request.param:
        monkeypatch.setattr(jit, "AVAILABLE", False)


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize("strength", [0.0, 0.7])
@pytest.mark.parametrize("pushed", [False, True])
def test_pulled_and_pushed_steps_on_the_word_table_are_the_dense_ones(either_way, weight_decay, strength, pushed):
    shard = shard_of(random_split(40, seed=3))
    model, weights = bag_model()
    training = Training(epochs=3, batch=7, weight_decay=weight_decay, dropout=0.0)
    pull = Pull(strength, random_push(weights) if pushed else None)
    ours = apply_patch(weights, sparse(weights, model, shard, training, 0.3, 11, pull))
    theirs = dense_sgd(weights, shard, training, 0.3, 11, pull)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], **EXACT)
    assert not torch.equal(ours[WORDS], weights[WORDS])


@pytest.mark.parametrize("pushed", [False, True])
@pytest.mark.parametrize(("lr", "strength", "epochs"), [(0.5, 1.6, 10), (0.3, 0.5, 40), (1.0, 1.3, 4)])
def test_many_steps_with_a_strong_pull_stay_exact(lr, strength, epochs, pushed):
    """The common factor of all rows becomes tiny, and is folded into them again and again; in the last case a step even
    goes beyond where it is pulled to, and the factor is negative.
    """
    shard = shard_of(random_split(40, seed=3))
    model, weights = bag_model()
    training = Training(epochs=epochs, batch=7, weight_decay=0.01, dropout=0.0)
    pull = Pull(strength, random_push(weights) if pushed else None)
    ours = apply_patch(weights, sparse(weights, model, shard, training, lr, 11, pull))
    assert model.encoder.words is not None
    assert 0 < model.encoder.words.factor <= 1
    theirs = dense_sgd(weights, shard, training, lr, 11, pull)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], **EXACT)


def test_strong_weight_decay_alone_is_folded_too():
    shard = shard_of(random_split(40, seed=3))
    model, weights = bag_model()
    training = Training(epochs=20, batch=7, weight_decay=0.9, dropout=0.0)
    ours = apply_patch(weights, sparse(weights, model, shard, training, 1.0, 11, None))
    theirs = dense_sgd(weights, shard, training, 1.0, 11, Pull())
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], **EXACT)


def test_in_single_precision_folding_costs_little():
    shard = shard_of(random_split(40, seed=3))
    results = []
    for dtype in (torch.float32, torch.float64):
        model, weights = bag_model(dtype)
        training = Training(epochs=30, batch=7, weight_decay=0.01, dropout=0.0)
        pull = Pull(1.5, Named({name: value.to(dtype) for name, value in random_push(weights).items()}))
        results.append(apply_patch(weights, sparse(weights, model, shard, training, 0.5, 11, pull)))
    for name, value in results[1].items():
        torch.testing.assert_close(results[0][name].to(DTYPE), value, rtol=0, atol=2e-5)


def test_an_upload_with_a_push_is_whole_and_without_one_holds_the_rows_of_the_shard():
    shard = shard_of(random_split(40, seed=3))
    model, weights = bag_model()
    training = Training(epochs=1, batch=7, weight_decay=0.05, dropout=0.0)
    pushed = sparse(weights, model, shard, training, 0.3, 11, Pull(0.2, random_push(weights)))
    assert pushed[WORDS].shape == weights[WORDS].shape
    assert not any("#" in name for name in pushed)
    assert pushed[WORDS][0].abs().max() == 0, "padding stays nothing"
    pulled = sparse(weights, model, shard, training, 0.3, 11, Pull(0.2))
    assert sorted(pulled[f"{WORDS}#rows"].tolist()) == shard.vocabulary[1:].tolist()


def test_frozen_word_vectors_are_not_pushed():
    shard = shard_of(random_split(40, seed=3))
    model, weights = small_model(kind="bag", dtype=DTYPE, embeddings="frozen")
    assert WORDS not in weights
    before = model.frozen_words.clone()
    sent = sparse(weights, model, shard, Training(epochs=1, dropout=0.0), 0.3, 1, Pull(0.2, random_push(weights)))
    assert set(sent) == {"classifier.weight", "classifier.bias"}
    assert torch.equal(model.frozen_words, before)


# ---------------------------------------------------------------------------------------------- AdamW


def dense_adamw(weights: Named, shard, training: Training, lr: float, seed: int, pull: Pull | None = None) -> Named:
    table = torch.nn.Embedding.from_pretrained(weights[WORDS].clone(), freeze=False, padding_idx=0)
    classifier = torch.nn.Linear(50, 4, dtype=DTYPE)
    with torch.no_grad():
        classifier.weight.copy_(weights["classifier.weight"])
        classifier.bias.copy_(weights["classifier.bias"])
    held = {WORDS: table.weight, "classifier.weight": classifier.weight, "classifier.bias": classifier.bias}
    optimizer = torch.optim.AdamW(list(held.values()), lr=lr, weight_decay=training.weight_decay)
    for batch in batches(shard, training, seed):
        optimizer.zero_grad()
        F.cross_entropy(plain_logits(Named(held), shard, batch), shard.labels[batch]).backward()
        for name, value in held.items():
            if pull is not None and value.grad is not None:
                value.grad += pull.strength * (value.detach() - weights[name])
                value.grad += pull.push[name] if pull.push else 0.0
        table.weight.grad[0] = 0
        optimizer.step()
    return Named({name: value.detach().clone() for name, value in held.items()})


@pytest.mark.parametrize("pull", [None, 0.0, 0.5])
def test_adamw_on_the_word_table_is_the_librarys_on_a_dense_one(pull):
    """For the rows of the shard, touched by a batch or not; others only decay."""
    shard = shard_of(random_split(40, seed=3))
    model, weights = bag_model()
    training = Training(epochs=3, batch=7, optimizer="adamw", weight_decay=0.1, dropout=0.0)
    chosen = None if pull is None else Pull(pull)
    ours = apply_patch(weights, sparse(weights, model, shard, training, 0.01, 11, chosen))
    theirs = dense_adamw(weights, shard, training, 0.01, 11, chosen)
    inside = torch.from_numpy(shard.vocabulary)
    torch.testing.assert_close(ours[WORDS][inside], theirs[WORDS][inside], **EXACT)
    for name in ("classifier.weight", "classifier.bias"):
        torch.testing.assert_close(ours[name], theirs[name], **EXACT)
    outside = torch.from_numpy(np.setdiff1d(np.arange(1, 50), shard.vocabulary))
    assert len(outside) > 5
    decayed = weights[WORDS][outside] * (1 - 0.01 * 0.1) ** (3 * 6)
    torch.testing.assert_close(ours[WORDS][outside], decayed, **EXACT)


def test_adamw_with_a_push_moves_the_rows_of_the_shard():
    shard = shard_of(random_split(40, seed=3))
    model, weights = bag_model()
    training = Training(epochs=2, batch=7, optimizer="adamw", weight_decay=0.1, dropout=0.0)
    pull = Pull(0.5, random_push(weights))
    ours = apply_patch(weights, sparse(weights, model, shard, training, 0.01, 11, pull))
    theirs = dense_adamw(weights, shard, training, 0.01, 11, pull)
    inside = torch.from_numpy(shard.vocabulary)
    torch.testing.assert_close(ours[WORDS][inside], theirs[WORDS][inside], **EXACT)
    assert ours[WORDS][0].abs().max() == 0


def test_adamw_on_few_sentences_sends_their_words_and_the_rest_has_decayed():
    shard = shard_of(random_split(40, seed=3))
    model, weights = bag_model()
    training = Training(epochs=3, batch=1, optimizer="adamw", weight_decay=0.1, dropout=0.0)
    model.load(weights, shard)
    fitted = fit(model, shard, training, lr=0.01, seed=1, sentences=torch.tensor([0, 5]))
    patch = model.trained(shard, fitted.sentences)
    seen = shard.vocabulary[shard.words_of(torch.tensor([0, 5])).numpy()].tolist()
    assert sorted(patch[f"{WORDS}#rows"].tolist()) == sorted(seen)
    whole = apply_patch(weights, patch)[WORDS]
    assert model.encoder.words is not None
    inside = torch.from_numpy(shard.vocabulary)
    torch.testing.assert_close(whole[inside], model.encoder.words.rows, **EXACT)


def test_adamw_begins_anew_every_time():
    shard = shard_of(random_split(40, seed=3))
    model, weights = bag_model()
    training = Training(epochs=1, batch=7, optimizer="adamw", dropout=0.0)
    first = sparse(weights, model, shard, training, 0.01, 11, None)
    second = sparse(weights, model, shard, training, 0.01, 11, None)
    assert all(torch.equal(first[name], second[name]) for name in first)


# ---------------------------------------------------------------------------------------------- micro-batches


@pytest.mark.parametrize("loss", [None, cross_entropy])
@pytest.mark.parametrize("denoiser", ["none", "one", "ave", "att", "att-ra"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("kind", ["pcnn", "bag"])
def test_micro_batches_make_the_steps_of_whole_batches(loss, denoiser, optimizer, kind):
    shard = shard_of(random_split(40, seed=3))
    results = []
    for micro_batch in (0, 1, 3, 7, 100):
        model, weights = small_model(kind=kind, denoiser=denoiser, dtype=DTYPE)
        training = Training(
            epochs=2, batch=7, micro_batch=micro_batch, optimizer=optimizer, weight_decay=0.05, dropout=0.0
        )
        model.load(weights, shard)
        fitted = fit(model, shard, training, lr=0.05, seed=11, loss=loss)
        learnt = apply_patch(weights, model.trained(shard, fitted.sentences))
        results.append((learnt, fitted))
    (whole, fitted), *others = results
    for learnt, other in others:
        assert other.steps == fitted.steps
        assert other.loss == pytest.approx(fitted.loss, abs=1e-9)
        for name in whole:
            torch.testing.assert_close(learnt[name], whole[name], **EXACT)
