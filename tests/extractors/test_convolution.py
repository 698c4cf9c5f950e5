import pytest
import torch

from benchmarks.plain import pad
from tests.helpers import random_split, shard_of, small_model
from tests.learning.test_fit import plain_copy


def test_packed_pcnn_equals_padded_pcnn():
    shard = shard_of(random_split(50, seed=2))
    model, weights = small_model(dtype=torch.float64)
    plain = plain_copy(weights)
    model.load(weights, shard)
    data = pad(shard, 16)
    model.eval()
    ours = model.classifier(model.encoder.encode(shard.sentences(torch.arange(50))))
    torch.testing.assert_close(ours, plain(data.tokens, data.head, data.tail, data.piece), rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [1, 3, 5, 9])
def test_a_sentence_does_not_feel_its_neighbours(window):
    shard = shard_of(random_split(20, seed=2), gap=window // 2)
    model, weights = small_model(dtype=torch.float64, window=window)
    model.load(weights, shard)
    together = model.encoder.encode(shard.sentences(torch.arange(20)))
    for number in range(20):
        alone = model.encoder.encode(shard.sentences(torch.tensor([number])))
        torch.testing.assert_close(alone[0], together[number], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["pcnn", "cnn"])
def test_gradients_are_right(kind):
    shard = shard_of(random_split(6, seed=4))
    model, weights = small_model(dtype=torch.float64, kind=kind)
    model.load(weights, shard)
    batch = shard.sentences(torch.arange(6))
    weight = model.encoder.convolution.weight

    def loss(values):
        with torch.no_grad():
            weight.copy_(values)
        return model.encoder.encode(batch).square().sum()

    start = weight.detach().clone()
    loss(start).backward()
    direction = torch.randn_like(start)
    step = 1e-6
    numeric = (loss(start + step * direction) - loss(start - step * direction)) / (2 * step)
    torch.testing.assert_close((weight.grad * direction).sum(), numeric.detach(), rtol=1e-5, atol=1e-7)


def test_cnn_takes_one_maximum_over_the_sentence():
    shard = shard_of(random_split(10, seed=4))
    model, weights = small_model(dtype=torch.float64, kind="cnn")
    model.load(weights, shard)
    assert model.encoder.encode(shard.sentences(torch.arange(10))).shape == (10, 6)
