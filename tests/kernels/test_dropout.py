"""Dropout from a counter."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrel.kernels.dropout import Draws, kept, key, stays

SEEDS = st.integers(0, 2**63 - 1)


@given(SEEDS, st.integers(0, 1000), st.floats(0.01, 0.99))
def test_the_compiled_draws_are_those_of_any_device(seed: int, call: int, dropout: float) -> None:
    vectors = torch.zeros(7, 31)
    places = torch.arange(vectors.numel(), dtype=torch.int32)
    expected = stays(places + key(seed, call), dropout).view(7, 31)
    scales = kept(vectors, key(seed, call), dropout)
    assert torch.equal(scales > 0, expected)
    assert torch.allclose(scales[expected], torch.tensor(1 / (1 - dropout)))


@given(SEEDS)
def test_calls_draw_apart_from_each_other(seed: int) -> None:
    draws = Draws(seed)
    keys = [draws.next_key() for _ in range(100)]
    assert len(set(keys)) == 100
    assert keys == [key(seed, call) for call in range(100)]


def test_as_many_stay_as_should_and_places_are_independent() -> None:
    draws, vectors = Draws(5), torch.zeros(32, 690)
    stayed = torch.stack([kept(vectors, draws.next_key(), 0.3).view(-1) > 0 for _ in range(200)]).double()
    assert abs(stayed.mean() - 0.7) < 0.001
    assert abs(stayed.mean(0).std() - (0.21 / 200) ** 0.5) < 0.001  # of a place over the calls
    centred = stayed - stayed.mean()
    for lag in (1, 2, 3, 16, 230, 256, 690):
        assert abs((centred[:, lag:] * centred[:, :-lag]).mean()) < 0.002
