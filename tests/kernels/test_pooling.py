"""Max-pooling by pieces, and windows, on numbers worked out by hand."""

import torch

from fedrel.kernels.pooling import piece_max
from fedrel.kernels.windows import windows


def test_every_row_is_beside_its_neighbours():
    rows = torch.arange(1.0, 4.0)[:, None].requires_grad_()
    seen = windows(rows, 3)
    assert seen.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 0]]
    seen.sum().backward()
    assert rows.grad is not None
    assert rows.grad.squeeze().tolist() == [2, 3, 2]


def test_the_maximum_of_each_piece():
    rows = torch.tensor([[1.0, 5.0], [3.0, 2.0], [-4.0, -1.0]], requires_grad=True)
    best = piece_max(rows, torch.tensor([2, 2, 3]), torch.tensor([2, 0, 1]))
    assert best.tolist() == [[3, 5], [0, 0], [-4, -1]]  # the empty piece gives 0
    best.backward(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert rows.grad is not None
    assert rows.grad.tolist() == [[0, 2], [1, 0], [5, 6]]


def test_of_rows_that_tie_the_first_takes_the_gradient():
    rows = torch.tensor([[2.0], [2.0], [1.0]], requires_grad=True)
    piece_max(rows, torch.tensor([3]), torch.tensor([3])).sum().backward()
    assert rows.grad is not None
    assert rows.grad.squeeze().tolist() == [1, 0, 0]
