"""The formulas, against the same thing written out bag by bag."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedrel.denoisers import DENOISERS, best_sentence_score, first_best, mean_score
from fedrel.denoisers.base import group_softmax

HIDDEN, RELATIONS = 5, 3
BAG = torch.tensor([0, 0, 0, 1, 2, 2])


@pytest.fixture
def vectors():
    return torch.randn(6, HIDDEN, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.fixture
def classifier():
    torch.manual_seed(2)
    return nn.Linear(HIDDEN, RELATIONS, dtype=torch.float64)


def make(name):
    torch.manual_seed(3)
    return DENOISERS[name](HIDDEN, RELATIONS).double()


def keep(x):
    return x


def odds(logits):
    """(…, R) log p/(1-p)."""
    return torch.logit(torch.softmax(logits.double(), -1))


def loss_of(denoiser, vectors, bag, labels, classifier):
    return nn.functional.cross_entropy(denoiser.logits(vectors, bag, labels, classifier, keep), labels)


@pytest.mark.parametrize("name", ["none", "one"])
def test_none_and_one_score_a_bag_by_its_best_sentence(name, vectors, classifier):
    z = odds(classifier(vectors))
    expected = torch.stack([z[:3].amax(0), z[3:4].amax(0), z[4:].amax(0)])
    torch.testing.assert_close(make(name).score(vectors, BAG, 3, classifier), expected)


def test_a_mean_and_a_maximum_of_two_sentences_by_hand():
    """Logits (3, 0) and (-1, 0), of two classes: log-odds of the first are 3 and -1."""
    classifier = nn.Linear(2, 2, dtype=torch.float64)
    with torch.no_grad():
        classifier.weight.copy_(torch.tensor([[3.0, -1.0], [0.0, 0.0]]))
        classifier.bias.zero_()
    sentences, bag = torch.eye(2, dtype=torch.float64), torch.tensor([0, 0])
    best = best_sentence_score(sentences, bag, 1, classifier)
    torch.testing.assert_close(best, torch.tensor([[3.0, 1.0]], dtype=torch.float64))
    mean = mean_score(sentences, bag, 1, classifier)
    torch.testing.assert_close(mean, torch.tensor([[1.0, -1.0]], dtype=torch.float64))


def test_average_is_the_mean_of_the_sentences(vectors, classifier):
    means = torch.stack([vectors[:3].mean(0), vectors[3], vectors[4:].mean(0)])
    labels = torch.tensor([1, 0, 2])
    expected = nn.functional.cross_entropy(classifier(means), labels)
    torch.testing.assert_close(loss_of(make("ave"), vectors, BAG, labels, classifier), expected)
    torch.testing.assert_close(make("ave").score(vectors, BAG, 3, classifier), odds(classifier(means)))


def queries_of(denoiser, classifier):
    return denoiser.query if hasattr(denoiser, "query") else classifier.weight


def test_the_queries_of_attention_as_published_are_the_rows_of_the_classifier(vectors, classifier):
    """So that bags of one sentence, whose weights are all 1, train them: they train the classifier."""
    assert [name for name, _ in make("att").named_parameters()] == ["diagonal"]
    assert [name for name, _ in make("att-own").named_parameters()] == ["diagonal", "query"]
    own, labels, alone = make("att-own"), torch.tensor([0, 1, 2, 0, 1, 2]), torch.arange(6)
    loss_of(own, vectors, alone, labels, classifier).backward()
    assert own.query.grad.abs().max() < 1e-15
    assert classifier.weight.grad.abs().max() > 0.01


def test_attention_as_published_by_hand():
    """Two sentences (1, 0) and (0, 1), rows of the classifier (2, 0) and (0, 1), no bias: the first relation weighs
    them by e² : 1, the second by 1 : e.
    """
    classifier = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    with torch.no_grad():
        classifier.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    att = DENOISERS["att"](2, 2).double()
    sentences, bag = torch.eye(2, dtype=torch.float64), torch.tensor([0, 0])
    first, second = 0.8807970779778823, 0.7310585786300049  # e²/(e²+1), e/(1+e)
    logits = att.logits(sentences, bag, torch.tensor([0]), classifier, keep)
    torch.testing.assert_close(logits, torch.tensor([[2 * first, 1 - first]], dtype=torch.float64))
    expected = torch.tensor([[2 * first - (1 - first), second - 2 * (1 - second)]], dtype=torch.float64)
    torch.testing.assert_close(att.score(sentences, bag, 1, classifier), expected)  # of two classes: the difference


@pytest.mark.parametrize("name", ["att", "att-own"])
def test_attention_weighs_by_the_query_of_the_label(name, vectors, classifier):
    att = make(name)
    with torch.no_grad():
        att.diagonal.uniform_(0.5, 2)
    labels = torch.tensor([1, 0, 2])
    bags = []
    for number, rows in enumerate([[0, 1, 2], [3], [4, 5]]):
        score = vectors[rows] @ torch.diag(att.diagonal) @ queries_of(att, classifier)[labels[number]]
        bags.append(torch.softmax(score, 0) @ vectors[rows])
    expected = nn.functional.cross_entropy(classifier(torch.stack(bags)), labels)
    torch.testing.assert_close(loss_of(att, vectors, BAG, labels, classifier), expected)


@pytest.mark.parametrize("name", ["att", "att-own"])
def test_attention_asks_every_relation_at_test(name, vectors, classifier):
    att = make(name)
    scores = att.score(vectors, BAG, 3, classifier)
    for number, rows in enumerate([[0, 1, 2], [3], [4, 5]]):
        for r in range(RELATIONS):
            weight = torch.softmax(vectors[rows] @ (att.diagonal * queries_of(att, classifier)[r]), 0)
            answer = odds(classifier(weight @ vectors[rows])[None])[0, r]
            torch.testing.assert_close(scores[number, r], answer)


def test_relation_aware_attention_has_a_bag_vector_per_relation(vectors, classifier):
    logits = torch.zeros(3, RELATIONS, dtype=torch.float64)
    for number, rows in enumerate([[0, 1, 2], [3], [4, 5]]):
        for r in range(RELATIONS):
            w = classifier.weight[r]
            b = torch.softmax(vectors[rows] @ w, 0) @ vectors[rows]
            logits[number, r] = w @ b + classifier.bias[r]
    labels = torch.tensor([1, 0, 2])
    torch.testing.assert_close(
        loss_of(make("att-ra"), vectors, BAG, labels, classifier), nn.functional.cross_entropy(logits, labels)
    )
    torch.testing.assert_close(make("att-ra").score(vectors, BAG, 3, classifier), odds(logits))


def test_bags_of_one_sentence_make_all_methods_agree(vectors, classifier):
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    alone = torch.arange(6)
    losses = [loss_of(make(name), vectors, alone, labels, classifier) for name in DENOISERS]
    for loss in losses[1:]:
        torch.testing.assert_close(loss, losses[0])


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.1, 0.5, 0.9])), min_size=1))
def test_the_best_of_a_group_is_the_first_highest(entries):
    group, score = (torch.tensor(column) for column in zip(*entries, strict=True))
    found = first_best(score, group, 6)
    for wanted in set(group.tolist()):
        places = [i for i, g in enumerate(group.tolist()) if g == wanted]
        assert found[wanted] == max(places, key=lambda i: (score[i].item(), -i))
    assert ((found >= 0) & (found < len(score))).all(), "of empty groups too"


def test_softmax_within_bags_survives_large_scores():
    weights = group_softmax(torch.tensor([[1000.0], [1001.0], [-1000.0]]), torch.tensor([0, 0, 1]), 2)
    torch.testing.assert_close(weights.squeeze(), torch.tensor([0.26894142, 0.73105858, 1.0]))


def test_nan_counts_as_the_highest_score():
    score = torch.tensor([0.3, torch.nan, 0.9, 0.8])
    assert first_best(score, torch.tensor([0, 0, 1, 1]), 2).tolist() == [1, 2]


def test_no_scores_have_no_best():
    assert first_best(torch.zeros(0), torch.zeros(0, dtype=torch.int64), 0).tolist() == []
