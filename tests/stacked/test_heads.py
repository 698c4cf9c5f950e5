"""Losses and denoisers that stacked training has never seen learn what they learn one by one."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrel.denoisers.base import Denoiser, group_max, group_sum
from fedrel.denoisers.none import Nothing
from fedrel.denoisers.one import One
from fedrel.learning.losses import cross_entropy, to_rows
from fedrel.learning.proximal import Pull
from fedrel.stacked.buffers import BufferPool
from fedrel.stacked.heads import Bags, EachPlatform, Sentences
from fedrel.stacked.program import Program
from fedrel.stacked.schedule import schedule
from fedrel.stacked.training import StackedTrainer
from tests.stacked.side_by_side import CPU, TRAINING, assert_same, works_of

ADAMW = replace(TRAINING, optimizer="adamw")
SIZES = [11, 4, 30, 9]


def head_of(works):
    return Program(works, schedule(works, len(works)), BufferPool(CPU), len(works)).head


# ---------------------------------------------------------------------------------- denoisers of newcomers


class MaxVector(Denoiser):
    """The maximum over a bag's sentence vectors, written without a thought of padding."""

    def logits(self, vectors, bag, labels, classifier, drop):
        pooled = [vectors[bag == number].max(dim=0).values for number in range(len(labels))]
        return classifier(drop(torch.stack(pooled)))


class MaxLogit(Denoiser):
    """The maximum over the logits of a bag's sentences: minus infinity where there is none."""

    def logits(self, vectors, bag, labels, classifier, drop):
        return group_max(classifier(drop(vectors)), bag, len(labels))


class StackableMaxLogit(MaxLogit):
    """The same, mapped over the platforms."""

    stackable = True


class StackableMaxVector(Denoiser):
    """Minus infinity times a weight is no number: an empty bag would spoil every gradient."""

    stackable = True

    def logits(self, vectors, bag, labels, classifier, drop):
        return classifier(drop(group_max(vectors, bag, len(labels))))


class StackableMean(Denoiser):
    """Zero by zero, where a bag is empty."""

    stackable = True

    def logits(self, vectors, bag, labels, classifier, drop):
        sizes = group_sum(torch.ones_like(vectors[:, :1]), bag, len(labels))
        return classifier(drop(group_sum(vectors, bag, len(labels)) / sizes))


class Centred(Denoiser):
    """Looks at the whole batch, which padding would be a part of."""

    def logits(self, vectors, bag, labels, classifier, drop):
        centred = vectors - vectors.mean(0) / 2
        sizes = torch.bincount(bag, minlength=len(labels))[:, None]
        return classifier(drop(group_sum(centred, bag, len(labels)) / sizes))


class DropsTwice(Denoiser):
    """Two draws of dropout a step."""

    def logits(self, vectors, bag, labels, classifier, drop):
        return group_max(classifier(drop(drop(vectors))), bag, len(labels))


class Gated(Denoiser):
    """Parameters of its own, one of which training never uses, and a number."""

    def __init__(self, hidden, relations):
        super().__init__(hidden, relations)
        self.gate = nn.Linear(hidden, 1)
        self.unused = nn.Parameter(torch.ones(3))
        self.sharpness = nn.Parameter(torch.tensor(2.0))

    def logits(self, vectors, bag, labels, classifier, drop):
        weight = torch.sigmoid(self.sharpness * self.gate(vectors))
        return classifier(drop(group_sum(weight * vectors, bag, len(labels))))


class StackableGated(Gated):
    stackable = True


class Counting(Denoiser):
    """A state of its own that changes with every step."""

    calls = 0

    def logits(self, vectors, bag, labels, classifier, drop):
        self.calls += 1
        return group_max(classifier(drop(vectors)), bag, len(labels)) / self.calls


class SecondThoughts(One):
    """Chooses as ONE does, and then does something else."""

    def logits(self, vectors, bag, labels, classifier, drop):
        return classifier(drop(vectors)) / 2


class BySentence(Nothing):
    def logits(self, vectors, bag, labels, classifier, drop):
        return classifier(drop(vectors)) / 2


NEW = [MaxVector, MaxLogit, Centred, DropsTwice, Gated, Counting, SecondThoughts, BySentence]
STACKABLE = [StackableMaxLogit, StackableMaxVector, StackableMean, StackableGated]


@pytest.mark.parametrize("denoiser", NEW + STACKABLE)
@pytest.mark.parametrize("training", [TRAINING, ADAMW], ids=["sgd", "adamw"])
def test_a_new_denoiser_learns_what_it_learns_one_by_one(denoiser, training):
    classes = {"denoiser": denoiser}
    assert isinstance(head_of(works_of(SIZES, classes=classes)), Bags if denoiser in STACKABLE else EachPlatform)
    assert_same(SIZES, classes=classes, training=training)
    assert_same(SIZES, classes=classes, training=training, chosen=True)


@pytest.mark.parametrize("denoiser", [MaxVector, StackableMaxVector])
def test_a_new_denoiser_is_pulled_too(denoiser):
    assert_same(SIZES, classes={"denoiser": denoiser}, pull=lambda weights, number: Pull(0.3))


@pytest.mark.parametrize("denoiser", [Gated, StackableGated])
def test_a_parameter_that_no_loss_reaches_does_not_decay(denoiser):
    for training in (TRAINING, ADAMW):
        sent = assert_same([9, 16], classes={"denoiser": denoiser}, training=training)
        assert all(platform["denoiser.unused"].equal(torch.ones(3, dtype=torch.float64)) for platform in sent)
        assert all(platform["denoiser.sharpness"] != 2 for platform in sent)


def test_denoisers_that_come_with_fedrel_keep_their_fast_heads():
    assert isinstance(head_of(works_of([5, 4])), Sentences)
    assert isinstance(head_of(works_of([5, 4], denoiser="one", chosen=True)), Sentences)
    for denoiser in ("one", "ave", "att", "att-own", "att-ra"):
        assert isinstance(head_of(works_of([5, 4], denoiser=denoiser)), Bags)


def test_a_subclass_does_not_inherit_a_fast_head():
    for base in (StackableMaxVector, One, Nothing):
        works = works_of([5, 4], classes={"denoiser": type("Sub", (base,), {})})
        assert isinstance(head_of(works), EachPlatform)


# ---------------------------------------------------------------------------------- losses of newcomers

ROWS = torch.randn(4, 18, dtype=torch.float64, generator=torch.Generator().manual_seed(8))


def encoder_only(output):
    """As FedBABU trains: a classifier that never moves."""
    return to_rows(output.vectors, ROWS, output.labels)


def classifier_only(model, number):
    """The encoder rests, and so must not decay."""
    return lambda output: F.cross_entropy(model.classifier(output.vectors.detach()), output.labels)


def in_turns(model, number):
    """Some steps train the classifier, some do not; on every other platform the other way round."""
    calls = iter(range(number, 1_000))
    return lambda output: cross_entropy(output) if next(calls) % 2 else encoder_only(output)


def by_platform(model, number):
    return cross_entropy if number % 2 else encoder_only


def with_weights(model, number):
    """What it says about the weights has a gradient, by the weights that training has reached."""

    def loss(output):
        size = model.classifier.weight.square().sum() + model.encoder.convolution.weight.norm()
        return cross_entropy(output) + 0.1 * size

    return loss


def weights_only(model, number):
    """No sentence is looked at."""
    return lambda output: model.encoder.tail_position.square().sum()


def reads_more(model, number):
    """The model reads sentences of its own choice, once with a gradient and once without."""

    def loss(output, shard=None):
        more = model.encoder.encode(shards[number].sentences(torch.tensor([0, 1])))
        with torch.no_grad():
            model.encoder.encode(shards[number].sentences(torch.tensor([2])))
        return cross_entropy(output) + 0.1 * more.square().mean()

    shards = [work.shard for work in works_of(SIZES)]
    return loss


def of_other_shapes(model, number):
    """Backward takes any tensor of one number, of any precision."""
    return lambda output: cross_entropy(output).float().view(1, 1)


LOSSES = [classifier_only, in_turns, by_platform, with_weights, weights_only, reads_more]


@pytest.mark.parametrize("training", [TRAINING, ADAMW], ids=["sgd", "adamw"])
def test_a_loss_that_does_not_touch_the_classifier_leaves_it_alone(training):
    start = works_of([9])[0].model.classifier.weight
    sent = assert_same(SIZES, loss=encoder_only, training=training)
    assert all(platform["classifier.weight"].equal(start) for platform in sent), "weight decay included"


@pytest.mark.parametrize("loss_of", LOSSES)
@pytest.mark.parametrize("training", [TRAINING, ADAMW], ids=["sgd", "adamw"])
def test_any_loss_learns_what_it_learns_one_by_one(loss_of, training):
    assert_same(SIZES, loss_of=loss_of, training=training)


@pytest.mark.parametrize("loss_of", [classifier_only, in_turns, weights_only])
@pytest.mark.parametrize("training", [TRAINING, ADAMW], ids=["sgd", "adamw"])
def test_what_a_loss_does_not_touch_is_pulled_all_the_same(loss_of, training):
    assert_same(SIZES, loss_of=loss_of, training=training, pull=lambda weights, number: Pull(0.3))


def test_a_loss_of_any_shape_and_precision():
    assert_same(SIZES, loss_of=of_other_shapes, tolerance=1e-5)


def test_a_loss_that_leaves_the_encoder_alone_does_not_let_it_decay():
    start = works_of([9])[0].model.encoder.convolution.weight
    sent = assert_same(SIZES, loss_of=classifier_only)
    assert all(platform["encoder.convolution.weight"].equal(start) for platform in sent)


def test_losses_come_and_go_in_a_trainer():
    trainer = StackedTrainer(4, CPU)
    for training in (TRAINING, ADAMW):
        for loss_of in (in_turns, reads_more, classifier_only, None):
            assert_same(SIZES, loss_of=loss_of, training=training, trainer=trainer)
