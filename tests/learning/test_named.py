import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.learning.named import Named, apply_patch, table_patch, weighted_mean


def test_arithmetic_reads_like_a_formula():
    x, y = Named(a=torch.tensor([4.0]), b=torch.tensor([6.0])), Named(a=torch.tensor([1.0]), b=torch.tensor([2.0]))
    c = (x - y) / 2 + 3 * y.zeros()
    assert c["a"].item() == 1.5
    assert c["b"].item() == 2.0


def test_different_names_do_not_add():
    with pytest.raises(ValueError, match="names differ"):
        Named(a=torch.zeros(1)) + Named(b=torch.zeros(1))


def test_changed_rows_do_not_add_and_the_message_says_how_they_do():
    whole = Named(words=torch.ones(3, 2))
    rows = table_patch("words", torch.tensor([1]), torch.zeros(1, 2), 0.5)
    with pytest.raises(
        ValueError, match=r"'words#values'\]; make a trained model whole .* apply_patch\(sent, trained\)"
    ):
        rows - whole
    assert (apply_patch(whole, rows) - whole)["words"].tolist() == [[-0.5, -0.5], [-1.0, -1.0], [-0.5, -0.5]]


@given(st.integers(0, 2**16), st.integers(1, 4))
def test_mean_of_patches_is_the_dense_mean(seed, platforms):
    draw = torch.Generator().manual_seed(seed)
    base = Named(words=torch.randn(9, 3, generator=draw, dtype=torch.float64), other=torch.zeros(2))
    patches, dense, weights = [], [], [1.0 + number for number in range(platforms)]
    for number in range(platforms):
        rows = torch.randperm(9, generator=draw)[: number + 1]
        values = torch.randn(len(rows), 3, generator=draw, dtype=torch.float64)
        factor = 1 - 0.01 * number
        whole = base["words"] * factor
        whole[rows] = values
        other = torch.full((2,), float(number))
        patches.append(Named(other=other) | table_patch("words", rows.int(), values, factor))
        dense.append(Named(words=whole, other=other))
    sparse, reference = weighted_mean(base, patches, weights), weighted_mean(base, dense, weights)
    for name in reference:
        torch.testing.assert_close(sparse[name], reference[name], rtol=0, atol=1e-12)


def test_a_patch_applied_is_the_model_it_stands_for():
    base = Named(words=torch.ones(3, 2))
    patch = Named(table_patch("words", torch.tensor([1]), torch.tensor([[5.0, 6.0]]), 0.5))
    assert apply_patch(base, patch)["words"].tolist() == [[0.5, 0.5], [5.0, 6.0], [0.5, 0.5]]


def test_no_replies_leave_the_weights_as_they_were():
    base = Named(a=torch.ones(2))
    assert weighted_mean(base, [], []) is base


@pytest.mark.parametrize("row", [-1, 4, 2**31 - 1])
def test_rows_that_a_table_lacks_are_refused(row):
    base = Named(words=torch.zeros(4, 2))
    patch = table_patch("words", torch.tensor([1, row], dtype=torch.int32), torch.ones(2, 2), 1.0)
    with pytest.raises((IndexError, RuntimeError)):
        weighted_mean(base, [patch], [1.0])
