"""Messages that prove who made them: a request of the coordinator, a reply of a platform, a command of an admin.

The signature covers what is asked (run, round, task, for whom), a number that grows, and the SHA-256 of the payload. It
is made and checked by the processes that hold the data; whatever carries the message can drop it, and nothing else.
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

_MOST_TEXT = 500  # characters of a reason


class ForgedError(Exception):
    """A message that is not what it claims to be; the sentence says what is wrong with it."""


@dataclass(frozen=True)
class Request:
    """What the coordinator asks of one platform."""

    KIND: ClassVar[str] = "request"
    federation: str
    run: str  # its name, for people
    run_id: str  # drawn when the run began; keys of facts depend on it
    to: str
    task: str  # "begin", or a task of the method
    round: int
    attempt: int  # grows whenever the run's process starts
    number: int  # grows with every request of an attempt
    seconds: float  # that the platform has
    bytes: int  # of the payload
    sha256: str


@dataclass(frozen=True)
class Reply:
    """What a platform answers."""

    KIND: ClassVar[str] = "reply"
    federation: str
    platform: str
    answers: str  # SHA-256 of the request's text
    state: str  # "done", "refused" or "failed"
    why: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Command:
    """What an admin wants of the coordinator's node."""

    KIND: ClassVar[str] = "command"
    federation: str
    challenge: str  # drawn by the coordinator, and good for one command
    do: str  # "submit" or "stop"
    run: str
    experiment: str  # TOML; empty: go on with the run


class _Statement(Protocol):
    KIND: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


Statement = TypeVar("Statement", bound=_Statement)


@dataclass(frozen=True)
class Envelope:
    """A signed statement, as it travels."""

    text: str  # the statement as JSON: these very characters are signed
    certificate: str  # PEM, of the key that signed
    signature: str  # hex

    def as_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: object) -> Envelope:
        """From what `as_json` made and a JSON reader read."""
        match found:
            case {"text": str(text), "certificate": str(certificate), "signature": str(signature), **rest} if not rest:
                return cls(text, certificate, signature)
        raise ForgedError("it is no signed message")

    @property
    def digest(self) -> str:
        """Names this very statement."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Signer:
    """Signs with a kit's key. A renewed certificate is noticed when the next message is signed."""

    federation: str
    name: str
    folder: Path
    key: Ed25519PrivateKey

    @classmethod
    def of(cls, kit: Kit) -> Signer:
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
    """Knows the federation's authority, and so everybody in it."""

    federation: str
    authority: x509.Certificate

    @classmethod
    def of(cls, kit: Kit) -> Verifier:
        return cls(kit.federation, read_certificate(kit.folder / SIGN_CA))

    def open(self, envelope: Envelope, kind: type[Statement], *, role: Role, name: str | None = None) -> Statement:
        """The statement, if somebody in this role (and of this name) signed it; else ForgedError."""
        _, key = self.signed_by(envelope, role=role, name=name)
        try:
            key.verify(bytes.fromhex(envelope.signature), _signed(kind.KIND, envelope.text))
        except (InvalidSignature, ValueError):
            raise ForgedError("its signature does not fit its content") from None
        statement = _parse(kind, envelope.text)
        if getattr(statement, "federation", None) != self.federation:
            raise ForgedError("it was made for another federation")
        return statement

    def signed_by(self, envelope: Envelope, *, role: Role, name: str | None = None) -> tuple[str, Ed25519PublicKey]:
        """The owner of the certificate that came with a message, and the owner's key."""
        try:
            certificate = x509.load_pem_x509_certificate(envelope.certificate.encode())
            certificate.verify_directly_issued_by(self.authority)
            purposes = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        except Exception:  # a stranger's bytes: the library has more errors for them than it documents
            raise ForgedError("its certificate is not of this federation") from None
        key, now = certificate.public_key(), datetime.now(UTC)
        owner, owner_role, federation = subject(certificate)
        if purposes != [SIGNATURES] or not isinstance(key, Ed25519PublicKey) or federation != self.federation:
            raise ForgedError("its certificate is not one for signatures")
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise ForgedError(f"the certificate of {owner} is not valid now")
        if owner_role != role or (name is not None and owner != name):
            raise ForgedError(f"{owner} ({owner_role}) signed it, where {name or 'a party'} ({role}) was expected")
        return owner, key


def sha256(payload: bytes | bytearray | memoryview) -> str:
    return hashlib.sha256(payload).hexdigest()


def sha256_of_file(descriptor: int) -> str:
    """Of all that lies in an open file; its position does not change."""
    found, place = hashlib.sha256(), 0
    while piece := os.pread(descriptor, 2**20, place):
        found.update(piece)
        place += len(piece)
    return found.hexdigest()


def _signed(kind: str, text: str) -> bytes:
    """What is signed: a reply can never pass for a request."""
    return f"fedrel {kind} 1\n{text}".encode()


def _parse(kind: type[Statement], text: str) -> Statement:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ForgedError("it is not JSON") from None
    wanted = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}
    if not isinstance(found, dict) or found.keys() != wanted.keys():
        raise ForgedError("it has other fields than such a message")
    if not all(type(found[name]) is type_ for name, type_ in wanted.items()):
        raise ForgedError("a field has the wrong type")
    if "why" in found:
        found["why"] = found["why"][:_MOST_TEXT]
    return kind(**found)
