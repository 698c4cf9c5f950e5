"""A platform's side of secure sums, and the signatures that both sides know platforms by.

What a task replies is kept here and leaves under a mask, in the exchanges of `privacy/secure_sum.py`. Over whom a sum
may have been opened is written down before the platform signs it: of the same round and task it takes part in no sum
over others, since the difference of two sums would be the numbers of a single platform.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from fedrel.errors import UserError
from fedrel.federation.following import Following
from fedrel.federation.kits.kit import SIGN_CERTIFICATE, read_certificate
from fedrel.federation.signing import Envelope, ForgedError, Request, Signer, Verifier
from fedrel.learning.named import Named
from fedrel.privacy import tags
from fedrel.privacy.fixed_point import Words
from fedrel.privacy.masks import packed
from fedrel.privacy.secure_sum import NotOpenedError, Platform, Sign, Terms, Verify
from fedrel.protocol import sum_messages as say
from fedrel.protocol.codec import Record
from fedrel.protocol.summed import Layout, masked
from fedrel.util.files import private_folder, write_atomic

_DOMAIN = b"fedrel sum 2\n"  # no other signature of a kit's key is of bytes that begin like this
_SIGNATURE = 64  # bytes of Ed25519; the certificate follows


@dataclass(frozen=True)
class Proof:
    """Signs for one party, and verifies what platforms have signed; a signature brings its certificate along."""

    sign: Sign
    verify: Verify

    @classmethod
    def of(cls, signer: Signer, verifier: Verifier) -> Proof:
        """With the keys of a kit."""

        def sign(message: bytes) -> bytes:
            certificate = read_certificate(signer.folder / SIGN_CERTIFICATE)
            return signer.key.sign(_DOMAIN + message) + certificate.public_bytes(Encoding.PEM)

        return cls(sign, verified_by(verifier))


def verified_by(verifier: Verifier) -> Verify:
    """Whether a platform of this federation has signed a message."""

    def verify(name: str, message: bytes, signature: bytes) -> bool:
        try:
            certificate = signature[_SIGNATURE:].decode("ascii")
            _, key = verifier.signed_by(Envelope("", certificate, ""), role="platform", name=name)
            key.verify(signature[:_SIGNATURE], _DOMAIN + message)
            return True
        except (ForgedError, InvalidSignature, ValueError):
            return False

    return verify


class Summing:
    """What a platform does in sums, one at a time. Raises NotOpenedError where it takes part no longer."""

    def __init__(self, name: str, proof: Proof, least: int, folder: Path, following: Following) -> None:
        """`folder`: of the run's memory on the platform. `following`: of what was added up before."""
        self.name, self.proof, self.least, self.following = name, proof, least, following
        self._file = folder / "sums.json"
        self._sum: Platform | None = None
        self._of: tuple[int, int, str] = (-1, -1, "")
        self._heard = b""  # what was asked in this round
        self._words: Words | None = None

    def require(self, request: Request, message: Record) -> None:
        """Raises UnfoundedError unless a request for something that is added up follows from what was before."""
        self.following.require(request.task, request.round, request.attempt, message)

    def offer(self, request: Request, words: Words, layout: Layout) -> Record:
        """The reply to a request whose outcome is to be added up; noise is in it already, so tags are of what leaves.
        Whatever was under way is over.
        """
        key = self.following.tag_key(request.attempt, request.round, request.task, layout.units)
        words = np.concatenate([words, tags.of(words, layout.cyclic, key)])
        if self._of[:2] != (request.attempt, request.round):
            self._heard = b""
        self._heard = say.heard(self._heard, bytes.fromhex(request.sha256))
        named = say.context(request.federation, request.run_id, request.attempt, request.round, request.task)
        terms = Terms(packed(named, self._heard), len(words), max(self.least, layout.least))
        self._sum = Platform(self.name, terms, sign=self.proof.sign, verify=self.proof.verify)
        self._of, self._words = (request.attempt, request.round, request.task), words
        return say.one(say.OFFER, say.offer_bytes(self._sum.offer()))

    def step(self, request: Request, message: Record) -> Record:
        """The reply to one of the other requests of a sum."""
        if request.task == say.FOLLOW:
            return self._follow(message)
        if self._sum is None or self._of[:2] != (request.attempt, request.round):
            raise NotOpenedError("it takes part in no sum of this round: it was started again, or has left it")
        try:
            return self._steps()[request.task](self._sum, message)
        except (NotOpenedError, say.BadMessageError) as error:
            self._sum, self._words = None, None  # nothing more is said about these numbers
            raise NotOpenedError(str(error)) from None

    def _follow(self, message: Record) -> Record:
        first = message.get(say.FIRST)
        try:
            ready = self.following.follow(say.opened_in(message), first if isinstance(first, Named) else None)
        except say.BadMessageError as error:
            raise NotOpenedError(str(error)) from None
        return {say.FOLLOWED: float(ready)}

    def _steps(self) -> dict[str, Callable[[Platform, Record], Record]]:
        return {say.SHARE: self._share, say.MASK: self._mask, say.AGREE: self._agree, say.REVEAL: self._reveal}

    def _share(self, platform: Platform, message: Record) -> Record:
        offers = {name: say.offer_of(it) for name, it in say.many_in(message, say.OFFERS).items()}
        return say.many(say.SHARES, platform.share(offers))

    def _mask(self, platform: Platform, message: Record) -> Record:
        assert self._words is not None
        reply = masked(platform.mask(say.many_in(message, say.SHARES), self._words))
        self._words = None
        return reply

    def _agree(self, platform: Platform, message: Record) -> Record:
        stayed = set(say.many_in(message, say.STAYED))
        self._require_same(stayed)
        return say.one(say.AGREEMENT, platform.agree(stayed))

    def _reveal(self, platform: Platform, message: Record) -> Record:
        revealed = platform.reveal(say.many_in(message, say.SIGNATURES))
        self._sum = None
        return say.many(say.REVEALED, revealed)

    def _require_same(self, stayed: set[str]) -> None:
        """Writes down over whom the sum is, unless one over others may have been opened already."""
        _, round_, task = self._of
        over = hashlib.sha256(packed(*(name.encode() for name in sorted(stayed)))).hexdigest()
        try:
            known = json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}
            before = known.setdefault(f"{round_} {task}", over)
            write_atomic(private_folder(self._file.parent) / self._file.name, json.dumps(known), private=True)
        except (OSError, ValueError, AttributeError) as error:
            raise UserError(f"{self._file}: {error}; delete the folder of the run's memory to begin anew") from None
        if before != over:
            raise NotOpenedError("a sum of this round over other platforms may have been opened before")
