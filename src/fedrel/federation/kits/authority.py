"""A federation's certificate authority: its parties, and the certificates it has issued.

    DIR/ca/ca.key, ca.pem             its own key and certificate
    DIR/ca/issued/NAME.{tls,sign}.crt every certificate that it issued
    DIR/ca/federation.json            the parties of the federation, including revoked ones

It stores no private key but its own. A renewed certificate is for the owner's existing key, so it is not secret and can
be sent by mail.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedrel.errors import UserError
from fedrel.federation.kits.kit import COORDINATOR, FORMAT, MEMBERS, Party, Role, read_certificate, read_json, read_key
from fedrel.util.files import write_atomic

CA = "ca"
LOCAL_HOSTS = ("localhost", "127.0.0.1")  # names of the coordinator on its own machine
LONGEST_DAYS = 3653  # validity of the authority, and so the limit for every certificate
# An OID of our own (the 2.25 arc, from a UUID): a certificate with only this purpose opens no TLS connection.
SIGNATURES = x509.ObjectIdentifier("2.25.284711329064118052146925811137218746713")
Purpose = Literal["tls", "sign"]
PURPOSES: tuple[Purpose, ...] = ("tls", "sign")
_TOLERANCE = timedelta(days=1)  # certificates are valid from a day ago, so that slow clocks accept them
_REGISTER = "federation.json"


@dataclass(frozen=True)
class Entry:
    """What the authority knows about a party, apart from its certificates."""

    role: Role
    revoked: datetime | None = None


@dataclass(frozen=True)
class Federation:
    """A federation as its authority records it: address of the coordinator, parties, lifetime of certificates."""

    folder: Path
    id: str  # in every certificate and message: kits of two federations do not mix
    host: str
    port: int
    days: int
    entries: dict[str, Entry]

    def parties(self) -> list[Party]:
        return [
            Party(name, entry.role, self.certificate(name, "tls").not_valid_after_utc, entry.revoked)
            for name, entry in self.entries.items()
        ]

    def certificate(self, name: str, purpose: Purpose) -> x509.Certificate:
        return read_certificate(self.issued(name, purpose))

    def issued(self, name: str, purpose: Purpose) -> Path:
        """The authority's own copy of a certificate."""
        return self.folder / CA / "issued" / f"{name}.{purpose}.crt"

    def known(self, name: str) -> Entry:
        """The entry of a party. Raises UserError if there is no such party."""
        if name not in self.entries:
            raise UserError(f"{self.folder}: there is no party named {name}; known: {', '.join(self.entries)}")
        return self.entries[name]


def read(folder: Path) -> Federation:
    """The federation that was created in a folder. Raises UserError if there is none, or of another version."""
    path = folder / CA / _REGISTER
    if not path.is_file():
        raise UserError(f"{folder}: no federation was created here (it has no {CA}/{_REGISTER})")
    about = read_json(path)
    try:
        entries = {
            name: Entry(entry["role"], datetime.fromisoformat(entry["revoked"]) if entry["revoked"] else None)
            for name, entry in about["parties"].items()
        }
        if about["format"] != FORMAT:
            raise ValueError
        return Federation(folder, about["federation"], about["host"], about["port"], about["days"], entries)
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path}: not written by this version of fedrel; create a new federation") from None


def record(federation: Federation) -> list[Path]:
    """Writes the authority's register and the coordinator's list of members. Returns the path of that list."""
    entries = {
        name: {"role": entry.role, "revoked": entry.revoked.isoformat() if entry.revoked else None}
        for name, entry in federation.entries.items()
    }
    about = {"format": FORMAT, "federation": federation.id, "host": federation.host, "port": federation.port}
    write_private(federation.folder / CA / _REGISTER, to_json({**about, "days": federation.days, "parties": entries}))
    members = federation.folder / COORDINATOR / MEMBERS
    write_private(members, to_json({"members": [party.as_json() for party in federation.parties()]}))
    return [members]


@dataclass(frozen=True)
class Authority:
    """The authority's key and certificate, which issue all other certificates."""

    key: Any  # an elliptic-curve private key
    certificate: x509.Certificate

    @classmethod
    def make(cls, federation: Federation) -> Authority:
        """A new authority, written into the federation's folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, federation.id)])
        certificate = (
            _certificate(name, name, key.public_key(), key.public_key())
            .not_valid_before(now - _TOLERANCE)
            .not_valid_after(now + timedelta(days=LONGEST_DAYS + 1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        write_private(federation.folder / CA / "ca.key", pem(key))
        write_private(federation.folder / CA / "ca.pem", certificate.public_bytes(Encoding.PEM))
        return cls(key, certificate)

    @classmethod
    def read(cls, folder: Path) -> Authority:
        """The authority of the federation in a folder. Raises UserError if its key is missing or not private."""
        path = folder / CA / "ca.key"
        try:
            key = read_key(path)
        except UserError as error:
            raise UserError(f"{error}; without this key no certificate can be issued") from None
        return cls(key, read_certificate(folder / CA / "ca.pem"))

    def sign(
        self, federation: Federation, name: str, role: Role, public_key: Any, purpose: Purpose
    ) -> x509.Certificate:
        """A certificate for a party's public key, valid for `federation.days`, at most as long as the authority's own.
        Raises UserError if that has expired.
        """
        now = datetime.now(UTC)
        until = min(now + timedelta(days=federation.days), self.certificate.not_valid_after_utc)
        if until <= now:
            raise UserError(f"{federation.folder / CA}: the authority itself has expired; create a new federation")
        owner = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, name),
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, federation.id),
            ]
        )
        made = (
            _certificate(owner, self.certificate.subject, public_key, self.key.public_key())
            .not_valid_before(now - _TOLERANCE)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_purpose(role, purpose)]), critical=True)
        )
        if (role, purpose) == ("coordinator", "tls"):
            names = [_alternative(host) for host in dict.fromkeys((federation.host, *LOCAL_HOSTS))]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self.key, hashes.SHA256())


def _purpose(role: Role, purpose: Purpose) -> x509.ObjectIdentifier:
    """The one purpose of a certificate: a platform's cannot be used to impersonate the coordinator."""
    if purpose == "sign":
        return SIGNATURES
    return ExtendedKeyUsageOID.SERVER_AUTH if role == "coordinator" else ExtendedKeyUsageOID.CLIENT_AUTH


def _certificate(owner: x509.Name, issuer: x509.Name, public_key: Any, issuer_key: Any) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(owner)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        **dict.fromkeys(
            (
                "content_commitment",
                "key_encipherment",
                "data_encipherment",
                "key_agreement",
                "encipher_only",
                "decipher_only",
            ),
            False,
        ),
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem(key: Any) -> bytes:
    """A private key as unencrypted PEM."""
    found: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return found


def to_json(content: object) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, and creates its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(path, content, private=True)


def make_private(folders: Sequence[Path]) -> None:
    """Removes all access of other users to these folders and everything in them."""
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o700 if path.is_dir() else 0o600)
