"""The authority of a federation: whom it knows, and the certificates that it gives out.

    DIR/ca/rootCA.key, rootCA.pem   its own key and certificate
    DIR/ca/issued/NAME.crt          every certificate that it gave out
    DIR/ca/federation.json          who belongs to the federation, and who no longer does

It keeps no private key but its own. A renewed certificate is for the key that its owner has already: it is no secret,
and can be sent by mail.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from nvflare.lighter.utils import (
    Identity,
    generate_cert,
    generate_keys,
    load_private_key_file,
    serialize_cert,
    serialize_pri_key,
)

from fedrel.errors import UserError
from fedrel.federation.engines.nvflare import hardening
from fedrel.federation.engines.nvflare.kits import (
    FORMAT,
    MEMBERS,
    ORGANISATION,
    Party,
    PartyRole,
    certificate_name,
    read_certificate,
    read_json,
)
from fedrel.files import write_whole

COORDINATOR, KEEPER, CA = "coordinator", "keeper", "ca"
BESIDE = "localhost"  # the keeper sits beside the server; the address that others use need not lead back there
OTHER_HOSTS = [BESIDE, "127.0.0.1"]
LONGEST_DAYS = 3653  # of the authority, and so of every certificate
NVFLARE_ROLES = {"keeper": hardening.LEAD, "admin": hardening.LEAD, "viewer": hardening.MEMBER}
_TOLERANCE = timedelta(hours=1)  # a clock that is a little slow is no reason to be refused
_ISSUED, _REGISTER = "issued", "federation.json"


@dataclass(frozen=True)
class Entry:
    """What the authority knows of a party, apart from its certificate."""

    role: PartyRole
    revoked: datetime | None = None


@dataclass(frozen=True)
class Federation:
    folder: Path
    id: str  # in every certificate and message: kits of two federations do not mix
    host: str
    port: int
    days: int
    entries: dict[str, Entry]

    def parties(self) -> list[Party]:
        return [
            Party(name, entry.role, self.certificate(name).not_valid_after_utc, entry.revoked)
            for name, entry in self.entries.items()
        ]

    def certificate(self, name: str) -> x509.Certificate:
        return read_certificate(self.issued(name))

    def issued(self, name: str) -> Path:
        """The authority's own copy of a certificate."""
        return self.folder / CA / _ISSUED / f"{name}.crt"

    def known(self, name: str) -> Entry:
        if name not in self.entries:
            raise UserError(f"{self.folder}: nobody is called {name}; there is {', '.join(self.entries)}")
        return self.entries[name]


def read(folder: Path) -> Federation:
    path = folder / CA / _REGISTER
    if not path.is_file():
        raise UserError(f"{folder}: no federation that was made here (no {CA}/{_REGISTER} in it)")
    about = read_json(path)
    entries = {
        name: Entry(entry["role"], datetime.fromisoformat(entry["revoked"]) if entry["revoked"] else None)
        for name, entry in about["parties"].items()
    }
    return Federation(folder, about["federation"], about["host"], about["port"], about["days"], entries)


def record(federation: Federation) -> list[Path]:
    """Writes the authority's register, and what the coordinator has to know of it: those files are returned."""
    entries = {
        name: {"role": entry.role, "revoked": entry.revoked.isoformat() if entry.revoked else None}
        for name, entry in federation.entries.items()
    }
    about = {"format": FORMAT, "federation": federation.id, "host": federation.host, "port": federation.port}
    write_private(federation.folder / CA / _REGISTER, to_json({**about, "days": federation.days, "parties": entries}))
    parties = federation.parties()
    out = [party for party in parties if party.revoked]
    kit = federation.folder / COORDINATOR
    content = {
        kit / MEMBERS: {"members": [party.as_json() for party in parties if party.role != "keeper"]},
        kit / "disabled_clients.json": {"disabled_clients": [certificate_name(it.name, it.role) for it in out]},
    }
    for path, value in content.items():
        write_private(path, to_json(value))
    return list(content)


@dataclass(frozen=True)
class Authority:
    key: Any  # an RSA private key
    certificate: x509.Certificate

    @classmethod
    def make(cls, federation: Federation) -> Authority:
        key, public = generate_keys()
        name = Identity(federation.id)
        since = datetime.now(UTC) - _TOLERANCE
        certificate = generate_cert(
            name, name, key, public, valid_days=LONGEST_DAYS + 1, ca=True, not_valid_before=since
        )
        write_private(federation.folder / CA / "rootCA.key", serialize_pri_key(key))
        write_private(federation.folder / CA / "rootCA.pem", serialize_cert(certificate))
        return cls(key, certificate)

    @classmethod
    def read(cls, folder: Path) -> Authority:
        path = folder / CA / "rootCA.key"
        try:
            key = load_private_key_file(path)
        except (OSError, ValueError, TypeError):
            raise UserError(f"{path}: cannot be read; only who has this key can give out certificates") from None
        return cls(key, read_certificate(folder / CA / "rootCA.pem"))

    def sign(self, federation: Federation, name: str, role: PartyRole, public_key: Any) -> x509.Certificate:
        now = datetime.now(UTC)
        until = min(now + timedelta(days=federation.days), self.certificate.not_valid_after_utc)
        if until <= now:
            raise UserError(f"{federation.folder / CA}: the authority itself has expired; make a new federation")
        server = role == "coordinator"
        # With it, a platform's certificate cannot pose as the coordinator's.
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        certificate: x509.Certificate = generate_cert(
            Identity(certificate_name(name, role), ORGANISATION, NVFLARE_ROLES.get(role)),
            Identity(federation.id),
            self.key,
            public_key,
            server_default_host=federation.host if server else None,
            server_additional_hosts=OTHER_HOSTS if server else None,
            not_valid_before=now - _TOLERANCE,
            not_valid_after=until,
            extra_extensions=[(x509.ExtendedKeyUsage([purpose]), False)],
        )
        return certificate


def to_json(content: object) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def write_private(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, content)
    path.chmod(0o600)


def make_private(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
