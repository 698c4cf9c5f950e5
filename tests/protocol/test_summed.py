"""Replies as integers that add up: exactly, whatever their order, and never beyond 32 bits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.errors import DivergedError, UserError
from fedrel.learning.named import ROWS, Named, table_patch, weighted_mean
from fedrel.protocol.aggregation import mean, total
from fedrel.protocol.form import Form
from fedrel.protocol.summed import REACH, Layout, Summed, Units, masked, objection_to_form

TRAIN = Form({"weights": "model", "sentences": "sentences", "loss": "loss"}, or_nothing=True)
BASE = Named(words=torch.randn(7, 3, generator=torch.Generator().manual_seed(1)), bias=torch.zeros(4))


def layout(form=TRAIN, parties=3, sentences=64, base=BASE, **sizes):
    return Layout(form, Units(parties, sentences), base, sizes)


def summed(of, replies):
    found = Summed(of)
    for name, reply in replies.items():
        found.add(name, masked(of.summand(reply)))
    return found


def reply(seed, sentences, loss=1.5, spread=0.1):
    drawn = torch.Generator().manual_seed(seed)
    moved = Named({name: value + spread * torch.randn(value.shape, generator=drawn) for name, value in BASE.items()})
    return {"weights": moved, "sentences": float(sentences), "loss": loss}


@given(st.lists(st.integers(1, 64), min_size=1, max_size=6))
def test_a_mean_of_sums_is_the_mean_to_the_last_digits(counts):
    replies = {f"p{place}": reply(place, count) for place, count in enumerate(counts)}
    found = summed(layout(parties=len(counts)), replies)
    expected = mean(BASE, replies, "weights", by="sentences")
    learnt = mean(BASE, found, "weights", by="sentences")
    most = 64 / sum(counts) * len(counts) ** 2 * REACH / 2**30 + 1e-6  # what fixed point and floats may be off by
    assert all(torch.allclose(learnt[name], value, rtol=0, atol=most) for name, value in expected.items())
    assert found.number("sentences") == sum(counts)
    assert found.number("") == len(counts) == len(found)
    loss, sentences = found.trained()
    assert loss == pytest.approx(1.5, abs=1e-4) and sentences == sum(counts)


@given(st.permutations(range(5)))
def test_the_order_of_platforms_does_not_change_a_bit(order):
    of = layout(parties=5)
    replies = {f"p{place}": reply(place, place + 1) for place in range(5)}
    learnt = summed(of, {f"p{place}": replies[f"p{place}"] for place in order}).mean(BASE, "weights", "sentences")
    again = summed(of, replies).mean(BASE, "weights", "sentences")
    assert all(torch.equal(learnt[name], value) for name, value in again.items())


@pytest.mark.parametrize("parties", [1, 2, 3, 100, 1000])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_at_the_bounds_nothing_overflows(parties, sign):
    of = layout(parties=parties, sentences=2**16)
    far = Named({name: value + sign * REACH for name, value in BASE.items()})
    extreme = {"weights": far, "sentences": float(2**16), "loss": sign * 64.0}
    found = Summed(of)
    words = masked(of.summand(extreme))
    for place in range(parties):
        found.add(f"p{place}", words)
    learnt = found.mean(BASE, "weights", "sentences")
    assert all(torch.allclose(learnt[name], value, atol=1e-5) for name, value in far.items())
    assert found.number("sentences") == parties * 2**16
    assert found.trained() == (sign * 64.0, parties * 2**16)


def test_a_weight_that_moved_farther_counts_as_moved_by_the_reach():
    far = Named({name: value + 100.0 for name, value in BASE.items()})
    found = summed(layout(parties=1), {"p0": {"weights": far, "sentences": 64.0, "loss": 0.0}})
    learnt = found.mean(BASE, "weights", "sentences")
    assert all(torch.allclose(learnt[name], value + REACH) for name, value in BASE.items())


def test_a_table_of_which_few_rows_came_is_summed_whole():
    patch = Named({"bias": BASE["bias"], **table_patch("words", torch.tensor([2, 5]), torch.ones(2, 3), 0.5)})
    found = summed(layout(parties=1), {"p0": {"weights": patch, "sentences": 64.0, "loss": 0.0}})
    learnt, expected = found.mean(BASE, "weights", "sentences"), weighted_mean(BASE, [patch], [1.0])
    assert torch.allclose(learnt["words"], expected["words"], atol=1e-6)
    other = Named({**patch, "words" + ROWS: torch.tensor([0, 1])})
    sizes = {len(layout().summand({"weights": it, "sentences": 1.0, "loss": 0.0})) for it in (patch, other, BASE)}
    assert sizes == {layout().size}, "which rows were trained is not seen in the size"


def test_platforms_with_nothing_to_say_add_zeros():
    found = summed(layout(), {"p0": reply(0, 10), "p1": {}, "p2": {}})
    assert (len(found), found.number(""), found.number("sentences")) == (3, 1.0, 10.0)
    nobody = summed(layout(), {"p0": {}, "p1": {}})
    assert nobody.mean(BASE, "weights", "sentences") is BASE
    assert nobody.trained() is None


def test_plain_means_count_all_alike():
    form = Form({**TRAIN.fields}, plain=True)
    replies = {"p0": reply(0, 1), "p1": reply(1, 60)}
    learnt = mean(BASE, summed(layout(form), replies), "weights", by=None)
    expected = mean(BASE, replies, "weights", by=None)
    assert all(torch.allclose(learnt[name], value, rtol=0, atol=1e-6) for name, value in expected.items())
    with pytest.raises(TypeError, match=r"mean\(by='sentences'\): the task declares a mean by None"):
        mean(BASE, summed(layout(form), replies), "weights", by="sentences")


def test_counts_and_sums_of_tensors():
    form = Form(
        {"background": {"sentences": "i64 counts", "squares": "f64 relations sums", "any": "i32 relations cyclic"}}
    )
    replies = {
        name: {
            "background": Named(
                sentences=torch.tensor(count),
                squares=torch.tensor([count / 3, 2.0]).double(),
                any=torch.tensor([2**31 - 1, -5], dtype=torch.int32),
            )
        }
        for name, count in (("p0", 31), ("p1", 64))
    }
    found = total(summed(layout(form, relations=2), replies), "background")
    assert found["sentences"] == 95 and found["sentences"].dtype == torch.int64
    assert torch.allclose(found["squares"], torch.tensor([95 / 3, 4.0]).double(), atol=0.01)
    assert found["any"].tolist() == [-2, -10], "mod 2^32"


def test_no_reply_can_be_looked_at_by_itself():
    found = summed(layout(), {"p0": reply(0, 10)})
    with pytest.raises(UserError, match="looks at the reply of p0 by itself"):
        found["p0"]
    with pytest.raises(UserError):
        list(found.values())


def test_what_is_no_number_and_what_is_too_much_is_refused():
    with pytest.raises(DivergedError):
        layout().summand({**reply(0, 1), "loss": float("nan")})
    with pytest.raises(UserError, match="is not within"):
        layout().summand(reply(0, 65))
    with pytest.raises(UserError, match="too many for sums of 32 bits"):
        Units.of(1000, {"p0": 10_000_000})
    assert Units.of(3, {"p0": 65, "p1": 2}) == Units(3, 128)


@pytest.mark.parametrize(
    ("fields", "objection"),
    [
        (TRAIN.fields, ""),
        ({"weights": "whole model", "sentences": "weight", "loss": "loss"}, ""),
        ({"weights": "model", "loss": "loss"}, "models without their sentences"),
        ({"change": "difference"}, "change"),
        ({"steps": "steps"}, "steps"),
        ({"ballot": {"key": "i64 n", "score": "f32 n logodds"}}, "ballot"),
        ({"log": {"p": "f16 common relations logprob"}}, "log"),
    ],
)
def test_what_can_be_added_up(fields, objection):
    assert objection_to_form(Form(fields)) == objection


def test_a_summand_of_another_size_is_none():
    with pytest.raises(ValueError, match="integers where"):
        Summed(layout()).add("p0", masked(np.zeros(3, np.uint32)))
