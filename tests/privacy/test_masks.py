"""The arithmetic of secure sums: fixed point without overflow, keys and streams as the standards have them, shares."""

import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import given
from hypothesis import strategies as st

from fedrel.privacy import masks, shares
from fedrel.privacy.fixed_point import FixedPoint
from fedrel.privacy.masks import add_streams, agreed_secret, derived_key, packed, public_bytes
from fedrel.privacy.stretches import STRETCH

BOUNDS = st.floats(1e-6, 1e9)
PARTIES = st.integers(1, 5000)


# ---------------------------------------------------------------------------------------------- fixed point


@given(BOUNDS, PARTIES, st.sampled_from([-1.0, 1.0]))
def test_nothing_overflows_where_all_send_the_bound(bound, parties, sign):
    kept = FixedPoint(bound, parties)
    one = kept.encode(np.array([sign * bound]))
    whole = int(one.view(np.int32)[0]) * parties
    assert abs(whole) < 2**31
    total = (one.astype(np.uint64) * parties).astype(np.uint32)
    assert int(total.view(np.int32)[0]) == whole
    assert kept.decode(total)[0] == pytest.approx(sign * bound * parties, abs=parties / kept.scale)
    assert FixedPoint(bound, parties).scale * 2 * bound * parties > 2**30, "no more bits are lost than must be"


@given(st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=12), st.randoms())
def test_sums_do_not_depend_on_the_order_and_are_close(rows, chance):
    kept = FixedPoint(3.0, len(rows))
    encoded = [kept.encode(np.array(row)) for row in rows]
    shuffled = chance.sample(encoded, len(encoded))
    total = np.sum(encoded, axis=0, dtype=np.uint32)
    assert np.array_equal(total, np.sum(shuffled, axis=0, dtype=np.uint32))
    np.testing.assert_allclose(kept.decode(total), np.sum(rows, axis=0), atol=len(rows) / kept.scale)


@pytest.mark.parametrize("number", [1.0001, -2.0, np.nan, np.inf])
def test_a_number_beyond_the_bound_is_refused(number):
    with pytest.raises(ValueError, match="a number is not within 1"):
        FixedPoint(1.0, 3).encode(np.array([0.5, number]))


@pytest.mark.parametrize(("bound", "parties"), [(0.0, 3), (np.nan, 3), (np.inf, 3), (1.0, 0), (1.0, 2**31)])
def test_bounds_that_cannot_be_kept_are_refused(bound, parties):
    with pytest.raises(ValueError, match="must be from"):
        FixedPoint(bound, parties)


# ---------------------------------------------------------------------------------------- as the standards have it


def test_keys_agree_as_in_rfc_7748():
    alice = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    agreed = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    ours, theirs = (X25519PrivateKey.from_private_bytes(it) for it in (alice, bob))
    assert public_bytes(ours).hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert agreed_secret(ours, public_bytes(theirs)).hex() == agreed
    assert agreed_secret(theirs, public_bytes(ours)).hex() == agreed


def test_a_key_of_low_order_agrees_on_nothing():
    for key in (bytes(32), (1).to_bytes(32, "little")):
        with pytest.raises(ValueError):
            agreed_secret(X25519PrivateKey.generate(), key)


def test_keys_are_derived_as_in_rfc_5869():
    """Its third case, without salt and purpose: the first 32 of 42 bytes."""
    assert derived_key(b"\x0b" * 22).hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"


def test_aes_counts_as_in_nist_sp_800_38a():
    """F.5.5, CTR-AES256.Encrypt: what its text is masked with."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    text = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52ef"
    sent = "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c52b0930daa23de94ce87017ba2d84988d"
    assert _counted(key, int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16), bytes.fromhex(text)).hex() == sent


def _counted(key: bytes, counter: int, text: bytes) -> bytes:
    return Cipher(AES256(key), CTR(counter.to_bytes(16, "big"))).encryptor().update(text)


@pytest.mark.parametrize("counting", [masks._plainly, masks._by_gcm])
def test_a_stream_begins_as_in_the_specification_of_gcm(counting):
    """McGrew and Viega 2005, test case 14: 16 zeros under a key and a nonce of zeros."""
    assert counting(bytes(32), 0).update(bytes(16)).hex() == "cea7403d4d606b6e074ec5d3baf39d18"


@pytest.mark.parametrize("counting", [masks._plainly, masks._by_gcm])
@pytest.mark.parametrize("stretch", [0, 1, 300, 2**32 + 1])
def test_however_it_is_computed_a_stretch_counts_from_its_place(counting, stretch):
    key = bytes(range(32))
    assert counting(key, stretch).update(bytes(1000)) == _counted(key, stretch * 2**32 + 2, bytes(1000))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="nothing here says which cores a process may use")
@pytest.mark.parametrize("most", [1, None])
def test_streams_are_little_endian_numbers_stretch_by_stretch_on_any_number_of_cores(most):
    """Two stretches and a little more, of two streams."""
    keys, size = [bytes(32), bytes(range(32))], 2 * STRETCH + 5
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:most])
    try:
        total = np.zeros(size, np.uint32)
        add_streams(total, add=keys[:1], subtract=keys[1:])
    finally:
        os.sched_setaffinity(0, allowed)
    streams = [b"".join(_counted(key, place * 2**32 + 2, bytes(4 * STRETCH)) for place in range(3)) for key in keys]
    added, taken = (np.frombuffer(it, "<u4")[:size] for it in streams)
    assert np.array_equal(total, added - taken)


@given(
    st.lists(st.binary(min_size=32, max_size=32), max_size=3, unique=True), st.sampled_from([0, 1, 100, STRETCH + 3])
)
def test_streams_cancel_exactly(keys, size):
    before = np.arange(size, dtype=np.uint32) * np.uint32(2654435761)
    total = before.copy()
    add_streams(total, add=keys, subtract=[])
    assert np.array_equal(total, before) == (not keys or not size)
    for key in reversed(keys):
        add_streams(total, add=[], subtract=[key])
    assert np.array_equal(total, before)


def test_different_parts_never_give_the_same_bytes():
    assert len({packed(b"ab", b"c"), packed(b"a", b"bc"), packed(b"abc"), packed(b"abc", b""), packed()}) == 5


# ---------------------------------------------------------------------------------------------------- shares


def test_the_field_is_one():
    """Fermat's test with many bases; 2^256 + 297 has no small factor either."""
    assert all(pow(base, shares.PRIME - 1, shares.PRIME) == 1 for base in range(2, 60))
    assert all(shares.PRIME % factor for factor in range(2, 10_000))


@given(st.binary(min_size=32, max_size=32), st.integers(1, 9), st.randoms())
def test_as_many_shares_as_the_threshold_give_the_secret_back(secret, threshold, chance):
    holders = chance.randint(threshold, 12)
    made = shares.split(secret, holders, threshold)
    some = chance.sample(range(1, holders + 1), threshold)
    assert shares.join({x: made[x - 1] for x in some}) == secret
    assert all(len(share) == shares.SHARE_BYTES for share in made)


def test_fewer_shares_fit_every_secret():
    """With one share less than the threshold, a last share exists for any secret: they say nothing about it."""
    made = shares.split(bytes(32), 3, 3)
    known = {1: made[0], 2: made[1]}
    for wanted in (b"\x01" * 32, b"\xff" * 32, bytes(32)):
        target = int.from_bytes(wanted, "big")
        weights = shares._weights((1, 2, 3))
        rest = sum(int.from_bytes(known[x], "big") * weights[x] for x in known)
        third = (target - rest) * pow(weights[3], -1, shares.PRIME) % shares.PRIME
        assert shares.join({**known, 3: third.to_bytes(shares.SHARE_BYTES, "big")}) == wanted


@pytest.mark.parametrize(("secret", "holders", "threshold"), [(b"short", 3, 2), (bytes(32), 2, 3), (bytes(32), 2, 0)])
def test_shares_that_could_not_be_joined_are_not_made(secret, holders, threshold):
    with pytest.raises(ValueError, match="are to suffice"):
        shares.split(secret, holders, threshold)
