"""Platforms that train as one program end where they would have ended one by one."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.errors import DivergedError
from fedrel.learning.fit import Fitted, fit_alone
from fedrel.learning.losses import cross_entropy
from fedrel.learning.named import Named
from fedrel.learning.optimizers import OPTIMIZERS, SGD
from fedrel.learning.proximal import Pull
from fedrel.stacked.buffers import BufferPool
from fedrel.stacked.program import Program
from fedrel.stacked.schedule import schedule
from fedrel.stacked.training import StackedTrainer, can_stack, train_stacked
from tests.learning.foreign import EXTRACTORS, FOREIGN, Regularised, TwoPieces, declared
from tests.stacked.side_by_side import CPU, TRAINING, assert_same, outcome, works_of


@pytest.mark.parametrize("kind", ["pcnn", "cnn", "text"])
@pytest.mark.parametrize("denoiser", ["none", "one", "ave", "att", "att-own", "att-ra"])
def test_every_extractor_and_denoiser(kind, denoiser):
    assert_same([11, 4, 30, 9], kind=kind, denoiser=denoiser)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("embeddings", ["trainable", "frozen"])
@pytest.mark.parametrize("bias", [True, False])
def test_every_optimizer_and_table(optimizer, embeddings, bias):
    assert_same([7, 21], training=replace(TRAINING, optimizer=optimizer), embeddings=embeddings, bias=bias)


def pushes(weights: Named, number: int) -> Named:
    draw = torch.Generator().manual_seed(number)
    return Named({name: torch.randn(value.shape, generator=draw).to(value) * 0.1 for name, value in weights.items()})


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize(
    "pull",
    [
        lambda weights, number: Pull(strength=0.3),
        lambda weights, number: Pull(push=pushes(weights, number)),
        lambda weights, number: Pull(strength=0.2, push=pushes(weights, number)),
    ],
)
def test_every_pull(pull, optimizer):
    assert_same([7, 21, 13], training=replace(TRAINING, optimizer=optimizer), pull=pull)


def test_chosen_sentences_and_a_loss_of_its_own():
    assert_same([9, 16], chosen=True)
    assert_same([9, 16], chosen=True, denoiser="att")
    assert_same([9, 16], loss=lambda output: cross_entropy(output) + output.vectors.square().mean())


@pytest.mark.parametrize("window", [1, 3, 5])
def test_every_window(window):
    assert_same([6, 17], window=window)


def test_a_factor_that_grows_small_is_folded_while_others_are_done():
    strong = replace(TRAINING, weight_decay=6.0, epochs=4)  # shrinks by .4 in every step
    assert_same([5, 40, 21], training=strong)
    assert_same([5, 40, 21], training=strong, pull=lambda weights, number: Pull(push=pushes(weights, number)))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 25), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(1, 3),
    st.floats(0, 0.9),
    st.sampled_from(["none", "one", "att"]),
)
def test_any_sizes(sizes, batch, epochs, dropout, denoiser):
    training = replace(TRAINING, batch=batch, epochs=epochs, dropout=dropout)
    assert_same(sizes, training=training, denoiser=denoiser)


def test_a_trainer_is_used_again_with_other_platforms_and_fewer_of_them():
    trainer = StackedTrainer(4, CPU)
    for sizes in ([11, 4, 30, 9], [5, 6], [60, 2, 3, 4], [8]):
        assert_same(sizes, trainer=trainer)


def test_a_trainer_is_used_again_for_bags_and_for_sentences():
    trainer = StackedTrainer(4, CPU)
    for denoiser in ("att", "none", "one", "att-ra"):
        for sizes in ([11, 4, 30, 9], [5, 6], [60, 2, 3, 4], [8]):
            assert_same(sizes, trainer=trainer, denoiser=denoiser)


def test_pulls_come_and_go_in_a_trainer():
    trainer = StackedTrainer(3, CPU)
    training = replace(TRAINING, optimizer="adamw")
    for sizes, strength in (([7, 9], 0.3), ([40, 30, 12], 0.0), ([20, 31], 0.3), ([60, 50], 0.3)):
        pull = (lambda weights, number: Pull(strength=0.3, push=pushes(weights, number))) if strength else None
        assert_same(sizes, trainer=trainer, training=training, pull=pull)


@pytest.mark.parametrize("denoiser", ["none", "one", "att"])
def test_batches_far_larger_than_platforms(denoiser):
    assert_same([11, 4, 30], training=replace(TRAINING, batch=100_000), denoiser=denoiser)
    works = works_of([11, 4, 30], training=replace(TRAINING, batch=100_000), denoiser=denoiser)
    assert schedule(works, 3).chosen.shape[2] <= 32, "padded to what is read, not to what might be"


@pytest.mark.parametrize("denoiser", ["one", "ave", "att", "att-own", "att-ra"])
def test_one_giant_bag_is_expensive_only_once(denoiser):
    training = replace(TRAINING, batch=2)
    assert_same([40, 40, 150], training=training, denoiser=denoiser, pairs=[40, 40, 4])
    works = works_of([40, 40, 150], training=training, denoiser=denoiser, pairs=[40, 40, 4])
    shapes = Program(works, schedule(works, 3), BufferPool(CPU), 3).padded_shapes()
    assert shapes[0].sentences >= 60 and shapes[-1].sentences <= 8
    assert shapes[-1].tokens < shapes[0].tokens / 2


def test_in_single_precision():
    assert_same([40, 33], dtype=torch.float32, tolerance=1e-4)


def test_who_diverges_is_named_and_the_others_are_not_harmed():
    works = works_of([12, 12, 12])
    with torch.no_grad():
        works[1].model.classifier.weight[0, 0] = float("nan")
    found = train_stacked(works, StackedTrainer(3, CPU))
    assert isinstance(found[1], DivergedError)
    assert isinstance(found[0], Fitted) and isinstance(found[2], Fitted)


@pytest.mark.parametrize("denoiser", ["one", "ave", "att", "att-own", "att-ra"])
def test_a_sentence_that_is_no_number_is_noticed_by_bag_too(denoiser):
    works = works_of([12, 12, 12], denoiser=denoiser, training=replace(TRAINING, dropout=0.0))
    with torch.no_grad():
        works[1].model.encoder.words.rows[int(works[1].shard.tokens.max())] = float("nan")
    found = train_stacked(works, StackedTrainer(3, CPU))
    assert isinstance(found[1], DivergedError)
    assert isinstance(found[0], Fitted) and isinstance(found[2], Fitted)


@pytest.mark.parametrize("denoiser", ["none", "one", "ave", "att", "att-own", "att-ra"])
def test_whoever_diverges_alone_diverges_together(denoiser):
    """With rectified vectors sentences are no numbers any more long before the weights are."""

    def wild():
        training = replace(TRAINING, dropout=0.0, weight_decay=0.0, epochs=4)
        works = works_of([30, 40], denoiser=denoiser, dtype=torch.float32, activation="relu", training=training)
        return [replace(work, lr=100.0) for work in works]

    for work, together in zip(wild(), train_stacked(wild(), StackedTrainer(2, CPU)), strict=True):
        with pytest.raises(DivergedError):
            fit_alone(work)
        assert isinstance(together, DivergedError)


def test_what_is_recorded_for_bags_is_not_replayed_for_sentences():
    """Their tables lie in different places."""
    eight = replace(TRAINING, batch=8)
    by_bag, plain = (works_of([30, 40], denoiser="att", training=eight, chosen=chosen) for chosen in (False, True))
    shapes = [Program(works, schedule(works, 2), BufferPool(CPU), 2).shape for works in (by_bag, plain)]
    assert shapes[0] != shapes[1]


def test_platforms_without_sentences_and_small_memories_train_alone():
    assert not can_stack(works_of([3], training=replace(TRAINING, micro_batch=2))[0])
    assert_same([9, 9], training=replace(TRAINING, micro_batch=2))


def test_works_with_different_kinds_of_losses_meet():
    """As when only some platforms have heard verdicts."""

    def mixed():
        first, *others = works_of([9, 16, 12], denoiser="att")
        return [first, *(replace(work, plain=True, loss=cross_entropy) for work in others)]

    alone, together = mixed(), mixed()
    fitted = [fit_alone(work) for work in alone]
    found = train_stacked(together, StackedTrainer(3, CPU))
    for one, a, two, b in zip(alone, fitted, together, found, strict=True):
        expected, seen = outcome(one, a), outcome(two, b)
        for name in expected:
            torch.testing.assert_close(seen[name], expected[name], rtol=1e-9, atol=1e-9, msg=name)


# ------------------------------------------------------------------------------- classes that did not opt in


def assert_foreign_same(*, stacked, tolerance=1e-9, **classes):
    assert all(can_stack(work) == stacked for work in works_of([9, 16, 4], classes=classes))
    assert_same([9, 16, 4], classes=classes, autograd=True, tolerance=tolerance)


@pytest.mark.parametrize("base", EXTRACTORS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_subclass_of_an_extractor_trains_one_by_one(base, foreign):
    assert_foreign_same(encoder=FOREIGN[foreign](base), stacked=False, tolerance=0)


@pytest.mark.parametrize("base", EXTRACTORS)
def test_a_subclass_that_declares_itself_plain_is_stacked(base):
    assert_foreign_same(encoder=declared(base), stacked=True)


def test_a_class_with_other_pieces_may_be_stacked():
    assert_foreign_same(encoder=TwoPieces, stacked=True)


def test_a_model_of_another_class_trains_one_by_one():
    assert_foreign_same(model=Regularised, stacked=False, tolerance=0)


def test_a_pull_or_an_optimizer_of_another_class_trains_one_by_one(monkeypatch):
    class Spring(Pull):
        pass

    assert can_stack(works_of([5], pull=lambda weights, number: Pull(0.3))[0])
    assert not can_stack(works_of([5], pull=lambda weights, number: Spring(0.3))[0])
    assert_same([5, 9], pull=lambda weights, number: Spring(0.3), tolerance=0)
    monkeypatch.setitem(OPTIMIZERS, "sgd", type("Other", (SGD,), {}))
    assert not can_stack(works_of([5])[0])


def test_platforms_with_different_pulls_rates_and_settings_meet():
    """Each is trained as it asks to be, though a program has one of each."""

    def mixed():
        works = works_of([9, 16, 12, 7, 5])
        works[1] = replace(works[1], pull=Pull(0.5))
        works[2] = replace(works[2], lr=0.3)
        works[3] = replace(works[3], training=replace(TRAINING, dropout=0.0))
        works[4] = replace(works[4], pull=Pull(0.1))
        return works

    alone, together = mixed(), mixed()
    fitted = [fit_alone(work) for work in alone]
    found = train_stacked(together, StackedTrainer(5, CPU))
    for one, a, two, b in zip(alone, fitted, together, found, strict=True):
        expected, seen = outcome(one, a), outcome(two, b)
        for name in expected:
            torch.testing.assert_close(seen[name], expected[name], rtol=0, atol=1e-9, msg=name)
