"""Signed messages: the coordinator's requests, the platforms' replies, the admins' commands.

The signature covers the whole statement: for a request, the run, round, task and recipient, an increasing number, and
the SHA-256 of the payload. The processes that hold the data sign and verify; a carrier can only drop or delay messages.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedrel.errors import UserError
from fedrel.federation.kits.authority import SIGNATURES
from fedrel.federation.kits.kit import (
    SIGN_CA,
    SIGN_CERTIFICATE,
    SIGN_KEY,
    Kit,
    Role,
    read_certificate,
    read_key,
    subject,
)

BEGIN = "begin"  # the first task of a run, in which a platform receives what was agreed
UNREADY = "unready"  # the state of a reply: the platform needs a `begin` for this run first
_MOST_TEXT = 500  # characters of a reason


class ForgedError(Exception):
    """A message that is not what it claims to be; the text says what is wrong with it."""


@dataclass(frozen=True)
class Request:
    """A request of the coordinator to one platform."""

    KIND: ClassVar[str] = "request"
    federation: str
    run: str  # its name, for people
    run_id: str  # random, drawn when the run begins; blinding keys depend on it
    to: str  # the platform
    task: str  # BEGIN, or a task of the method
    round: int
    attempt: int  # increases whenever the run's process starts
    number: int  # increases with every request of an attempt
    seconds: float  # the platform's time limit
    bytes: int  # size of the payload
    sha256: str  # of the payload, hex


@dataclass(frozen=True)
class Reply:
    """A platform's reply to a request."""

    KIND: ClassVar[str] = "reply"
    federation: str
    platform: str
    answers: str  # SHA-256 of the request's text, hex
    state: str  # "done", "refused", "failed" or UNREADY
    why: str  # the reason, unless "done"
    bytes: int  # size of the payload
    sha256: str  # of the payload, hex


@dataclass(frozen=True)
class Command:
    """A command of an admin to the coordinator's node."""

    KIND: ClassVar[str] = "command"
    federation: str
    challenge: str  # from the coordinator, valid for one command
    do: str  # "submit" or "stop"
    run: str
    experiment: str  # TOML; empty: resume the run


class _Statement(Protocol):
    KIND: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


Statement = TypeVar("Statement", bound=_Statement)


@dataclass(frozen=True)
class Envelope:
    """A signed statement in transit."""

    text: str  # the statement as JSON: exactly these characters are signed
    certificate: str  # PEM, of the signing key
    signature: str  # hex

    def as_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: object) -> Envelope:
        """The inverse of `as_json`. Raises ForgedError if `found` is anything else."""
        match found:
            case {"text": str(text), "certificate": str(certificate), "signature": str(signature), **rest} if not rest:
                return cls(text, certificate, signature)
        raise ForgedError("it is not a signed message")

    @property
    def digest(self) -> str:
        """SHA-256 of the statement's text, hex: identifies the statement."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Signer:
    """Signs with a kit's key. The certificate is read for each message, so a renewed one is used at once."""

    federation: str
    name: str
    folder: Path
    key: Ed25519PrivateKey

    @classmethod
    def of(cls, kit: Kit) -> Signer:
        """Raises UserError if the kit's signing key cannot be read or is not an Ed25519 key."""
        key = read_key(kit.folder / SIGN_KEY)
        if not isinstance(key, Ed25519PrivateKey):
            raise UserError(f"{kit.folder / SIGN_KEY}: not an Ed25519 key; copy the kit again")
        return cls(kit.federation, kit.name, kit.folder, key)

    def sign(self, statement: Request | Reply | Command) -> Envelope:
        text = json.dumps(asdict(statement))
        certificate = (self.folder / SIGN_CERTIFICATE).read_text(encoding="ascii")
        return Envelope(text, certificate, self.key.sign(_signed(statement.KIND, text)).hex())


@dataclass(frozen=True)
class Verifier:
    """Verifies signatures against the federation's authority."""

    federation: str
    authority: x509.Certificate

    @classmethod
    def of(cls, kit: Kit) -> Verifier:
        return cls(kit.federation, read_certificate(kit.folder / SIGN_CA))

    def open(self, envelope: Envelope, kind: type[Statement], *, role: Role, name: str | None = None) -> Statement:
        """The statement. Raises ForgedError unless a party with this role (and name, if given) signed it for this
        federation and it has the fields of its kind.
        """
        _, key = self.signed_by(envelope, role=role, name=name)
        try:
            key.verify(bytes.fromhex(envelope.signature), _signed(kind.KIND, envelope.text))
        except (InvalidSignature, ValueError):
            raise ForgedError("its signature does not match its content") from None
        statement = _parse(kind, envelope.text)
        if getattr(statement, "federation", None) != self.federation:
            raise ForgedError("it was made for another federation")
        return statement

    def signed_by(self, envelope: Envelope, *, role: Role, name: str | None = None) -> tuple[str, Ed25519PublicKey]:
        """Name and public key from the envelope's certificate. Raises ForgedError if it was not issued by this
        federation's authority for signatures, is not valid now, or has another role (or name, if given).
        """
        try:
            certificate = x509.load_pem_x509_certificate(envelope.certificate.encode())
            certificate.verify_directly_issued_by(self.authority)
            purposes = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        except Exception:  # untrusted bytes, for which the library raises more than it documents
            raise ForgedError("its certificate is not from this federation") from None
        key, now = certificate.public_key(), datetime.now(UTC)
        owner, owner_role, federation = subject(certificate)
        if purposes != [SIGNATURES] or not isinstance(key, Ed25519PublicKey) or federation != self.federation:
            raise ForgedError("its certificate is not for signatures")
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise ForgedError(f"the certificate of {owner} is not currently valid")
        if owner_role != role or (name is not None and owner != name):
            raise ForgedError(f"{owner} ({owner_role}) signed it instead of {name or 'a party'} ({role})")
        return owner, key


def sha256(payload: bytes | bytearray | memoryview) -> str:
    """SHA-256 of a payload, hex."""
    return hashlib.sha256(payload).hexdigest()


def sha256_of_file(descriptor: int) -> str:
    """SHA-256 of an open file's whole content, hex. Does not move its position."""
    found, place = hashlib.sha256(), 0
    while piece := os.pread(descriptor, 2**20, place):
        found.update(piece)
        place += len(piece)
    return found.hexdigest()


def _signed(kind: str, text: str) -> bytes:
    """The signed bytes. They include the kind, so a reply can never pass for a request."""
    return f"fedrel {kind} 1\n{text}".encode()


def _parse(kind: type[Statement], text: str) -> Statement:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ForgedError("it is not JSON") from None
    wanted = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}
    if not isinstance(found, dict) or found.keys() != wanted.keys():
        raise ForgedError("it does not have the fields of such a message")
    if not all(type(found[name]) is type_ for name, type_ in wanted.items()):
        raise ForgedError("a field has the wrong type")
    if "why" in found:
        found["why"] = found["why"][:_MOST_TEXT]
    return kind(**found)
