"""The coordinator's side of secure sums, between platforms that are elsewhere: they are told what was opened before,
then five exchanges, then the sum.

Whoever does not answer one of them is left out, and what it sent before is taken out of the sum; where too few are left
there is no sum, and the round is to be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from fedrel.engines.past_sums import PastSums
from fedrel.privacy import tags
from fedrel.privacy.fixed_point import Words
from fedrel.privacy.masks import packed
from fedrel.privacy.secure_sum import Coordinator, NotOpenedError, Offer, Terms, Verify
from fedrel.protocol import sum_messages as say
from fedrel.protocol.codec import Record
from fedrel.protocol.round import Ask
from fedrel.protocol.sum_messages import most_bytes
from fedrel.protocol.summed import Layout, Summed, words_of

Understood = TypeVar("Understood")
Read = Callable[[Record], Understood]


@dataclass
class Opening:
    """What sums of a run are opened with. `context` names the sum of a round and task; `verify` says whether a platform
    has signed something; no sum over fewer than `least` is opened. `past`: those that were opened.
    """

    context: Callable[[int, str], bytes]
    verify: Verify
    least: int
    past: PastSums
    _round: bytes = b""
    _heard: bytes = b""

    def terms(self, ask: Ask, digest: bytes, size: int, least: int) -> Terms:
        """Of the sum of the replies to a request, whose payload has this digest, over so many platforms at least."""
        if self._round != self.context(ask.round, ""):
            self._round, self._heard = self.context(ask.round, ""), b""
        self._heard = say.heard(self._heard, digest)
        return Terms(packed(self.context(ask.round, ask.task), self._heard), size, max(self.least, least))


# Asks platforms for one step, and gives what each of them replied, as it is read, one after the other
Step = Callable[[str, Mapping[str, Record], Read[Understood]], Iterator[tuple[str, Understood]]]


def open_sum(
    ask: Ask,
    layout: Layout,
    opening: Opening,
    step: Step,  # type: ignore[type-arg]
    digest: Callable[[Record], bytes],
) -> Summed:
    """The replies to a request, which is the same for all, as their sum; `digest` is of a message as it is sent. Raises
    NotOpenedError where there is none.
    """
    asked = say.with_units(next(iter(ask.to.values()), {}), layout.units)
    if len({id(message) for message in ask.to.values()}) > 1:
        raise TypeError(f"{ask.task}: what is added up is asked of all in the same words; use broadcast")
    opening.past.tell(ask, step)
    size = layout.size + tags.count(layout.cyclic)
    terms = opening.terms(ask, digest(asked), size, layout.least)
    coordinator = Coordinator(terms, verify=opening.verify)
    offers = coordinator.offers(dict(step(ask.task, dict.fromkeys(ask.to, asked), _offer)))
    told = say.many(say.OFFERS, {name: say.offer_bytes(offer) for name, offer in offers.items()})
    shares = coordinator.shares(dict(step(say.SHARE, dict.fromkeys(offers, told), _many(say.SHARES))))
    sent = {name: say.many(say.SHARES, mine) for name, mine in shares.items()}
    stayed = coordinator.masked(step(say.MASK, sent, _words(size)))
    told = say.names(say.STAYED, stayed)
    signatures = coordinator.signatures(dict(step(say.AGREE, dict.fromkeys(stayed, told), _agreement)))
    told = say.many(say.SIGNATURES, signatures)
    revealed = dict(step(say.REVEAL, dict.fromkeys(signatures, told), _many(say.REVEALED)))
    total, platforms = coordinator.total(revealed), tuple(name for name in ask.to if name in stayed)
    past = opening.past
    past.add(ask, say.Opened(past.attempt(), ask.round, ask.task, layout.units, platforms, total))
    return Summed(layout, total[: layout.size].copy(), platforms)


def _offer(reply: Record) -> Offer:
    return say.offer_of(say.one_in(reply, say.OFFER))


def _agreement(reply: Record) -> bytes:
    return say.one_in(reply, say.AGREEMENT)


def _many(field: str) -> Read[dict[str, bytes]]:
    return lambda reply: say.many_in(reply, field)


def _words(size: int) -> Read[Words]:
    return lambda reply: words_of(reply, size)


__all__ = ["NotOpenedError", "Opening", "most_bytes", "open_sum"]
