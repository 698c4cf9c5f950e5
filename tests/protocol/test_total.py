"""Sums of platforms' numbers, `hub.total`."""

import pytest
import torch

from fedrel.learning.named import Named
from fedrel.protocol.aggregation import total


def test_sums_what_was_said_and_leaves_the_replies_alone():
    replies = {
        "p1": {"counts": Named(a=torch.tensor([1, 2]), b=torch.tensor(0.5, dtype=torch.float64))},
        "p2": {},
        "p3": {"counts": Named(a=torch.tensor([10, 20]), b=torch.tensor(0.25, dtype=torch.float64))},
    }
    found = total(replies, "counts")
    assert found["a"].tolist() == [11, 22] and float(found["b"]) == 0.75
    assert replies["p1"]["counts"]["a"].tolist() == [1, 2]


def test_a_sum_over_nobody_is_no_number():
    with pytest.raises(KeyError, match="counts"):
        total({"p1": {}}, "counts")
