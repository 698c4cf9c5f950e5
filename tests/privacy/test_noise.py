"""Noise in sums: nothing that is added is longer than it may be, and what is left of the noise is what is promised."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kstest

from fedrel.errors import UserError
from fedrel.learning.named import Named, table_patch
from fedrel.privacy import tags
from fedrel.privacy.noise import Mechanism, normals
from fedrel.protocol.form import Form
from fedrel.protocol.noised import NoisyLayout, noise_key, question
from fedrel.protocol.summed import Summed, Units, masked

FORM = Form({"weights": "model", "sentences": "sentences", "loss": "loss"})
ANY = st.floats(allow_nan=True, allow_infinity=True, width=32)


def layout(unit, *, parties=5, sentences=8, size=6, **settings):
    model = Named(w=torch.linspace(-1, 1, size), words=torch.ones(3, 2))
    mechanism = Mechanism(unit, **{"clip": 0.5, "noise": 4.0, **settings})
    return NoisyLayout(FORM, Units(parties, sentences), model, mechanism=mechanism, held=sentences)


def reply(of, change, rows=0.0):
    """What a platform whose weights changed by this would say, its word table as a patch of one row."""
    words = table_patch("words", torch.tensor([1]), of.model["words"][1:2].double() + rows, 1.0)
    return {
        "weights": Named(w=of.model["w"].double() + torch.as_tensor(change), **words),
        "sentences": 5.0,
        "loss": 3.0,
    }


def steps(one, other):
    """How far two summands are apart, in steps of the fixed point."""
    return np.linalg.norm((one - other).view(np.int32).astype(float))


def test_normals_are_normal_and_a_key_says_which():
    drawn = normals(b"k" * 32, 200_001)
    assert kstest(drawn, "norm").pvalue > 1e-3
    assert np.array_equal(drawn, normals(b"k" * 32, 200_001))
    other = normals(b"l" * 32, 200_001)
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.01
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.01
    assert np.abs(drawn).max() < 8.6


@settings(max_examples=200)
@given(arrays(np.float64, 6, elements=ANY), arrays(np.float64, 2, elements=ANY), st.sampled_from([1e-3, 0.5, 40.0]))
def test_no_change_of_a_platform_is_longer_than_the_clip(change, rows, clip):
    of = layout("platform", clip=clip)
    with np.errstate(all="ignore"):
        found = of.summand(reply(of, change, torch.as_tensor(rows)), b"key")
    assert steps(found, of.summand({}, b"key")) <= clip * of.fixed.scale


@settings(max_examples=200)
@given(arrays(np.float64, 6, elements=st.floats(-2, 2)), arrays(np.float64, 6, elements=st.floats(-1, 1)))
def test_a_sentence_more_changes_the_sum_by_no_more_than_is_counted_with(others, gradient):
    of = layout("sentence")
    gradient = gradient * min(1, 0.5 / max(np.linalg.norm(gradient), 1e-9))
    with_it, without = (of.summand(reply(of, change), b"key") for change in (others + gradient, others))
    assert steps(with_it, without) <= of.longest
    assert of.longest < 0.5 * of.fixed.scale * 1.002


def test_only_changes_of_weights_are_in_a_sum():
    of = layout("platform")
    assert {part.field for part in of.parts} == {"weights"}
    assert of.size == 12
    said = {**reply(of, np.full(6, 0.01)), "sentences": 7.0, "loss": 0.0}
    assert np.array_equal(of.summand(said, b"key"), of.summand(reply(of, np.full(6, 0.01)), b"key"))
    assert Summed(of).trained() is None
    with pytest.raises(KeyError):
        Summed(of).number("loss")


@pytest.mark.parametrize(("parties", "stay"), [(10, 6), (10, 10), (20, 12), (3, 3)])
@pytest.mark.parametrize("unit", ["platform", "sentence"])
def test_the_noise_that_is_left_is_what_is_promised(unit, parties, stay):
    """Of those who stay, a fifth of all that were asked tell their noise; the variance of the rest's is what counts."""
    of = layout(unit, parties=parties, size=40_000, noise=2.0)
    liars = math.floor(0.2 * parties)
    words = [of.summand({}, bytes([number])) for number in range(stay - liars)]
    left = np.sum(words, axis=0, dtype=np.uint32).view(np.int32).astype(float)[:40_000]
    promised = (2.0 * of.longest) ** 2
    enough = stay == of.mechanism.enough(parties)
    assert of.mechanism.honest(parties) == of.mechanism.enough(parties) - liars
    share = len(words) / of.mechanism.honest(parties)
    assert left.var() == pytest.approx(promised * share, rel=0.05)
    assert not enough or share == 1
    assert share >= 1


def test_the_mean_of_platforms_counts_them_alike():
    of = layout("platform", parties=3, noise=1e-2)
    summed = Summed(of)
    for number, change in enumerate((0.1, -0.05, 0.1)):
        summed.add(f"p{number}", masked(of.summand(reply(of, np.full(6, change)), bytes([number]))))
    mean = summed.mean(of.model, "weights", "sentences")
    assert mean["w"].numpy() == pytest.approx(of.model["w"].numpy() + 0.05, abs=0.02)
    assert mean["w"].dtype == torch.float32


def test_gradients_are_divided_by_the_sentences_that_are_held():
    of = layout("sentence", parties=3, noise=1e-2)
    assert {part.field for part in of.parts} == {"weights", "sentences"}
    summed = Summed(replace(of, rate=20.0))
    for number, held in enumerate((8, 2)):  # others dropped out
        mine = replace(of, held=held)
        summed.add(f"p{number}", masked(mine.summand(reply(of, np.full(6, -0.1)), bytes([number]))))
    assert summed.number("sentences") == 10
    mean = summed.mean(of.model, "weights", "sentences")
    assert mean["w"].numpy() == pytest.approx(of.model["w"].numpy() - 0.2 * 20 / 10, abs=0.05)


def test_who_holds_more_sentences_than_all_agreed_on_does_not_take_part():
    of = layout("sentence")
    with pytest.raises(UserError, match="sentences: a number is not within 8"):
        replace(of, held=9).summand({}, b"key")


@pytest.mark.parametrize("unit", ["platform", "sentence"])
@pytest.mark.parametrize("noise", [1e-2, 4.0, 400.0])
def test_tags_of_noisy_numbers_are_tags_of_their_sum(unit, noise):
    """However long the noise is, no sum of it goes around, which tags would take for a sum that was made up."""
    of = layout(unit, parties=7, noise=noise, size=2000)
    words = [of.summand({}, bytes([number])) for number in range(7)]
    sent = [tags.of(it, of.cyclic, b"k" * 32) for it in words]
    total, found = (np.sum(it, axis=0, dtype=np.uint32) for it in (words, sent))
    assert tags.fit(total, found, of.cyclic, b"k" * 32, 7)
    total[3] += 1
    assert not tags.fit(total, found, of.cyclic, b"k" * 32, 7)


@given(st.integers(1, 1000), st.floats(0, 0.5), st.integers(2, 40))
def test_somebodys_noise_can_always_be_counted_on(parties, colluders, least):
    mechanism = Mechanism("platform", 1.0, 1.0, colluders, least)
    assert 1 <= mechanism.honest(parties) <= max(parties, least)


def test_without_a_secret_there_is_no_noise():
    with pytest.raises(RuntimeError, match="no secret"):
        layout("platform").summand({}, noise_key(b"", "p0", 1, "train", b"asked"))


def test_sums_that_are_too_coarse_are_refused():
    with pytest.raises(UserError, match="too coarse"):
        layout("sentence", sentences=2**24, size=10_000, parties=20).summand({}, b"key")
    with pytest.raises(UserError, match="too fine"):
        layout("platform", noise=1e-8).summand({}, b"key")


def test_another_question_has_other_noise_and_the_same_one_the_same():
    message, units = {"weights": Named(w=torch.ones(2))}, Units(3, 8)
    asked = question(message, units, {})
    assert asked == question({"weights": Named(w=torch.ones(2))}, Units(3, 8), {})
    others = [
        question({"weights": Named(w=torch.tensor([1.0, 2.0]))}, units, {}),
        question(message, Units(4, 8), {}),
        question(message, units, {"h": Named(w=torch.ones(2))}),
    ]
    assert len({asked, *others}) == 4
    key = noise_key(b"s", "p0", 1, "train", asked)
    assert key == noise_key(b"s", "p0", 1, "train", asked)
    differing = [("p1", 1, "train"), ("p0", 2, "train"), ("p0", 1, "score")]
    assert len({key, *(noise_key(b"s", *it, asked) for it in differing), noise_key(b"t", "p0", 1, "train", asked)}) == 5
