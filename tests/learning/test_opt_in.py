"""Subclasses of fedrel's own classes: none is trained by a kernel written for its parent, and each learns what autograd
says.
"""

import pytest
import torch
from torch import nn

from fedrel.config import Training
from fedrel.denoisers.base import Denoiser
from fedrel.denoisers.none import Nothing
from fedrel.denoisers.one import One
from fedrel.extractors.convolution import is_plain_convolution
from fedrel.kernels.opt_in import opted_in
from fedrel.learning import fit as fitting
from fedrel.learning.compiled_step import compiled_step_of
from fedrel.learning.fit import fit
from fedrel.learning.model import plain_convolution_of
from fedrel.learning.optimizers import OPTIMIZERS, SGD
from tests.helpers import random_split, shard_of
from tests.learning.foreign import (
    EXTRACTORS,
    FOREIGN,
    CosineClassifier,
    Doubled,
    Halved,
    HalvedOne,
    Regularised,
    Sharpened,
    TwoPieces,
    declared,
    model_of,
)

TRAINING = Training(epochs=2, batch=7, dropout=0.3, weight_decay=0.01)


def trained(model, weights, shard, monkeypatch, *, compiled=True, training=TRAINING, **options):
    """What a platform would send, and whether a compiled step made it."""
    used = []

    def watched(*args, **kwargs):
        used.append(compiled_step_of(*args, **kwargs) if compiled else None)
        return used[-1]

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "compiled_step_of", watched)
        model.load(weights, shard)
        fitted = fit(model, shard, training, lr=0.2, seed=5, **options)
    return model.trained(shard, fitted.sentences), any(used)


def assert_trains_as_autograd_does(make, monkeypatch, *, compiled=False, **options):
    shard = shard_of(random_split(40, seed=3))
    ours, used = trained(*make(), shard, monkeypatch, **options)
    theirs, _ = trained(*make(), shard, monkeypatch, compiled=False, **options)
    assert used == compiled
    assert ours.keys() == theirs.keys()
    for name in theirs:
        if compiled:
            torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-9, msg=name)
        else:
            assert ours[name].equal(theirs[name]), name
    return ours


@pytest.mark.parametrize("base", EXTRACTORS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_subclass_of_an_extractor_is_trained_by_autograd(base, foreign, monkeypatch):
    cls = FOREIGN[foreign](base)
    ours = assert_trains_as_autograd_does(lambda: model_of(cls), monkeypatch)
    if "extra parameter" in foreign:
        assert (ours["encoder.scale"] - 0.8).abs().min() > 1e-4, "every number of it learns"


@pytest.mark.parametrize("base", EXTRACTORS)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_subclass_that_declares_itself_plain_is_compiled(base, activation, monkeypatch):
    for cls in (base, declared(base)):
        assert_trains_as_autograd_does(lambda cls=cls: model_of(cls, activation=activation), monkeypatch, compiled=True)


def test_a_class_with_other_pieces_may_be_compiled(monkeypatch):
    assert_trains_as_autograd_does(lambda: model_of(TwoPieces), monkeypatch, compiled=True)


def test_an_activation_that_kernels_do_not_know_is_not_taken_for_one_they_know(monkeypatch):
    """One that is added to the list of names alone, without a class of its own."""

    def with_sigmoid():
        model, weights = model_of()
        model.encoder.activation = torch.sigmoid
        return model, weights

    assert_trains_as_autograd_does(with_sigmoid, monkeypatch)


@pytest.mark.parametrize("denoiser", [Sharpened, Halved, HalvedOne, type("Untouched", (One,), {})])
def test_a_subclass_of_a_denoiser_is_trained_by_autograd(denoiser, monkeypatch):
    assert_trains_as_autograd_does(lambda: model_of(denoiser=denoiser), monkeypatch)


@pytest.mark.parametrize("denoiser", [Nothing, One])
def test_the_denoisers_of_single_sentences_are_compiled(denoiser, monkeypatch):
    assert_trains_as_autograd_does(lambda: model_of(denoiser=denoiser), monkeypatch, compiled=True)


def test_a_model_or_a_part_of_another_class_is_trained_by_autograd(monkeypatch):
    def with_part(**parts):
        model, weights = model_of()
        for name, cls in parts.items():
            part = model.get_submodule(name.replace("__", "."))
            part.__class__ = cls
        return model, weights

    assert_trains_as_autograd_does(lambda: model_of(model=Regularised), monkeypatch)
    assert_trains_as_autograd_does(lambda: with_part(classifier=CosineClassifier), monkeypatch)
    assert_trains_as_autograd_does(lambda: with_part(encoder__words=Doubled), monkeypatch)


def test_a_frozen_parameter_is_left_alone(monkeypatch):
    def frozen():
        model, weights = model_of()
        model.encoder.tail_position.requires_grad_(False)
        weights.pop("encoder.tail_position")
        return model, weights

    assert_trains_as_autograd_does(frozen, monkeypatch)


def test_a_loss_that_wraps_cross_entropy_is_trained_by_autograd(monkeypatch):
    def smoothed(output):
        return nn.functional.cross_entropy(output.logits, output.labels, label_smoothing=0.1)

    assert_trains_as_autograd_does(model_of, monkeypatch, loss=smoothed)


def test_an_optimizer_of_another_class_makes_its_own_steps(monkeypatch):
    class Backwards(SGD):
        def step(self):
            self.lr = -abs(self.lr)
            super().step()

    shard = shard_of(random_split(40, seed=3))
    forwards, _ = trained(*model_of(), shard, monkeypatch)
    monkeypatch.setitem(OPTIMIZERS, "sgd", Backwards)
    backwards, _ = trained(*model_of(), shard, monkeypatch)
    start = model_of()[1]["classifier.weight"]
    change, other = forwards["classifier.weight"] - start, backwards["classifier.weight"] - start
    assert torch.nn.functional.cosine_similarity(change.flatten(), other.flatten(), dim=0) < -0.5


def test_only_the_class_itself_opts_in():
    assert opted_in(One(0, 0), "plain_logits")
    assert not opted_in(type("Sub", (One,), {})(0, 0), "plain_logits")
    assert not opted_in(Denoiser(0, 0), "plain_logits")
    assert not opted_in(type("Off", (One,), {"plain_logits": False})(0, 0), "plain_logits")
    assert not opted_in(type("Odd", (One,), {"plain_logits": "yes"})(0, 0), "plain_logits")


@pytest.mark.parametrize("base", EXTRACTORS)
def test_one_predicate_says_which_models_kernels_stand_in_for(base):
    assert plain_convolution_of(model_of(base)[0]) is not None
    for foreign in FOREIGN.values():
        model = model_of(foreign(base))[0]
        assert not is_plain_convolution(model.encoder)
        assert plain_convolution_of(model) is None
