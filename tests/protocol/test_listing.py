"""How platforms list facts: an order by key that can be undone, and scores rounded down."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.protocol import in_key_order, rounded_down

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=40)


@given(KEYS, st.randoms(use_true_random=False))
def test_entries_are_in_the_order_of_keys_and_every_fact_finds_its_own(keys, chance):
    listed = torch.tensor([chance.random() < 0.6 for _ in keys], dtype=torch.bool)
    told = torch.tensor(keys, dtype=torch.int64)
    bags, entry = in_key_order(told, listed)
    assert told[bags].tolist() == sorted(told[listed].tolist())
    assert torch.equal(told[bags][entry], told[listed])  # what is answered entry by entry, in the order of the bags


@given(KEYS, st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_depend_on_the_order_of_bags(keys, chance):
    other = chance.sample(keys, len(keys))
    everything = torch.ones(len(keys), dtype=torch.bool)
    said = [torch.tensor(it, dtype=torch.int64) for it in (keys, other)]
    assert torch.equal(*(it[in_key_order(it, everything)[0]] for it in said))


@given(
    st.lists(st.floats(-1e4, 1e4, width=32), max_size=30),
    st.sampled_from([0.25, 0.5, 1.0, 2.0, 8.0]),  # exact in binary, so that the limits below are
)
def test_scores_are_multiples_of_the_step_and_less_than_a_step_lower(scores, step):
    before = torch.tensor(scores, dtype=torch.float32)
    after = rounded_down(before, step)
    assert torch.equal(after, (after / step).round() * step)
    assert bool(((after <= before) & (before < after + step)).all())
    assert torch.equal(rounded_down(after, step), after)


def test_a_step_of_zero_leaves_scores_as_they_are():
    scores = torch.tensor([0.123, -7.7])
    assert rounded_down(scores, 0.0) is scores
