"""Tags belong to one sum: whatever is changed in it, they no longer fit."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import given
from hypothesis import strategies as st

from fedrel.privacy import tags
from fedrel.privacy.masks import derived_key
from fedrel.privacy.stretches import STRETCH

KEY = bytes(range(32))
SIZE, CYCLIC = 300, [slice(100, 200)]


def of_platforms(count, cyclic, key=KEY, seed=1):
    """Numbers of platforms, and the sums of these and of their tags mod 2^32."""
    draw = np.random.default_rng(seed)
    most = (2**31 - 1) // count
    numbers = draw.integers(-most, most, (count, SIZE)).astype(np.int32).view(np.uint32)
    for stretch in cyclic:
        numbers[:, stretch] = draw.integers(0, 2**32, numbers[:, stretch].shape, np.uint32)
    tagged = [np.concatenate([it, tags.of(it, cyclic, key)]) for it in numbers]
    total = np.sum(tagged, axis=0, dtype=np.uint32)
    return total[:SIZE].copy(), total[SIZE:].copy()


@pytest.mark.parametrize("cyclic", [[], CYCLIC, [slice(0, SIZE)]])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_sums_of_tags_fit_the_sum(cyclic, count):
    total, found = of_platforms(count, cyclic)
    assert len(found) == tags.count(cyclic)
    assert tags.fit(total, found, cyclic, KEY, count)


@given(
    st.integers(0, SIZE - 1),
    st.one_of(st.integers(1, 2**32 - 1), st.integers(0, 31).map(lambda bit: 2**bit)),
)
def test_no_change_of_one_number_goes_unnoticed(place, by):
    total, found = of_platforms(3, CYCLIC)
    total[place : place + 1] += np.uint32(by)
    assert not tags.fit(total, found, CYCLIC, KEY, 3)


def test_changed_tags_another_key_and_exchanged_numbers_are_noticed():
    total, found = of_platforms(3, CYCLIC)
    for place in range(len(found)):
        changed = found.copy()
        changed[place : place + 1] += np.uint32(7)
        assert not tags.fit(total, changed, CYCLIC, KEY, 3)
    assert not tags.fit(total, found, CYCLIC, bytes(32), 3)
    assert not tags.fit(total[::-1].copy(), found, CYCLIC, KEY, 3)
    assert not tags.fit(total, found[:-1], CYCLIC, KEY, 3)


def test_one_platform_s_sum_is_not_that_of_others():
    """Numbers that were opened in another sum do not fit, since its key is another one."""
    total, found = of_platforms(3, [], key=bytes(31) + b"1")
    assert not tags.fit(total, found, [], KEY, 3)


def test_a_tag_is_the_product_with_the_stream():
    """By Python's own integers."""
    numbers = np.array([5, 2**32 - 3, 2**31 - 1], np.uint32)
    stream = _stream(b"exact", 24)
    drawn = [int.from_bytes(stream[at : at + 8], "little") for at in (0, 8, 16)]
    expected = (drawn[0] * 5 + drawn[1] * -3 + drawn[2] * (2**31 - 1)) % 2**64
    low, high = tags.of(numbers, [], KEY)[:2]
    assert (int(high) << 32) + int(low) == expected


def test_a_tag_of_many_numbers_is_the_product_with_one_long_stream():
    """However they are divided among cores; with some that are cyclic, beyond the end of a stretch."""
    numbers = np.random.default_rng(1).integers(0, 2**32, STRETCH + 1000, np.uint32)
    cyclic = slice(STRETCH - 10, STRETCH + 20)
    drawn = np.frombuffer(_stream(b"exact", 8 * len(numbers)), "<u8")
    products = drawn * numbers.view(np.int32).astype(np.int64).view(np.uint64)
    expected = int(products.sum(dtype=np.uint64) - products[cyclic].sum(dtype=np.uint64))
    low, high, *_ = tags.of(numbers, [cyclic], KEY)
    assert (int(high) << 32) + int(low) == expected


def _stream(purpose: bytes, size: int) -> bytes:
    key = derived_key(KEY, purpose, bytes([0]))
    return Cipher(AES256(key), CTR(bytes(16))).encryptor().update(bytes(size))
