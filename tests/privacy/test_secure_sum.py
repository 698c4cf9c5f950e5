"""Secure sums: exact or none, whoever drops out when, and closed to a coordinator that lies."""

from dataclasses import replace

import numpy as np
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedrel.privacy import shares
from fedrel.privacy.masks import add_streams
from fedrel.privacy.secure_sum import (
    Coordinator,
    NotOpenedError,
    Offer,
    Platform,
    Terms,
    roster_of,
)

EXCHANGES = ("offer", "share", "mask", "agree", "reveal")
KEYS = {f"p{number:02d}": Ed25519PrivateKey.generate() for number in range(60)}
TERMS = Terms(b"a sum", size=50)


def signed(name, message):
    return KEYS[name].sign(message)


def verified(name, message, signature):
    try:
        KEYS[name].public_key().verify(signature, message)
        return True
    except (InvalidSignature, KeyError):
        return False


class Party:
    """Platforms and a coordinator, exchange by exchange; `away` says who misses which."""

    def __init__(self, platforms=5, terms=TERMS, away=None):
        self.names, self.terms, self.away = list(KEYS)[:platforms], terms, away or {}
        self.coordinator = Coordinator(terms, verify=verified)
        self.platforms = {
            name: Platform(name, terms, sign=lambda message, name=name: signed(name, message), verify=verified)
            for name in self.names
        }
        chance = np.random.default_rng(platforms)
        self.numbers = {name: chance.integers(0, 2**32, terms.size, np.uint32) for name in self.names}
        self.gone = set()

    def here(self, exchange, among):
        self.gone |= {name for name in among if self.away.get(name) == exchange}
        return [name for name in among if name not in self.gone]

    def offered(self):
        return self.coordinator.offers({it: self.platforms[it].offer() for it in self.here("offer", self.names)})

    def shared(self):
        offers = self.offered()
        replies = {it: self.platforms[it].share(offers) for it in self.here("share", offers)}
        return self.coordinator.shares(replies)

    def masked(self):
        sent = self.shared()
        self.replies = {it: self.platforms[it].mask(sent[it], self.numbers[it]) for it in self.here("mask", sent)}
        return self.coordinator.masked(self.replies.items())

    def agreed(self):
        stayed = self.masked()
        replies = {it: self.platforms[it].agree(stayed) for it in self.here("agree", stayed)}
        return self.coordinator.signatures(replies)

    def revealed(self):
        signatures = self.agreed()
        return {it: self.platforms[it].reveal(signatures) for it in self.here("reveal", signatures)}

    def total(self):
        return self.coordinator.total(self.revealed())

    def expected(self):
        return np.sum([self.numbers[it] for it in self.coordinator.stayed], axis=0, dtype=np.uint32)


def test_a_sum_is_exact_and_what_is_sent_is_not_what_is_held():
    party = Party()
    assert np.array_equal(party.total(), party.expected())
    assert party.coordinator.stayed == tuple(party.names)
    for name, masked in party.replies.items():
        assert not (masked == party.numbers[name]).any()
    some = list(party.replies)[:-1]  # without one of them, the masks do not cancel
    partial = np.sum([party.replies[it] for it in some], axis=0, dtype=np.uint32)
    assert not (partial == np.sum([party.numbers[it] for it in some], axis=0, dtype=np.uint32)).any()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(3, 9), st.data())
def test_whoever_drops_out_when_the_sum_is_that_of_those_who_stayed_or_there_is_none(platforms, data):
    names = list(KEYS)[:platforms]
    away = data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from(EXCHANGES)))
    party = Party(platforms, replace(TERMS, size=7), away)
    left = {exchange: platforms for exchange in EXCHANGES}
    for number, exchange in enumerate(EXCHANGES):
        left[exchange] -= sum(when in EXCHANGES[: number + 1] for when in away.values())
    offered = left["offer"]
    needed = max(3, shares.threshold(offered))
    enough = offered >= 3 and min(left["share"], left["mask"]) >= needed and left["reveal"] >= shares.threshold(offered)
    if enough:
        assert np.array_equal(party.total(), party.expected())
        assert set(party.coordinator.stayed) == {it for it in names if away.get(it) not in EXCHANGES[:3]}
    else:
        with pytest.raises(NotOpenedError):
            party.total()


def test_a_large_roster_shares_masks_with_neighbours_alone_and_survives_drop_outs_in_every_exchange():
    away = dict(zip(list(KEYS)[::3], EXCHANGES * 4, strict=True))
    party = Party(60, replace(TERMS, size=9), away)
    assert np.array_equal(party.total(), party.expected())
    roster = party.coordinator.roster
    assert roster.sparse and len(roster.names) == 56
    for name in roster.names:
        near = roster.neighbours(name)
        assert len(near) == 40 and name not in near
        assert all(name in roster.neighbours(other) for other in near)


def test_in_a_ring_nobody_can_be_cut_off_from_its_neighbours():
    party = Party(60, replace(TERMS, size=3))
    party.masked()
    roster = party.coordinator.roster
    cut_off = [it for place, it in enumerate(roster.ring) if not 1 <= place <= 14]
    assert "too many platforms that share masks" in roster.objection_to(cut_off)
    assert roster.objection_to([it for place, it in enumerate(roster.ring) if not 1 <= place <= 13]) == ""
    with pytest.raises(NotOpenedError, match="too many platforms that share masks"):
        party.platforms[cut_off[0]].agree(cut_off)


@pytest.mark.parametrize(("platforms", "needed"), [(3, 2), (4, 3), (5, 3), (10, 6), (20, 12), (100, 60)])
def test_three_in_five_open_and_two_such_groups_share_a_fifth(platforms, needed):
    assert shares.threshold(platforms) == needed
    assert 2 * needed - platforms >= platforms / 5


def test_a_sum_over_too_few_is_never_opened():
    with pytest.raises(NotOpenedError, match="2 platforms where 3 to 1000 are needed"):
        Party(2).total()
    with pytest.raises(NotOpenedError, match="3 platforms stayed where 4 are needed"):
        Party(4, replace(TERMS, least=4), {"p00": "mask"}).total()
    cautious = Platform("p00", replace(TERMS, least=6), sign=lambda it: signed("p00", it), verify=verified)
    with pytest.raises(NotOpenedError, match="5 platforms where 6 to 1000 are needed"):
        party = Party()
        offers = party.offered()
        cautious.share({**offers, "p00": cautious.offer()})


# ------------------------------------------------------------------------------------- a coordinator that lies


def test_it_cannot_have_all_but_one_declared_gone():
    party = Party()
    party.masked()
    with pytest.raises(NotOpenedError, match="1 platforms stayed where 3 are needed"):
        party.platforms["p00"].agree(["p00"])
    with pytest.raises(NotOpenedError, match="those who stayed are not those who took part"):
        party.platforms["p01"].agree(["p00", "p02", "p03"])
    with pytest.raises(NotOpenedError, match="those who stayed are not those who took part"):
        party.platforms["p02"].agree(["p02", "p03", "p59"])


def test_it_cannot_tell_one_that_a_platform_stayed_and_another_that_it_did_not():
    party = Party()
    stayed = party.masked()
    groups = {it: stayed if it in ("p00", "p01") else stayed[1:] for it in stayed[1:]}
    groups["p00"] = stayed
    signatures = {it: party.platforms[it].agree(group) for it, group in groups.items()}
    for name in ("p00", "p01"):
        with pytest.raises(NotOpenedError, match="2 platforms agree on who stayed, 3 are needed"):
            party.platforms[name].reveal(signatures)
    revealed = [party.platforms[it].reveal(signatures) for it in ("p02", "p03", "p04")]
    key, seed = revealed[0]["p00"], shares.split(bytes(32), 5, 3)[0]
    assert len(key) == len(seed) == shares.SHARE_BYTES  # p00's key, so its seed is never told


def test_a_number_that_comes_late_stays_hidden():
    """Its platform's masks with the others are opened, its own mask never is."""
    party = Party(away={"p04": "mask"})
    assert np.array_equal(party.total(), party.expected())
    platform = party.platforms["p04"]
    sharing = party.coordinator.sharing
    assert "p04" in sharing and "p04" not in party.coordinator.stayed
    received = {}
    for it in sharing:
        if it != "p04":
            other = party.platforms[it]
            received[it] = other._cipher(it, "p04").encrypt(bytes(12), other._held["p04"], None)
    late = platform.mask(received, party.numbers["p04"])
    opened = late.copy()
    roster = party.coordinator.roster
    pairs = party.coordinator._pair_keys("p04", platform._mask_key.private_bytes_raw())
    add_streams(
        opened,
        add=[key for it, key in pairs.items() if it < "p04"],
        subtract=[key for it, key in pairs.items() if it > "p04"],
    )
    assert not (opened == party.numbers["p04"]).any()
    add_streams(opened, add=[], subtract=[roster.own_key(platform._seed, "p04")])
    assert np.array_equal(opened, party.numbers["p04"]), "which its own mask alone had hidden"


def test_it_cannot_ask_for_anything_twice_or_out_of_order():
    party = Party()
    signatures = party.agreed()
    platform = party.platforms["p00"]
    platform.reveal(signatures)
    for again in (
        platform.offer,
        lambda: platform.share({}),
        lambda: platform.mask({}, party.numbers["p00"]),
        lambda: platform.agree(party.names[:4]),
        lambda: platform.reveal(signatures),
    ):
        with pytest.raises(NotOpenedError, match="was asked for where nothing was next"):
            again()
    with pytest.raises(NotOpenedError, match="share was asked for where offer was next"):
        Party().platforms["p00"].share({})


def test_after_a_refusal_a_platform_reveals_nothing_more():
    party = Party()
    party.masked()
    platform = party.platforms["p00"]
    with pytest.raises(NotOpenedError):
        platform.agree(["p00"])
    with pytest.raises(NotOpenedError, match="where nothing was next"):
        platform.agree(party.names)


def test_it_cannot_invent_change_or_reuse_offers():
    party, other = Party(), Party(terms=replace(TERMS, context=b"another sum"))
    offers, foreign = party.offered(), other.offered()
    stranger = Offer(bytes(32), bytes(32), bytes(32), b"")
    changed = replace(offers["p01"], mask_key=offers["p02"].mask_key)
    for name, told in (
        ("p00", {**offers, "p59": replace(stranger, signature=signed("p58", b"x"))}),
        ("p01", {**offers, "p02": changed}),
        ("p02", {**offers, "p03": foreign["p03"]}),
    ):
        with pytest.raises(NotOpenedError, match="is not its own, or for another sum"):
            party.platforms[name].share(told)
    with pytest.raises(NotOpenedError, match="its own offer is not among the offers"):
        party.platforms["p03"].share({**offers, "p03": offers["p02"]})


def test_platforms_that_are_told_of_different_cohorts_cannot_be_added_up():
    party = Party(8)
    offers = party.offered()
    fewer = {it: offer for it, offer in offers.items() if it != "p07"}
    replies = {it: party.platforms[it].share(fewer if it == "p00" else offers) for it in party.names}
    with pytest.raises(NotOpenedError, match="the shares of p00 were not made for this sum"):
        party.platforms["p01"].mask(
            {it: replies[it]["p01"] for it in ("p00", "p02", "p03", "p04")}, party.numbers["p01"]
        )


def test_shares_are_for_their_holder_alone_and_cannot_be_swapped():
    party = Party()
    sent = party.shared()
    with pytest.raises(NotOpenedError, match="the shares of p01 were not made for this sum"):
        party.platforms["p00"].mask({**sent["p00"], "p01": sent["p02"]["p01"]}, party.numbers["p00"])
    with pytest.raises(NotOpenedError, match="shares of p59, who is not in this sum"):
        party.platforms["p02"].mask({**sent["p02"], "p59": sent["p02"]["p01"]}, party.numbers["p02"])


# ------------------------------------------------------------------------------------------ platforms that lie


@pytest.mark.parametrize("change", [lambda it: bytes(33), lambda it: it[:-1] + bytes([it[-1] ^ 1])])
@pytest.mark.parametrize("about", ["p01", "p04"])
def test_a_false_share_prevents_a_sum_and_never_changes_it(change, about):
    party = Party(away={"p04": "mask"})
    revealed = party.revealed()
    revealed["p00"] = {**revealed["p00"], about: change(revealed["p00"][about])}
    with pytest.raises(NotOpenedError, match=f"a share of {about} is false|the shares of {about} do not fit together"):
        party.coordinator.total(revealed)


def test_incomplete_replies_count_as_none():
    party = Party(6)
    offers = party.offered()
    replies = {it: party.platforms[it].share(offers) for it in party.names}
    replies["p05"] = dict(list(replies["p05"].items())[1:])
    sent = party.coordinator.shares(replies)
    assert party.coordinator.sharing == tuple(party.names[:5])
    masked = {it: party.platforms[it].mask(sent[it], party.numbers[it]) for it in sent}
    masked["p04"] = masked["p04"][:-1]
    stayed = party.coordinator.masked([*masked.items(), ("p00", masked["p00"]), ("p59", masked["p00"])])
    assert stayed == tuple(party.names[:4])
    signatures = party.coordinator.signatures({it: party.platforms[it].agree(stayed) for it in stayed})
    revealed = {it: party.platforms[it].reveal(signatures) for it in stayed}
    assert np.array_equal(party.coordinator.total(revealed), party.expected())
    with pytest.raises(NotOpenedError, match="3 platforms revealed shares, 4 are needed"):
        party.coordinator.total({**revealed, "p00": {}})


def test_one_that_offers_a_key_of_low_order_is_left_out():
    party = Party()
    offers = {it: party.platforms[it].offer() for it in party.names}
    crooked = replace(offers["p04"], mask_key=bytes(32))
    offers["p04"] = replace(crooked, signature=signed("p04", crooked.message(TERMS, "p04")))
    assert set(party.coordinator.offers(offers)) == set(party.names[:4])
    roster_of(TERMS, offers, verified)  # a platform would find out when it agrees with it


@pytest.mark.parametrize("numbers", [np.zeros(49, np.uint32), np.zeros(50, np.int64), np.zeros((50, 1), np.uint32)])
def test_numbers_of_another_size_or_type_are_a_mistake_of_ours(numbers):
    party = Party()
    sent = party.shared()
    with pytest.raises(ValueError, match=r"where uint32 \(50,\) was expected"):
        party.platforms["p00"].mask(sent["p00"], numbers)
