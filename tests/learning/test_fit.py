"""Packed, sparse training is the plain padded, dense loop, number for number."""

import pytest
import torch

from benchmarks.plain import PlainPCNN, pad, plain_weights, train
from fedrel.config import Training
from fedrel.errors import DivergedError
from fedrel.learning.fit import fit
from fedrel.learning.model import WORDS
from fedrel.learning.named import apply_patch
from fedrel.util.seeds import seeded
from tests.helpers import random_split, shard_of, small_model

TRAINING = Training(epochs=3, batch=7, lr=0.3, weight_decay=0.01, dropout=0.0)


def plain_copy(weights, relations=4):
    """The padded model with the same weights."""
    plain = PlainPCNN(len(weights[WORDS]), relations, reach=5, filters=6, dropout=0.0).to(weights[WORDS].dtype)
    plain.load_state_dict(plain_weights(weights))
    return plain


def same_batches(sentences: int, seed: int) -> list[torch.Tensor]:
    with seeded(seed):
        return [b for _ in range(TRAINING.epochs) for b in torch.split(torch.randperm(sentences), TRAINING.batch)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_a_round_of_sparse_training_equals_dense_training_with_weight_decay(dtype, tolerance):
    shard = shard_of(random_split(60, seed=3))
    model, weights = small_model(dtype=dtype)
    plain = plain_copy(weights)
    model.load(weights, shard)
    fitted = fit(model, shard, TRAINING, lr=0.3, seed=11)
    ours = apply_patch(weights, model.trained(shard, fitted.sentences))
    train(plain, pad(shard, 16), same_batches(len(shard), 11), lr=0.3, weight_decay=0.01)
    torch.testing.assert_close(ours[WORDS], plain.words.weight.detach(), rtol=0, atol=tolerance)
    torch.testing.assert_close(ours["encoder.head_position"], plain.head.weight.detach(), rtol=0, atol=tolerance)
    theirs = plain.convolution.weight.detach().transpose(1, 2).reshape(6, 180)
    torch.testing.assert_close(ours["encoder.convolution.weight"], theirs, rtol=0, atol=tolerance)
    torch.testing.assert_close(ours["classifier.weight"], plain.classifier.weight.detach(), rtol=0, atol=tolerance)
    assert not torch.equal(ours[WORDS], weights[WORDS])


def test_words_that_training_did_not_see_only_decay_and_are_not_sent():
    shard = shard_of(random_split(60, seed=3))
    model, weights = small_model(dtype=torch.float64)
    model.load(weights, shard)
    fitted = fit(model, shard, TRAINING, lr=0.3, seed=1, sentences=torch.tensor([0]))
    patch = model.trained(shard, fitted.sentences)
    seen = set(shard.vocabulary[shard.words_of(torch.tensor([0])).numpy()].tolist())
    assert set(patch[f"{WORDS}#rows"].tolist()) == seen
    after = apply_patch(weights, patch)
    factor = (1 - 0.3 * 0.01) ** fitted.steps
    for row in set(range(len(weights[WORDS]))) - seen:
        torch.testing.assert_close(after[WORDS][row], weights[WORDS][row] * factor, rtol=0, atol=1e-12)


def test_frozen_word_vectors_are_neither_sent_nor_changed():
    shard = shard_of(random_split(30))
    model, weights = small_model(embeddings="frozen")
    assert WORDS not in weights
    before = model.frozen_words.clone()
    model.load(weights, shard)
    fit(model, shard, TRAINING, lr=0.3, seed=1)
    assert not any(name.startswith(WORDS) for name in model.trained(shard, torch.arange(30)))
    assert torch.equal(model.frozen_words, before)


def test_training_does_not_touch_the_weights_it_was_given():
    shard = shard_of(random_split(30))
    model, weights = small_model()
    before = {name: value.clone() for name, value in weights.items()}
    model.load(weights, shard)
    fit(model, shard, TRAINING, lr=0.3, seed=1)
    assert all(torch.equal(weights[name], value) for name, value in before.items())


def test_the_same_seed_trains_the_same_model_and_leaves_torch_alone():
    shard = shard_of(random_split(30))
    results = []
    for _ in range(2):
        model, weights = small_model()
        model.load(weights, shard)
        torch.manual_seed(5)
        expected = torch.rand(1)
        torch.manual_seed(5)
        fit(model, shard, Training(dropout=0.5, batch=7), lr=0.3, seed=3)
        assert torch.equal(torch.rand(1), expected)
        results.append(model.trained(shard, torch.arange(30)))
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_a_loss_that_is_no_number_stops_training():
    shard = shard_of(random_split(30))
    model, weights = small_model()
    weights["classifier.bias"][0] = torch.nan
    model.load(weights, shard)
    with pytest.raises(DivergedError, match=r"training\.lr"):
        fit(model, shard, TRAINING, lr=0.3, seed=1)


@pytest.mark.parametrize("denoiser", ["none", "one", "ave", "att", "att-own", "att-ra"])
def test_every_denoiser_learns_its_training_set(denoiser):
    shard = shard_of(random_split(60, seed=3))
    model, weights = small_model(denoiser=denoiser, filters=20)
    model.load(weights, shard)
    first = fit(model, shard, Training(epochs=1, batch=8, dropout=0.0), lr=0.3, seed=1).loss
    last = fit(model, shard, Training(epochs=30, batch=8, dropout=0.0), lr=0.3, seed=2).loss
    assert last < first / 4


def test_one_trains_on_the_sentence_that_its_own_label_favours():
    """The label is the bag's, not the sentence number's: a bag's choice equals the whole shard's choice."""
    shard = shard_of(random_split(60, seed=3))
    model, weights = small_model(denoiser="one")
    model.load(weights, shard)
    best, _ = model.choose(shard)
    bags = torch.tensor([3, 0, 5])
    assert torch.equal(model.choose_in(shard, bags), best[bags])
