"""The messages of a secure sum as records (`privacy/secure_sum.py` says what they mean), and the units it adds up in.

The first exchange is the request whose replies are added up: the platform does its task, keeps what comes out, and
replies with an offer. The other four are requests of their own, which no method can make.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedrel.learning.named import Named
from fedrel.privacy.fixed_point import Words
from fedrel.privacy.masks import packed
from fedrel.privacy.secure_sum import Offer
from fedrel.protocol.codec import Record
from fedrel.protocol.records import named_in
from fedrel.protocol.summed import MASKED, Units

FOLLOW = "sum_follow"  # before a sum: what was added up since a platform was last told
SHARE, MASK, AGREE, REVEAL = STEPS = ("sum_share", "sum_mask", "sum_agree", "sum_reveal")
REQUESTS = (FOLLOW, *STEPS)  # of a sum; the one that asks for what is added up is the method's
OFFER, SHARES, AGREEMENT, REVEALED = "offer", "shares", "agreement", "revealed"  # fields of replies
FOLLOWED = "followed"  # the number of the round that a platform is ready for
FIELDS = (OFFER, SHARES, MASKED, AGREEMENT, REVEALED, FOLLOWED)
OFFERS, STAYED, SIGNATURES, UNITS = "offers", "stayed", "signatures", "sum_units"  # fields of requests

SUMS, FIRST = "sums", "first"  # fields of FOLLOW

_KEY, _KEYS = 32, 3
_ONE = "one"  # the name of what is alone in its field
_HEADER, _ENTRY, _SIGNED = 64 * 2**10, 1024, 16 * 2**10


class BadMessageError(ValueError):
    """A message of a sum that is none."""


@dataclass(frozen=True)
class Opened:
    """A sum that was opened, with the sums of tags (`privacy/tags.py`) at its end."""

    attempt: int
    round: int
    task: str
    units: Units
    platforms: tuple[str, ...]  # over whom it is
    numbers: Words


def context(federation: str, run_id: str, attempt: int, round_: int, task: str) -> bytes:
    """Names one sum: nothing that was offered or signed for another is accepted in it."""
    numbers = (attempt.to_bytes(8, "big"), round_.to_bytes(8, "big"))
    return packed(federation.encode(), run_id.encode(), *numbers, task.encode())


def heard(before: bytes, request: bytes) -> bytes:
    """What a platform was asked in a round, as one digest, from that of earlier requests and the SHA-256 of one more.
    It is part of a sum's context: with other weights, or other units, for others, a coordinator could make their
    numbers vanish beside those of one platform.
    """
    return hashlib.sha256(packed(before, request)).digest()


def with_units(message: Mapping[str, Named | float], units: Units) -> Record:
    """A request that asks for a sum."""
    return {**message, UNITS: Named({_ONE: torch.tensor([units.parties, units.sentences])})}


def units_of(message: Mapping[str, Named | float]) -> Units:
    numbers = _named(message, UNITS).get(_ONE)
    if numbers is None or numbers.dtype != torch.int64 or numbers.shape != (2,) or int(numbers.min()) < 1:
        raise BadMessageError("what it should be added up in is not said")
    parties, sentences = (int(it) for it in numbers)
    if parties * (sentences + 0.5) > 2**31 - 1:
        raise BadMessageError("the sum that it asks for would not fit into 32 bits")
    return Units(parties, sentences)


def one(field: str, content: bytes) -> Record:
    """A record of some bytes."""
    return many(field, {_ONE: content})


def many(field: str, contents: Mapping[str, bytes]) -> Record:
    """A record of some bytes from, or for, each of some platforms."""
    found = {name: torch.frombuffer(bytearray(it or b"\0"), dtype=torch.uint8) for name, it in contents.items()}
    return {field: Named(found)}


def names(field: str, platforms: Iterable[str]) -> Record:
    return many(field, dict.fromkeys(platforms, b""))


def one_in(record: Mapping[str, Named | float], field: str) -> bytes:
    """Raises BadMessageError unless the record holds these bytes and nothing else."""
    found = many_in(record, field)
    if found.keys() != {_ONE}:
        raise BadMessageError(f"{field} does not hold one thing")
    return found[_ONE]


def many_in(record: Mapping[str, Named | float], field: str) -> dict[str, bytes]:
    """Raises BadMessageError unless the record holds bytes by name in this field, and nothing else."""
    found = _named(record, field)
    if record.keys() != {field} or not all(it.dtype == torch.uint8 and it.dim() == 1 for it in found.values()):
        raise BadMessageError(f"{field} does not hold bytes, or not alone")
    return {name: bytes(it.numpy()) for name, it in found.items()}


def opened(sums: Sequence[Opened], first: Named | None = None) -> Record:
    """Sums that were opened, one after the other, and the weights that all began with if somebody needs them."""
    about = [[it.attempt, it.round, it.task, it.units.parties, it.units.sentences, it.platforms] for it in sums]
    numbers = {str(place): torch.from_numpy(it.numbers.view(np.int32)) for place, it in enumerate(sums)}
    text = torch.frombuffer(bytearray(json.dumps(about).encode()), dtype=torch.uint8)
    return {SUMS: Named({"about": text, **numbers}), **({} if first is None else {FIRST: first})}


def opened_in(record: Mapping[str, Named | float]) -> list[Opened]:
    found = _named(record, SUMS)
    try:
        return [
            Opened(attempt, round_, task, Units(parties, sentences), tuple(platforms), _words(found[str(place)]))
            for place, (attempt, round_, task, parties, sentences, platforms) in enumerate(
                json.loads(bytes(found["about"].numpy()))
            )
        ]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise BadMessageError("what was added up is not said") from None


def _words(numbers: torch.Tensor) -> Words:
    if numbers.dtype != torch.int32 or numbers.dim() != 1:
        raise ValueError("no integers")
    words: Words = numbers.contiguous().numpy().view(np.uint32)
    return words


def offer_bytes(offer: Offer) -> bytes:
    return offer.mask_key + offer.share_key + offer.commitment + offer.signature


def offer_of(content: bytes) -> Offer:
    if len(content) <= _KEYS * _KEY:
        raise BadMessageError("an offer is too short")
    mask_key, share_key, commitment = (content[start : start + _KEY] for start in range(0, _KEYS * _KEY, _KEY))
    return Offer(mask_key, share_key, commitment, content[_KEYS * _KEY :])


def most_bytes(step: str, platforms: int, size: int) -> int:
    """No reply to this step is larger, among so many platforms and for summands of this size."""
    if step == MASK:
        return _HEADER + 4 * size
    return _HEADER + _SIGNED + _ENTRY * (platforms if step in (SHARE, REVEAL) else 0)


def _named(record: Mapping[str, Named | float], field: str) -> Named:
    try:
        return named_in(record, field)
    except (KeyError, TypeError):
        raise BadMessageError(f"{field} is missing") from None
