"""Sums of platforms' numbers in which the coordinator sees no platform's own: Bonawitz et al., CCS 2017, with the
sparse masks of Bell et al., CCS 2020.

Platform k holds x_k, integers mod 2^32, and sends

    y_k = x_k + PRG(b_k) + Σ_{j in N(k), j > k} PRG(s_kj) - Σ_{j in N(k), j < k} PRG(s_kj)   mod 2^32,

where s_kj is what the keys of k and j agree on and b_k is a random seed. Over all platforms the pairwise masks cancel.
Of a platform that drops out before y_k arrives, the key behind its s_kj is put together from shares; of one whose y_k
has arrived, b_k: never both, so a y_k that comes late stays hidden. Five exchanges, any of which a platform may miss:

    offer    fresh keys and a digest of b_k, signed by the platform
    share    b_k and the private key, in Shamir shares, each encrypted for the platform that holds it
    mask     y_k
    agree    a signature on who has stayed: those whose y has arrived
    reveal   with enough such signatures: for everyone who stayed a share of b, for the others a share of the key

All platforms of the roster hold shares, and t = ⌈3n/5⌉ of n open them. Masks are shared with all others or, in a roster
of more than 41, with the 20 on either side in a ring whose order is a digest of all offers.

Promised, while fewer than 2t - n platforms (a fifth) help a coordinator that does whatever it likes: all it learns of
the others' numbers is one sum, over at least max(least, t) platforms. Two different sets that stayed cannot both have t
signatures, since nobody honest signs a second. Platforms are known by certificates, so none can be invented, but the
coordinator chooses whom it invites: `least` is each platform's own. In the ring, nobody signs a set that leaves fewer
than 7 in any 20 neighbouring places. That the sum does not fall apart into sums over arcs of the ring needs one honest
platform among those 7, which is likely, not certain, while about one in twenty helps the coordinator.

Opened sums are exact: what is put together is compared with what was offered, so a false share prevents a sum and does
not change it. Not promised: anything about the sum itself, which says much about each if they are few; a sum in spite
of a platform that lies about shares; and that a platform's numbers are true.

`Platform` and `Coordinator` carry no messages: an engine hands the outcome of one method to the next.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedrel.privacy import shares
from fedrel.privacy.fixed_point import Words
from fedrel.privacy.masks import add_streams, agreed_secret, derived_key, packed, public_bytes
from fedrel.privacy.stretches import each_stretch

Sign = Callable[[bytes], bytes]
Verify = Callable[[str, bytes, bytes], bool]  # whether the platform of this name has signed this message like this
Outcome = TypeVar("Outcome")

MOST_PLATFORMS = 1000
_REACH = 20  # places on either side in the ring, where masks are shared
_ALIVE = 7  # that must stay in as many neighbouring places
_NONCE = bytes(12)  # every key encrypts one message


class NotOpenedError(Exception):
    """There is no sum; the message says why. A platform that raises it reveals nothing more of this sum."""


@dataclass(frozen=True)
class Terms:
    """What all agree on beforehand. `context` names this one sum (federation, run, round, field): nothing that belongs
    to another is accepted. `size`: numbers to add up, per platform. `least`: no sum over fewer platforms is opened.
    """

    context: bytes
    size: int
    least: int = 3

    def enough(self, platforms: int) -> int:
        """How many of a roster of so many platforms must stay."""
        return max(self.least, shares.threshold(platforms))


@dataclass(frozen=True)
class Offer:
    """A platform's public keys for one sum, and the SHA-256 of the seed of its own mask."""

    mask_key: bytes
    share_key: bytes
    commitment: bytes
    signature: bytes = b""

    def message(self, terms: Terms, name: str) -> bytes:
        """What its platform signs."""
        keys = (self.mask_key, self.share_key, self.commitment)
        return packed(b"fedrel sum: offer", terms.context, name.encode(), *keys)


@dataclass(frozen=True)
class Roster:
    """The platforms of a sum with their offers; the same for everybody who has the same digest."""

    terms: Terms
    offers: Mapping[str, Offer]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.offers))

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(packed(*(self.offers[name].message(self.terms, name) for name in self.names))).digest()

    @cached_property
    def ring(self) -> tuple[str, ...]:
        return tuple(sorted(self.names, key=lambda it: hashlib.sha256(packed(self.digest, it.encode())).digest()))

    @property
    def threshold(self) -> int:
        return shares.threshold(len(self.names))

    @property
    def sparse(self) -> bool:
        return len(self.names) > 2 * _REACH + 1

    def neighbours(self, name: str) -> set[str]:
        """With whom a platform shares masks."""
        if not self.sparse:
            return set(self.names) - {name}
        place, size = self.ring.index(name), len(self.ring)
        return {self.ring[(place + step) % size] for step in range(-_REACH, _REACH + 1) if step}

    def objection_to(self, stayed: Collection[str]) -> str:
        """Why no sum over these platforms is opened; empty: it may be."""
        least = self.terms.enough(len(self.names))
        if len(stayed) < least:
            return f"{len(stayed)} platforms stayed where {least} are needed"
        if self.sparse:
            here = np.array([name in stayed for name in self.ring], np.int64)
            around = np.convolve(np.concatenate([here, here[: _REACH - 1]]), np.ones(_REACH, np.int64), "valid")
            if int(around.min()) < _ALIVE:
                return "too many platforms that share masks with each other have dropped out"
        return ""

    def agreement(self, sharing: Collection[str], stayed: Collection[str]) -> bytes:
        """What platforms sign before they reveal anything: who sent shares, and whose numbers have arrived."""
        lists = (packed(*(name.encode() for name in sorted(some))) for some in (sharing, stayed))
        return packed(b"fedrel sum: agreement", self.digest, *lists)

    def pair_key(self, secret: bytes, one: str, other: str) -> bytes:
        """Of the stream that two platforms mask with."""
        first, second = sorted((one, other))
        return derived_key(secret, b"fedrel sum: pair", self.digest, first.encode(), second.encode())

    def own_key(self, seed: bytes, name: str) -> bytes:
        """Of the stream that a platform masks with alone."""
        return derived_key(seed, b"fedrel sum: own", self.digest, name.encode())

    def share_key(self, secret: bytes, sender: str, receiver: str) -> bytes:
        return derived_key(secret, b"fedrel sum: share", self.digest, sender.encode(), receiver.encode())


def roster_of(terms: Terms, offers: Mapping[str, Offer], verify: Verify) -> Roster:
    """Raises NotOpenedError unless all offers are signed by their platforms, for these terms, and enough."""
    if not terms.least <= len(offers) <= MOST_PLATFORMS:
        raise NotOpenedError(f"{len(offers)} platforms where {terms.least} to {MOST_PLATFORMS} are needed")
    for name, offer in offers.items():
        if not verify(name, offer.message(terms, name), offer.signature):
            raise NotOpenedError(f"the offer of {name} is not its own, or for another sum")
    return Roster(terms, dict(offers))


def _usable(offer: Offer) -> bool:
    """Whether its keys agree on anything secret: with some that are none, one platform could end the sum for all."""
    try:
        return all(agreed_secret(X25519PrivateKey.generate(), key) for key in (offer.mask_key, offer.share_key))
    except ValueError:
        return False


def _add(total: Words, numbers: Words) -> None:
    each_stretch(lambda _, it: np.add(total[it], numbers[it], out=total[it]), len(total))


class Platform:
    """A platform's side of one sum. Its methods are called once each, in this order; one that raises ends the sum for
    this platform.
    """

    def __init__(self, name: str, terms: Terms, *, sign: Sign, verify: Verify) -> None:
        self.name, self.terms = name, terms
        self._sign, self._verify = sign, verify
        self._next = "offer"
        self._mask_key, self._share_key = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._seed = secrets.token_bytes(shares.SECRET_BYTES)
        self._own = Offer(
            public_bytes(self._mask_key), public_bytes(self._share_key), hashlib.sha256(self._seed).digest()
        )
        self._held: dict[str, bytes] = {}  # two shares of every platform that sent some: of its seed, of its key
        self._stayed: frozenset[str] = frozenset()

    def offer(self) -> Offer:
        self._begin("offer", then="share")
        self._own = replace(self._own, signature=self._sign(self._own.message(self.terms, self.name)))
        return self._done(self._own)

    def share(self, offers: Mapping[str, Offer]) -> dict[str, bytes]:
        """From everybody's offers: for each other platform its shares, which it alone can read."""
        self._begin("share", then="mask")
        if offers.get(self.name) != self._own:
            raise NotOpenedError("its own offer is not among the offers")
        self._roster = roster = roster_of(self.terms, offers, self._verify)
        seeds, keys = (
            shares.split(secret, len(roster.names), roster.threshold)
            for secret in (self._seed, self._mask_key.private_bytes_raw())
        )
        made = {name: seeds[place] + keys[place] for place, name in enumerate(roster.names)}
        self._held = {self.name: made.pop(self.name)}
        return self._done({name: self._cipher(self.name, name).encrypt(_NONCE, it, None) for name, it in made.items()})

    def mask(self, received: Mapping[str, bytes], numbers: Words) -> Words:
        """From the shares that others sent to this platform, and its numbers: what may be seen of them."""
        self._begin("mask", then="agree")
        roster = self._roster
        if numbers.dtype != np.uint32 or numbers.shape != (self.terms.size,):
            raise ValueError(f"{numbers.dtype} {numbers.shape} where uint32 ({self.terms.size},) was expected")
        for sender, message in received.items():
            if sender not in roster.offers or sender == self.name:
                raise NotOpenedError(f"shares of {sender}, who is not in this sum")
            self._held[sender] = self._decrypted(sender, message)
        if len(self._held) < self.terms.enough(len(roster.names)):
            raise NotOpenedError(f"{len(self._held)} platforms sent shares, too few for a sum")
        pairs = {
            other: roster.pair_key(self._agreed(self._mask_key, roster.offers[other].mask_key), self.name, other)
            for other in roster.neighbours(self.name) & self._held.keys()
        }
        masked = numbers.copy()
        add_streams(
            masked,
            add=[roster.own_key(self._seed, self.name), *(key for other, key in pairs.items() if other > self.name)],
            subtract=[key for other, key in pairs.items() if other < self.name],
        )
        return self._done(masked)

    def agree(self, stayed: Collection[str]) -> bytes:
        """A signature on who has stayed. There is none on a second set, whatever the coordinator says later."""
        self._begin("agree", then="reveal")
        self._stayed = frozenset(stayed)
        if self.name not in self._stayed or not self._stayed <= self._held.keys():
            raise NotOpenedError("those who stayed are not those who took part")
        if objection := self._roster.objection_to(self._stayed):
            raise NotOpenedError(objection)
        return self._done(self._sign(self._roster.agreement(self._held, self._stayed)))

    def reveal(self, signatures: Mapping[str, bytes]) -> dict[str, bytes]:
        """If enough platforms have signed the same as this one: a share of the seed of everyone who stayed, and of the
        key of everyone who did not.
        """
        self._begin("reveal", then="")
        agreed = self._roster.agreement(self._held, self._stayed)
        signed = [name for name, it in signatures.items() if name in self._stayed and self._verify(name, agreed, it)]
        if len(signed) < self._roster.threshold:
            raise NotOpenedError(f"{len(signed)} platforms agree on who stayed, {self._roster.threshold} are needed")
        half = shares.SHARE_BYTES
        return {name: it[:half] if name in self._stayed else it[half:] for name, it in self._held.items()}

    def _begin(self, step: str, *, then: str) -> None:
        if self._next != step:
            raise NotOpenedError(f"{step} was asked for where {self._next or 'nothing'} was next")
        self._next, self._then = "", then

    def _done(self, outcome: Outcome) -> Outcome:
        self._next = self._then
        return outcome

    def _agreed(self, key: X25519PrivateKey, other: bytes) -> bytes:
        try:
            return agreed_secret(key, other)
        except ValueError:
            raise NotOpenedError("a platform offered a key that is none") from None

    def _cipher(self, sender: str, receiver: str) -> AESGCM:
        other = sender if receiver == self.name else receiver
        secret = self._agreed(self._share_key, self._roster.offers[other].share_key)
        return AESGCM(self._roster.share_key(secret, sender, receiver))

    def _decrypted(self, sender: str, message: bytes) -> bytes:
        try:
            found = self._cipher(sender, self.name).decrypt(_NONCE, message, None)
        except InvalidTag:
            found = b""
        if len(found) != 2 * shares.SHARE_BYTES:
            raise NotOpenedError(f"the shares of {sender} were not made for this sum")
        return found


class Coordinator:
    """The coordinator's side of one sum. Each method is given the replies that arrived, and says what is sent next;
    whoever is missing has dropped out. Methods raise NotOpenedError where too few are left.
    """

    def __init__(self, terms: Terms, *, verify: Verify) -> None:
        self.terms, self._verify = terms, verify
        self.sharing: tuple[str, ...] = ()
        self.stayed: tuple[str, ...] = ()

    def offers(self, replies: Mapping[str, Offer]) -> dict[str, Offer]:
        """What everybody who offered is sent: all offers but those without a valid signature or key."""
        good = {
            name: offer
            for name, offer in replies.items()
            if self._verify(name, offer.message(self.terms, name), offer.signature) and _usable(offer)
        }
        self.roster = roster_of(self.terms, good, self._verify)
        return dict(self.roster.offers)

    def shares(self, replies: Mapping[str, Mapping[str, bytes]]) -> dict[str, dict[str, bytes]]:
        """What each platform that sent shares is sent: those of the others who did."""
        names = set(self.roster.names)
        complete = sorted(it for it in replies.keys() & names if replies[it].keys() == names - {it})
        self.sharing = tuple(complete)
        self._require(self.sharing)
        return {to: {it: replies[it][to] for it in complete if it != to} for to in complete}

    def masked(self, replies: Iterable[tuple[str, Words]]) -> tuple[str, ...]:
        """Those who stayed, as they are all told. Replies may come one by one: only their sum is kept."""
        self._sum = np.zeros(self.terms.size, np.uint32)
        stayed = set()
        for name, masked in replies:
            fits = masked.dtype == np.uint32 and masked.shape == self._sum.shape
            if fits and name in self.sharing and name not in stayed:
                _add(self._sum, masked)
                stayed.add(name)
        self.stayed = tuple(sorted(stayed))
        self._require(self.stayed)
        return self.stayed

    def signatures(self, replies: Mapping[str, bytes]) -> dict[str, bytes]:
        """What those who agreed are sent: everybody's signature on who stayed."""
        agreed = self.roster.agreement(self.sharing, self.stayed)
        signed = {it: sign for it, sign in replies.items() if it in self.stayed and self._verify(it, agreed, sign)}
        if len(signed) < self.roster.threshold:
            raise NotOpenedError(f"{len(signed)} platforms agree on who stayed, {self.roster.threshold} are needed")
        return signed

    def total(self, replies: Mapping[str, Mapping[str, bytes]]) -> Words:
        """The sum over those who stayed, exactly."""
        whole = set(self.sharing)
        holders = sorted(it for it in replies if it in whole and replies[it].keys() == whole)[: self.roster.threshold]
        if len(holders) < self.roster.threshold:
            raise NotOpenedError(f"{len(holders)} platforms revealed shares, {self.roster.threshold} are needed")
        places = {name: self.roster.names.index(name) + 1 for name in holders}
        add, subtract = [], []
        for name in self.sharing:
            try:
                secret = shares.join({places[holder]: replies[holder][name] for holder in holders})
            except ValueError:
                raise NotOpenedError(f"the shares of {name} do not fit together") from None
            if name in self.stayed:
                subtract.append(self._own_key(name, secret))
            else:
                pairs = self._pair_keys(name, secret)
                add += [key for other, key in pairs.items() if other > name]  # which they had taken away
                subtract += [key for other, key in pairs.items() if other < name]
        total = self._sum.copy()
        add_streams(total, add=add, subtract=subtract)
        return total

    def _own_key(self, name: str, seed: bytes) -> bytes:
        if hashlib.sha256(seed).digest() != self.roster.offers[name].commitment:
            raise NotOpenedError(f"a share of {name} is false")
        return self.roster.own_key(seed, name)

    def _pair_keys(self, name: str, private: bytes) -> dict[str, bytes]:
        """What those who stayed masked with for a platform whose own numbers did not arrive."""
        key = X25519PrivateKey.from_private_bytes(private)
        if public_bytes(key) != self.roster.offers[name].mask_key:
            raise NotOpenedError(f"a share of {name} is false")
        return {
            other: self.roster.pair_key(agreed_secret(key, self.roster.offers[other].mask_key), name, other)
            for other in self.roster.neighbours(name) & set(self.stayed)
        }

    def _require(self, left: Collection[str]) -> None:
        if objection := self.roster.objection_to(left):
            raise NotOpenedError(objection)
