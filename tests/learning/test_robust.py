"""Means that a few wrong models cannot ruin: numbers worked out by hand, limits, and tables as patches or whole."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.config import Robust
from fedrel.learning import robust
from fedrel.learning.named import Named, table_patch, weighted_mean
from fedrel.learning.robust import clipped_mean, coordinate_median, distances, krum, norms, trimmed_mean
from fedrel.protocol.aggregation import mean

ZERO = Named(a=torch.zeros(2, dtype=torch.float64))


def models(*rows):
    return [Named(a=torch.tensor(row, dtype=torch.float64)) for row in rows]


def patched(seed, platforms, words=9):
    """The same models twice: with a word table as patches, and whole."""
    draw = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    base = Named(words=random(words, 3), other=random(2))
    patches, whole = [], []
    for number in range(platforms):
        rows = torch.randperm(words, generator=draw)[: int(torch.randint(0, words // 2 + 1, (1,), generator=draw))]
        values, factor, other = random(len(rows), 3), 1 - 0.01 * number, random(2)
        table = base["words"] * factor
        table[rows] = values
        patches.append(Named(other=other) | table_patch("words", rows.int(), values, factor))
        whole.append(Named(words=table, other=other))
    return base, [Named(patch) for patch in patches], whole


def agreement(base, patches):
    return robust.agreement(base, patches, norms(base, patches))


def same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=1e-10)


def test_lengths_and_cosines_by_hand():
    """Of lengths 5, 5 and 10, the last counts half. The others of the first are then (6, 8): the same way."""
    found = models([3, 4], [3, 4], [-6, -8])
    assert norms(ZERO, found) == [5, 5, 10]
    right = models([1, 0], [0, 1], [1, 1])
    cosines = agreement(ZERO, right)  # lengths 1, 1, √2; the median 1, so the third counts as (1, 1)/√2
    part = 1 / math.sqrt(2)
    assert cosines[0] == pytest.approx(part / math.hypot(part, 1 + part))
    assert cosines[2] == pytest.approx(1)
    assert agreement(ZERO, found) == pytest.approx([0, 0, -1])  # (3, 4) and (-3, -4) leave nothing to compare with


def test_who_changed_nothing_agrees_with_nobody_and_disturbs_nobody():
    assert agreement(ZERO, models([0, 0], [1, 0], [2, 0], [3, 0]))[0] == 0
    assert agreement(ZERO, models([0, 0], [0, 0])) == [0, 0]


def test_a_clipped_mean_by_hand():
    """Lengths 1, 2 and 30: the last becomes 2. (1·1 + 1·2 + 2·2) / 4."""
    found = clipped_mean(ZERO, models([1, 0], [2, 0], [30, 0]), [1, 1, 2], 1.0)
    assert found["a"].tolist() == pytest.approx([7 / 4, 0])


def test_the_median_by_hand():
    assert coordinate_median(ZERO, models([1, 9], [2, 7], [1e9, -1e9]))["a"].tolist() == [2, 7]
    assert coordinate_median(ZERO, models([1, 0], [2, 0], [4, 0], [1e9, 0]))["a"].tolist() == [3, 0]


def test_the_trimmed_mean_by_hand():
    rows = [[1.0, 5], [2, 4], [6, 3], [1e9, 2], [-1e9, 1]]
    assert trimmed_mean(ZERO, models(*rows), 0.2)["a"].tolist() == [3, 3]
    assert trimmed_mean(ZERO, models(*rows), 0.19)["a"].tolist() == pytest.approx([9 / 5, 3])  # of five, none is cut
    assert trimmed_mean(ZERO, models(*rows), 0.49)["a"].tolist() == [2, 3]  # one is left: the median


def test_krum_by_hand():
    """n = 5, f = 1: two nearest. Of 0, 1, 3, 3.5, 100 the sums of squares are 10, 5, 4.25, 6.5 and 18721.25."""
    rows = [[0.0, 0], [1, 0], [3, 0], [3.5, 0], [100, 0]]
    assert krum(ZERO, models(*rows), 0.2)["a"].tolist() == [3, 0]
    squares = distances(ZERO, models(*rows))
    assert squares[0].tolist() == pytest.approx([0, 1, 9, 12.25, 10_000]) and torch.equal(squares, squares.T)


@pytest.mark.parametrize("count", [1, 2])
def test_of_one_or_two_krum_takes_the_first(count):
    assert krum(ZERO, models([1, 2], [3, 4])[:count], 0.2)["a"].tolist() == [1, 2]


@given(st.integers(0, 2**16), st.integers(1, 6))
def test_at_their_limits_all_are_the_mean(seed, platforms):
    base, patches, whole = patched(seed, platforms)
    weights = [1.0 + number for number in range(platforms)]
    expected = weighted_mean(base, patches, weights)
    found = clipped_mean(base, patches, weights, math.inf)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    same(trimmed_mean(base, patches, 0.0), weighted_mean(base, patches, [1.0] * platforms))
    same(coordinate_median(base, patches[:1]), whole[0])
    same(coordinate_median(base, patches[:2]), weighted_mean(base, patches[:2], [1.0] * len(patches[:2])))
    same(krum(base, patches[:1], 0.2), whole[0])


@given(st.integers(0, 2**16), st.integers(1, 7), st.integers(1, 60))
def test_patches_give_what_whole_tables_give(seed, platforms, at_once):
    base, patches, whole = patched(seed, platforms)
    before = robust._AT_ONCE
    try:
        robust._AT_ONCE = at_once  # a table in parts
        assert norms(base, patches) == pytest.approx(norms(base, whole))
        assert agreement(base, patches) == pytest.approx(agreement(base, whole), abs=1e-9)
        weights = [1.0 + number for number in range(platforms)]
        same(clipped_mean(base, patches, weights, 0.7), clipped_mean(base, whole, weights, 0.7))
        same(coordinate_median(base, patches), coordinate_median(base, whole))
        same(trimmed_mean(base, patches, 0.3), trimmed_mean(base, whole, 0.3))
        torch.testing.assert_close(distances(base, patches), distances(base, whole))
        same(krum(base, patches, 0.3), krum(base, whole, 0.3))
    finally:
        robust._AT_ONCE = before


@given(st.integers(0, 2**16), st.floats(-1e6, 1e6), st.sampled_from(["clipped", "median", "trimmed", "krum"]))
def test_one_liar_of_five_moves_a_robust_mean_little(seed, lie, aggregation):
    draw = torch.Generator().manual_seed(seed)
    honest = [Named(a=1 + 0.1 * torch.randn(2, generator=draw, dtype=torch.float64)) for _ in range(4)]
    replies = {f"p{number}": {"weights": it, "sentences": 1.0} for number, it in enumerate(honest)}
    replies["liar"] = {"weights": Named(a=torch.full((2,), lie, dtype=torch.float64)), "sentences": 1.0}
    found = mean(ZERO, replies, "weights", by="sentences", how=Robust(aggregation=aggregation))
    assert (found["a"] - 1).abs().max() < 1


@pytest.mark.parametrize("aggregation", ["mean", "clipped", "median", "trimmed", "krum"])
def test_nobody_leaves_the_weights_as_they_were(aggregation):
    assert mean(ZERO, {"silent": {}}, "weights", by="sentences", how=Robust(aggregation=aggregation)) is ZERO


def test_heads_are_counted_or_weights_by_any_field():
    replies = {
        "p0": {"weights": Named(a=torch.zeros(2)), "trust": 1.0},
        "p1": {"weights": Named(a=torch.ones(2)), "trust": 3.0},
        "p2": {"weights": Named(a=torch.ones(2)), "trust": 0.0},
    }
    base = Named(a=torch.zeros(2))
    assert mean(base, replies, "weights", by="trust")["a"].tolist() == [0.75, 0.75]
    trimmed = mean(base, replies, "weights", by="trust", how=Robust(aggregation="trimmed", liars=0))
    assert trimmed["a"].tolist() == pytest.approx([2 / 3, 2 / 3])
