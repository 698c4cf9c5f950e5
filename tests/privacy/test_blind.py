"""Keys of facts: what makes them differ, and that nothing else does."""

from itertools import combinations

import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from fedrel.privacy.blind import blind, of_agreement, of_round, of_run

KEY = bytes(range(32))
FACTS = [f"Q{n}\tborn in\tQ{n + 1}" for n in range(100)]


def test_all_who_agree_have_the_same_keys():
    assert of_agreement(KEY, "run", b"digest") == of_agreement(KEY, "run", b"digest")
    assert len(of_agreement(KEY, "run", b"digest")) == 32


def test_runs_of_one_name_with_other_ids_or_other_agreements_have_unrelated_keys():
    secrets = [
        of_agreement(KEY, "first id", b"agreed"),
        of_agreement(KEY, "second id", b"agreed"),
        of_agreement(KEY, "first id", b"agreed otherwise"),
        of_agreement(bytes(32), "first id", b"agreed"),
        of_run(KEY, "first id"),
    ]
    keys = [set(blind(FACTS, secret).tolist()) for secret in secrets]
    rounds = [set(blind(FACTS, of_round(secret, 1)).tolist()) for secret in secrets]
    for one, other in combinations([*keys, *rounds], 2):
        assert not one & other
    assert torch.equal(blind(FACTS, secrets[0]), blind(FACTS, of_agreement(KEY, "first id", b"agreed")))


def test_what_moves_from_one_part_to_the_other_makes_another_key():
    made = [("ab", b"c"), ("a", b"bc"), ("abc", b""), ("", b"abc"), ("ab\0", b"c"), ("ab", b"\0c")]
    assert len({of_agreement(KEY, *parts) for parts in made}) == len(made)


@given(*[st.tuples(st.text(), st.binary(max_size=40))] * 2)
def test_no_two_agreements_share_a_key(one, other):
    assume(one != other)
    assert of_agreement(KEY, *one) != of_agreement(KEY, *other)
