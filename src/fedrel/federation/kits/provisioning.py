"""Creates, extends and renews a federation.

DIR/coordinator/  DIR/<platform>/  DIR/<admin>/   one kit for each party (contents: kit.py)
DIR/ca/                                           the authority (contents: authority.py)
"""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from fedrel.data.partition import NAME, TAKEN
from fedrel.errors import UserError
from fedrel.federation.kits.authority import (
    CA,
    LONGEST_DAYS,
    PURPOSES,
    Authority,
    Entry,
    Federation,
    make_private,
    pem,
    read,
    record,
    to_json,
    write_private,
)
from fedrel.federation.kits.kit import (
    BLINDING_KEY,
    COORDINATOR,
    FORMAT,
    KEY_BYTES,
    KIT,
    POLICY,
    SIGN_CA,
    SIGN_CERTIFICATE,
    SIGN_KEY,
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
    Role,
    open_kit,
)
from fedrel.privacy import policy
from fedrel.util.files import atomic_folder

__all__ = ["Federation", "add", "check_name", "new", "read", "renew", "revoke"]

_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
_CERTIFICATES = {"tls": TLS_CERTIFICATE, "sign": SIGN_CERTIFICATE}


def new(
    folder: Path, *, host: str, port: int, platforms: Sequence[str], admin: str = "admin", days: int = 365
) -> Federation:
    """Creates kits for a coordinator, its platforms and one admin in a new folder, completely or not at all.
    Certificates are valid for `days`. Raises UserError if the folder exists or an argument is invalid.
    """
    if folder.exists():
        raise UserError(f"{folder}: already exists; choose another name, or add to it with `fedrel federation add`")
    _check_address(host, port)
    if not 1 <= days <= LONGEST_DAYS:
        raise UserError(f"--days {days}: certificates can be valid for 1 to {LONGEST_DAYS} days")
    entries = {COORDINATOR: Entry("coordinator")}
    wanted: list[tuple[str, Role]] = [*((name, "platform") for name in platforms), (admin, "admin")]
    for name, role in wanted:
        check_name(name, role, entries)
        entries[name] = Entry(role)
    with atomic_folder(folder, private=True) as whole:
        federation = Federation(whole, f"fedrel-{secrets.token_hex(8)}", host, port, days, entries)
        authority = Authority.make(federation)
        key = secrets.token_bytes(KEY_BYTES)
        for name in entries:
            _make_kit(federation, authority, whole / name, name, key)
        record(federation)
        make_private([whole / CA])
    return replace(federation, folder=folder)


def add(folder: Path, name: str, role: Literal["platform", "admin", "viewer"], key_from: Path | None = None) -> Path:
    """Creates one more kit and returns its folder. A new platform's blinding key is copied from another platform's kit
    (`key_from`, else any in `folder`). Raises UserError if the name is taken or there is no such kit.
    """
    federation = read(folder)
    check_name(name, role, federation.entries)
    kit = folder / name
    if kit.exists():
        raise UserError(f"{kit}: already exists; move it away, or choose another name")
    key = _shared_key(federation, key_from) if role == "platform" else b""
    grown = replace(federation, entries={**federation.entries, name: Entry(role)})
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as work:
        _make_kit(grown, Authority.read(folder), Path(work) / name, name, key)
        record(grown)
        (Path(work) / name).replace(kit)
    return kit


def revoke(folder: Path, name: str) -> list[Path]:
    """Revokes a party and returns the file to copy to the coordinator, which rereads it within a second. Raises
    UserError for the coordinator itself, and for a party that is unknown or already revoked.
    """
    federation = read(folder)
    entry = federation.known(name)
    if entry.role == "coordinator":
        raise UserError(f"{name} cannot be revoked; create a new federation instead")
    if entry.revoked:
        raise UserError(f"{name} was already revoked on {entry.revoked:%Y-%m-%d}")
    revoked = Entry(entry.role, datetime.now(UTC).replace(microsecond=0))
    return record(replace(federation, entries={**federation.entries, name: revoked}))


def renew(folder: Path, names: Sequence[str] = ()) -> dict[str, list[Path]]:
    """Issues new certificates for existing keys, of the named parties or of all. Returns, by name, the files that each
    party has to replace. Raises UserError for a party that is unknown or revoked.
    """
    federation = read(folder)
    for name in names:
        if federation.known(name).revoked:
            raise UserError(f"{name} was revoked; add it again under another name")
    authority = Authority.read(folder)
    chosen = [name for name, entry in federation.entries.items() if not entry.revoked and (name in names or not names)]
    renewed: dict[str, list[Path]] = {}
    for name in chosen:
        for purpose in PURPOSES:
            key = federation.certificate(name, purpose).public_key()
            certificate = authority.sign(federation, name, federation.entries[name].role, key, purpose)
            path = folder / name / _CERTIFICATES[purpose]
            for place in (federation.issued(name, purpose), path):
                write_private(place, certificate.public_bytes(Encoding.PEM))
            renewed.setdefault(name, []).append(path)
    record(federation)
    return renewed


def _check_address(host: str, port: int) -> None:
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise UserError(f"--coordinator {host}: not a host name or IPv4 address, like fed.example.org")
    if not 1 <= port <= 65535:
        raise UserError(f"--port {port}: ports range from 1 to 65535")


def check_name(name: str, role: Role, taken: dict[str, Entry]) -> None:
    """Raises UserError if a party of this role cannot have this name: malformed, reserved, or taken."""
    if not NAME.fullmatch(name):
        raise UserError(
            f'"{name}": a name has up to 48 letters, digits, _ and -, and begins with a letter or digit '
            "(it becomes a folder name and part of certificates)"
        )
    if name.casefold() in TAKEN - ({"admin"} if role in ("admin", "viewer") else set()):
        raise UserError(f'"{name}": this name is reserved; choose another')
    if name.casefold() in {other.casefold() for other in taken}:
        raise UserError(f'"{name}": this name is taken (case does not count); choose another')


def _make_kit(federation: Federation, authority: Authority, kit: Path, name: str, blinding_key: bytes) -> None:
    """Creates a kit, and the authority's copies of its certificates."""
    role = federation.entries[name].role
    for purpose, secret, authority_copy, key in (
        ("tls", TLS_KEY, TLS_CA, ec.generate_private_key(ec.SECP256R1())),
        ("sign", SIGN_KEY, SIGN_CA, ed25519.Ed25519PrivateKey.generate()),
    ):
        certificate = authority.sign(federation, name, role, key.public_key(), purpose)  # type: ignore[arg-type]
        write_private(kit / secret, pem(key))
        write_private(kit / authority_copy, authority.certificate.public_bytes(Encoding.PEM))
        for place in (kit / _CERTIFICATES[purpose], federation.issued(name, purpose)):  # type: ignore[arg-type]
            write_private(place, certificate.public_bytes(Encoding.PEM))
    if role == "platform":
        write_private(kit / BLINDING_KEY, blinding_key)
        policy.install(kit / POLICY)
    about = {"format": FORMAT, "federation": federation.id, "name": name, "role": role}
    about |= {"host": federation.host, "port": federation.port}
    write_private(kit / KIT, to_json(about))
    (kit / "readme.txt").write_text(_readme(federation, name, role), encoding="utf-8")
    make_private([kit])


def _readme(federation: Federation, name: str, role: Role) -> str:
    purpose = {
        "coordinator": "On the coordinator's machine: fedrel coordinator start THIS_FOLDER --data PATH",
        "platform": "On the platform's machine: fedrel platform start THIS_FOLDER --data PATH",
        "admin": "To start and watch training: fedrel submit THIS_FOLDER EXPERIMENT.toml; fedrel status THIS_FOLDER",
        "viewer": "To watch training: fedrel status THIS_FOLDER",
    }[role]
    return (
        f"The kit of {name} in the federation {federation.id} (coordinator: {federation.host}:{federation.port}).\n"
        f"{purpose}\n"
        "It contains private keys: keep it secret, and send it only over a channel that you trust.\n"
    )


def _shared_key(federation: Federation, key_from: Path | None) -> bytes:
    if key_from is not None:
        return open_kit(key_from).blinding_key()
    for name, entry in federation.entries.items():
        if entry.role == "platform" and (federation.folder / name / BLINDING_KEY).exists():
            return open_kit(federation.folder / name).blinding_key()
    raise UserError(
        f"{federation.folder}: there is no platform's kit here to copy the blinding key from; "
        "run this where there is one, or name it with --key-from KIT"
    )
