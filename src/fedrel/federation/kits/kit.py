"""A party's kit: a folder with its keys, its certificates and, on a platform, its policy and the blinding key.

A kit can be copied anywhere; nothing in it refers to the place where it was created.

    kit.json             name and role of its owner, and the coordinator's address
    tls/                 ca.pem, node.crt, node.key: the only files here that the network process may read
    sign/                ca.pem, sign.crt, sign.key: for messages, which processes without network sign and verify
    local/               platform only: policy.toml, blinding.key
    members.json         coordinator only: the parties of the federation, including revoked ones

A node writes its own files here too: ledger/ and memory/ (platform), audit.jsonl, node.log, spool/ (large messages).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from fedrel.errors import UserError

FORMAT = 2
KIT, MEMBERS, BLINDING_KEY, POLICY = "kit.json", "members.json", "local/blinding.key", "local/policy.toml"
TLS_CA, TLS_CERTIFICATE, TLS_KEY = "tls/ca.pem", "tls/node.crt", "tls/node.key"
SIGN_CA, SIGN_CERTIFICATE, SIGN_KEY = "sign/ca.pem", "sign/sign.crt", "sign/sign.key"
KEY_BYTES = 32
COORDINATOR = "coordinator"
Role = Literal["coordinator", "platform", "admin", "viewer"]
ROLES: tuple[Role, ...] = ("coordinator", "platform", "admin", "viewer")
_MOST_KEY_BYTES = 4096  # of a PEM file


@dataclass(frozen=True)
class Party:
    """A holder of the federation's certificates."""

    name: str
    role: Role
    until: datetime  # when the certificate expires
    revoked: datetime | None = None

    def as_json(self) -> dict[str, str | None]:
        revoked = self.revoked.isoformat() if self.revoked else None
        return {"name": self.name, "role": self.role, "until": self.until.isoformat(), "revoked": revoked}

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Party:
        revoked = datetime.fromisoformat(entry["revoked"]) if entry["revoked"] else None
        return cls(entry["name"], entry["role"], datetime.fromisoformat(entry["until"]), revoked)


@dataclass(frozen=True)
class Kit:
    """A kit on disk, whose consistency `open_kit` has checked."""

    folder: Path
    federation: str
    name: str
    role: Role
    host: str
    port: int

    @property
    def certificate(self) -> x509.Certificate:
        """The TLS certificate; the one for signatures expires at the same time."""
        return read_certificate(self.folder / TLS_CERTIFICATE)

    def party(self) -> Party:
        return Party(self.name, self.role, self.certificate.not_valid_after_utc)

    def blinding_key(self) -> bytes:
        """The key that all platforms share and no other party has. Raises UserError if it is missing or damaged."""
        if self.role != "platform":
            raise UserError(f"{self.folder}: the kit of {self.name} has no blinding key; only platforms share it")
        path = self.folder / BLINDING_KEY
        try:
            key = path.read_bytes()
        except OSError as error:
            raise UserError(
                f"{path}: {error.strerror}; copy the key from another platform's kit, not through the coordinator"
            ) from None
        if len(key) != KEY_BYTES:
            raise UserError(f"{path}: {len(key)} bytes where {KEY_BYTES} were expected; copy it from another platform")
        return key

    def members(self) -> list[Party]:
        """All parties as of the last change; empty in kits other than the coordinator's."""
        path = self.folder / MEMBERS
        if not path.exists():
            return []
        try:
            return [Party.from_json(entry) for entry in read_json(path)["members"]]
        except (KeyError, TypeError, ValueError):
            raise UserError(f"{path}: not a list of members; copy the file again") from None


def open_kit(path: Path, *, dates: bool = True) -> Kit:
    """Reads a kit. Raises UserError unless it is complete, consistent and private and, with `dates`, its certificates
    are currently valid.
    """
    about = path / KIT
    if not about.is_file():
        raise UserError(f"{path}: not a kit (it has no {KIT}); create kits with `fedrel federation new`")
    entry = read_json(about)
    try:
        if entry["format"] == 1:
            raise UserError(
                f"{about}: a kit of an earlier version; create a new federation with `fedrel federation new`"
            )
        kit = Kit(
            path,
            str(entry["federation"]),
            str(entry["name"]),
            cast(Role, entry["role"]),
            str(entry["host"]),
            int(entry["port"]),
        )
        if entry["format"] != FORMAT or kit.role not in ROLES:
            raise ValueError
    except (KeyError, ValueError, TypeError):
        raise UserError(f"{about}: not written by this version of fedrel; create the kit again") from None
    for certificate, key, authority in (
        (TLS_CERTIFICATE, TLS_KEY, TLS_CA),
        (SIGN_CERTIFICATE, SIGN_KEY, SIGN_CA),
    ):
        _check_identity(kit, path / certificate, path / key, path / authority)
        if dates:
            for file in (certificate, authority):
                _check_dates(path / file)
    return kit


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate from a PEM file. Raises UserError if it cannot be read."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; the kit is incomplete, copy it again") from None
    except ValueError:
        raise UserError(f"{path}: not a certificate; copy the kit again") from None


def read_key(path: Path) -> Any:
    """A private key from a PEM file. Raises UserError if it cannot be read, or if other users can read it."""
    try:
        mode = path.stat().st_mode
        content = path.read_bytes()[:_MOST_KEY_BYTES]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; the kit is incomplete, copy it again") from None
    if mode & 0o077:
        raise UserError(f"{path}: other users of this machine can read this key; chmod -R go= {path.parent.parent}")
    try:
        return load_pem_private_key(content, None)
    except (ValueError, TypeError):
        raise UserError(f"{path}: not a private key; copy the kit again") from None


def read_json(path: Path) -> Any:
    """The content of a JSON file of a kit. Raises UserError if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON; copy the kit again") from None


def subject(certificate: x509.Certificate) -> tuple[str, str, str]:
    """Name, role and federation of a certificate's owner; each empty unless the certificate has exactly one."""

    def only(oid: x509.ObjectIdentifier) -> str:
        found = certificate.subject.get_attributes_for_oid(oid)
        return str(found[0].value) if len(found) == 1 else ""

    return (
        only(NameOID.COMMON_NAME),
        only(NameOID.ORGANIZATIONAL_UNIT_NAME),
        only(NameOID.ORGANIZATION_NAME),
    )


def _check_identity(kit: Kit, path: Path, secret: Path, authority: Path) -> None:
    certificate = read_certificate(path)
    name, role, federation = subject(certificate)
    if (name, role) != (kit.name, kit.role):
        raise UserError(
            f"{path}: a certificate of {name} ({role}) in the kit of {kit.name} ({kit.role}); copy the kit again"
        )
    try:
        certificate.verify_directly_issued_by(read_certificate(authority))
        if federation != kit.federation:
            raise ValueError
    except (ValueError, TypeError, InvalidSignature):
        raise UserError(f"{path}: a certificate of another federation; copy the kit again") from None
    if read_key(secret).public_key() != certificate.public_key():
        raise UserError(f"{secret}: not the key that {path.name} certifies; copy the kit again")


def _check_dates(path: Path) -> None:
    certificate, now = read_certificate(path), datetime.now(UTC)
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < since:
        raise UserError(
            f"{path}: valid from {since:%Y-%m-%d %H:%M} UTC, but the clock says {now:%Y-%m-%d %H:%M}; set the clock"
        )
    if now > until:
        raise UserError(f"{path}: expired on {until:%Y-%m-%d %H:%M} UTC; ask for a new one (`fedrel federation renew`)")
