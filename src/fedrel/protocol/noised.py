"""Sums in which noise hides each platform, or each sentence: what of a reply goes into one, clipped and noised.

Hardly anything but the change of the weights is in such a sum: no loss, not whether a platform had something to say.
Who had not adds noise to zeros.

Of the unit `platform` the change, of all weights together, is clipped to a length of `clip` and rounded towards zero,
which makes nothing longer; the server's mean counts all platforms of the sum alike. Left-out text of one platform
changes the sum by `clip` at most.

Of the unit `sentence` the platform sends the sum of all its sentences' gradients, each clipped to `clip` and all at the
weights that were sent (`learning/clipped.py`): a round is one step of gradient descent, so a sentence counts in it
once, and the server divides by the sentences that the platforms hold. Who holds how many is not hidden: their number is
in the sum as it is, so that whoever repeats the server's step (`federation/following.py`) need not be told it. One
sentence that counts for nothing instead changes the sum by `clip` at most, plus what rounding to whole numbers may add,
a step in each of d weights: √d.

Noise depends on a secret of the platform and on everything that decides the numbers it hides: the same question has the
same answer, bit for bit, so a round that is repeated tells nothing new; another question has other noise.

Tags (`privacy/tags.py`) are of the noisy numbers, and follow from the sum of these, but for what their lower halves
carry over. That depends on what single platforms sent; but of two whose noise nobody knows, the random products of
thousands of noisy numbers are as good as uniform mod 2^32, given the sum.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedrel.errors import UserError
from fedrel.learning.named import Named
from fedrel.privacy.accounting import PLATFORM
from fedrel.privacy.fixed_point import FixedPoint, Words
from fedrel.privacy.noise import Mechanism, normals
from fedrel.protocol.codec import Record, encode
from fedrel.protocol.records import named_in
from fedrel.protocol.summed import MODELS, Layout, Part, Units, moved

_DEVIATIONS = 10.0  # of all noise together, that a sum has room for
_SLACK = 1e-3  # share of `clip` by which a clipped gradient in single precision may be longer
_ROUNDING = 0.25  # share of `clip` that rounding may add to what a sentence changes


@dataclass(frozen=True, kw_only=True)
class NoisyLayout(Layout):
    """`rate`: the server's step along mean gradients. `held`: sentences of the platform whose summand is made."""

    noisy: ClassVar[bool] = True
    mechanism: Mechanism
    rate: float = 1.0
    held: int = 0

    @property
    def least(self) -> int:
        return self.mechanism.enough(self.units.parties)

    @cached_property
    def parts(self) -> list[Part]:
        if self._exact is None:
            return self._weights
        return [*self._weights, Part(self.weight, "", "sentences", (), torch.float64, self._exact)]

    @property
    def _exact(self) -> FixedPoint | None:
        """How the number of sentences is kept, where it is in the sum."""
        units = self.units
        return None if self.mechanism.unit == PLATFORM else FixedPoint(units.sentences, units.parties)

    @cached_property
    def _weights(self) -> list[Part]:
        return [
            Part(name, tensor, "model", tuple(weights.shape), weights.dtype, self.fixed)
            for name in self.form.of_kind(*MODELS)
            for tensor, weights in self.model.items()
        ]

    @cached_property
    def _numbers(self) -> int:
        return sum(part.size for part in self._weights)

    @cached_property
    def fixed(self) -> FixedPoint:
        mechanism, parties = self.mechanism, self.units.parties
        signal = parties * mechanism.clip * (1 if mechanism.unit == PLATFORM else self.units.sentences)
        share = parties / mechanism.honest(parties)
        noise = mechanism.noise * mechanism.clip * (1 + _SLACK + _ROUNDING) * math.sqrt(share)
        return FixedPoint((signal + _DEVIATIONS * noise) / parties, parties)

    @property
    def longest(self) -> float:
        """By how many steps of the fixed point one contribution changes the sum, at most."""
        clip = self.mechanism.clip * self.fixed.scale
        if self.mechanism.unit == PLATFORM:
            return clip
        rounding = math.sqrt(self._numbers)
        if rounding > _ROUNDING * clip:
            raise UserError(
                f"sums of 32 bits are too coarse for {self._numbers:,} weights and so many sentences; freeze what can "
                "be frozen (extractor.embeddings, extractor.lora), or let fewer platforms take part in a round"
            )
        return clip * (1 + _SLACK) + rounding

    def summand(self, reply: Mapping[str, Named | float], key: bytes = b"") -> Words:
        """(size,) from a reply, of which an empty one counts as no change. `key`: of its noise, see `noise_key`."""
        if not key:
            raise RuntimeError("noise that others know would hide nothing: this site has no secret to draw it from")
        deviation = self.mechanism.deviation(self.units.parties, self.longest)
        whole = np.trunc(self._clipped(reply) * self.fixed.scale) + np.rint(normals(key, self._numbers) * deviation)
        words = whole.astype(np.int64).astype(np.uint32)  # mod 2^32
        if self._exact is None:
            return words
        try:
            return np.concatenate([words, self._exact.encode(np.array([float(self.held)]))])
        except ValueError as error:
            raise UserError(f"{self.weight}: {error}") from None

    def count(self, platforms: Mapping[str, object], total: Words) -> float:
        """What the sum of all changes is divided by."""
        if self._exact is None:
            return float(len(platforms))
        return float(self._exact.decode(total[-1:])[0]) / self.rate

    def _clipped(self, reply: Mapping[str, Named | float]) -> NDArray[np.float64]:
        changes = [
            moved(named_in(reply, part.field), part.name, self.model[part.name])
            for part in (self._weights if reply else ())
        ]
        whole = np.concatenate(changes) if changes else np.zeros(self._numbers)
        if not np.isfinite(whole).all():  # nobody must see that it diverged
            return np.zeros(self._numbers)
        sentences = 1 if self.mechanism.unit == PLATFORM else self.units.sentences
        most, length = self.mechanism.clip * sentences, float(np.linalg.norm(whole))
        return whole * (most / (length * (1 + 1e-9))) if length > most else whole


def question(message: Record, units: Units, memory: Record) -> bytes:
    """A digest of all that decides a platform's answer beside its text: what it is asked, and what it remembers."""
    numbers = f"{units.parties} {units.sentences}".encode()
    parts = (bytes(encode(message)), numbers, bytes(encode(memory)))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def noise_key(secret: bytes, platform: str, round_: int, task: str, asked: bytes) -> bytes:
    """Of the noise in one answer; `secret` is the platform's, of this run; nothing at all without one."""
    named = b"/".join((b"noise", platform.encode(), str(round_).encode(), task.encode(), asked))
    return hmac.digest(secret, named, hashlib.sha256) if secret else b""
