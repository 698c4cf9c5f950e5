"""Certificates and kits of a federation, made with NVFlare's own provisioning.

    DIR/coordinator/  DIR/<platform>/  DIR/<admin>/   one kit for each party (kits.py says what is in one)
    DIR/ca/                                           the authority: its key, and every certificate that it gave out

The authority keeps no private key but its own. A renewed certificate is for the key that its owner has already:
it is no secret, and can be sent by mail.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from nvflare.lighter.constants import PropKey, ProvisionMode
from nvflare.lighter.ctx import ProvisionContext
from nvflare.lighter.entity import Participant, Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.spec import Builder
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
    KEY,
    KEY_BYTES,
    KIT,
    MEMBERS,
    ORGANISATION,
    Party,
    PartyRole,
    certificate_file,
    certificate_name,
    open_kit,
    read_certificate,
    read_json,
)
from fedrel.files import folder_whole, write_whole
from fedrel.partition import NAME, TAKEN
from fedrel.privacy import policy

COORDINATOR, KEEPER, CA = "coordinator", "keeper", "ca"
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
_AUTHORITY_DAYS = 3653
_TOLERANCE = timedelta(hours=1)  # a clock that is a little slow is no reason to be refused
_ISSUED, _REGISTER = "issued", "federation.json"
_SCHEME = "tcp"
_BESIDE = "localhost"  # the keeper sits beside the server; the address that others use need not lead back there
_OTHER_HOSTS = [_BESIDE, "127.0.0.1"]
_NVFLARE_ROLES = {"keeper": hardening.LEAD, "admin": hardening.LEAD, "viewer": hardening.MEMBER}
_KIT_ROLES = {"coordinator": "coordinator", "platform": "platform"}


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
        return read_certificate(self.folder / CA / _ISSUED / f"{name}.crt")

    def known(self, name: str) -> Entry:
        if name not in self.entries:
            raise UserError(f"{self.folder}: nobody is called {name}; there is {', '.join(self.entries)}")
        return self.entries[name]


def new(
    folder: Path, *, host: str, port: int, platforms: Sequence[str], admin: str = "admin", days: int = 365
) -> Federation:
    """Kits for a coordinator, its platforms and one admin, in a folder that is there whole or not at all."""
    if folder.exists():
        raise UserError(f"{folder}: already there; choose another name, or add to it with `fedrel federation add`")
    _check_address(host, port)
    if not 1 <= days <= _AUTHORITY_DAYS:
        raise UserError(f"--days {days}: certificates last between 1 and {_AUTHORITY_DAYS} days")
    entries = {COORDINATOR: Entry("coordinator"), KEEPER: Entry("keeper")}
    wanted: list[tuple[str, PartyRole]] = [*((name, "platform") for name in platforms), (admin, "admin")]
    for name, role in wanted:
        check_name(name, role, entries)
        entries[name] = Entry(role)
    with folder_whole(folder) as whole:
        federation = Federation(whole, f"fedrel-{secrets.token_hex(4)}", host, port, days, entries)
        (whole / CA / _ISSUED).mkdir(parents=True)
        authority = _Authority.make(federation)
        _make_kits(federation, authority, whole, list(entries), secrets.token_bytes(KEY_BYTES))
        _record(federation)
        _make_private(whole / CA)
    return replace(federation, folder=folder)


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


def add(folder: Path, name: str, role: Literal["platform", "admin", "viewer"], key_from: Path | None = None) -> Path:
    """Makes one more kit. The new platform's blinding key comes from another platform's kit: nobody else has it."""
    federation = read(folder)
    check_name(name, role, federation.entries)
    kit = folder / name
    if kit.exists():
        raise UserError(f"{kit}: already there; move it away, or choose another name")
    key = _shared_key(federation, key_from) if role == "platform" else b""
    grown = replace(federation, entries={**federation.entries, name: Entry(role)})
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as work:
        _make_kits(grown, _Authority.read(folder), Path(work), [name], key)
        _record(grown)
        (Path(work) / name).replace(kit)
    return kit


def revoke(folder: Path, name: str) -> list[Path]:
    """Shuts a party out. The files that say so are returned: the coordinator's server reads them when it starts."""
    federation = read(folder)
    entry = federation.known(name)
    if entry.role in ("coordinator", "keeper"):
        raise UserError(f"{name} cannot be shut out of its own federation; make a new one instead")
    if entry.revoked:
        raise UserError(f"{name} was shut out on {entry.revoked:%Y-%m-%d} already")
    revoked = Entry(entry.role, datetime.now(UTC).replace(microsecond=0))
    return _record(replace(federation, entries={**federation.entries, name: revoked}))


def renew(folder: Path, names: Sequence[str] = ()) -> dict[str, Path]:
    """New certificates for the keys that their owners have; by name, the one file that each of them has to replace."""
    federation = read(folder)
    for name in names:
        if federation.known(name).revoked:
            raise UserError(f"{name} was shut out; add it again under another name")
    authority = _Authority.read(folder)
    chosen = [name for name, entry in federation.entries.items() if not entry.revoked and (name in names or not names)]
    if COORDINATOR in chosen and KEEPER not in chosen:
        chosen.append(KEEPER)
    renewed = {}
    for name in chosen:
        role = federation.entries[name].role
        certificate = authority.sign(federation, name, role, federation.certificate(name).public_key())
        path = _kit_folder(folder, name) / certificate_file(role)
        for place in (folder / CA / _ISSUED / f"{name}.crt", path):
            _write_private(place, serialize_cert(certificate))
        renewed[name] = path
    _record(federation)
    return renewed


# ------------------------------------------------------------------------------------------------ certificates


@dataclass(frozen=True)
class _Authority:
    key: Any  # an RSA private key
    certificate: x509.Certificate

    @classmethod
    def make(cls, federation: Federation) -> _Authority:
        key, public = generate_keys()
        name = Identity(federation.id)
        since = datetime.now(UTC) - _TOLERANCE
        certificate = generate_cert(
            name, name, key, public, valid_days=_AUTHORITY_DAYS + 1, ca=True, not_valid_before=since
        )
        _write_private(federation.folder / CA / "rootCA.key", serialize_pri_key(key))
        _write_private(federation.folder / CA / "rootCA.pem", serialize_cert(certificate))
        return cls(key, certificate)

    @classmethod
    def read(cls, folder: Path) -> _Authority:
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
            Identity(certificate_name(name, role), ORGANISATION, _NVFLARE_ROLES.get(role)),
            Identity(federation.id),
            self.key,
            public_key,
            server_default_host=federation.host if server else None,
            server_additional_hosts=_OTHER_HOSTS if server else None,
            not_valid_before=now - _TOLERANCE,
            not_valid_after=until,
            extra_extensions=[(x509.ExtendedKeyUsage([purpose]), False)],
        )
        return certificate


class _Certificates(CertBuilder):  # type: ignore[misc]  # nvflare has no types
    """NVFlare's builder, with certificates that last as long as asked for and serve one purpose."""

    def __init__(self, federation: Federation, authority: _Authority) -> None:
        super().__init__()
        self._federation, self._authority = federation, authority
        self.names = {certificate_name(name, entry.role): name for name, entry in federation.entries.items()}

    def get_pri_key_cert(self, participant: Participant) -> tuple[Any, x509.Certificate]:
        key, public_key = generate_keys()
        name = self.names[participant.subject]
        return key, self._authority.sign(self._federation, name, self._federation.entries[name].role, public_key)


# -------------------------------------------------------------------------------------------------------- kits


def _make_kits(federation: Federation, authority: _Authority, into: Path, names: list[str], key: bytes) -> None:
    """A kit for each name, as `into/NAME`, and a copy of its certificate for the authority."""
    with tempfile.TemporaryDirectory(dir=into, prefix=".work.") as work:
        made = _provision(federation, authority, Path(work), names)
        for name in names:
            role = federation.entries[name].role
            kit = _kit_folder(into, name)
            (made / certificate_name(name, role)).replace(kit)
            _furnish(federation, kit, name, role, key)
            _write_private(
                federation.folder / CA / _ISSUED / f"{name}.crt", (kit / certificate_file(role)).read_bytes()
            )


def _provision(federation: Federation, authority: _Authority, work: Path, names: list[str]) -> Path:
    participants = [_participant(federation, name) for name in dict.fromkeys([COORDINATOR, *names])]
    project = Project(
        federation.id,
        "",
        participants,
        serialized_root_cert=serialize_cert(authority.certificate),
        root_private_key=authority.key,
    )
    context = ProvisionContext(str(work), project)
    context.set_provision_mode(ProvisionMode.NORMAL)
    context.set_logger(logging.getLogger(__name__))
    # NVFlare's Provisioner does the same, but prints a full disk's traceback where we want its exception.
    builders: list[Builder] = [
        WorkspaceBuilder(),
        StaticFileBuilder(config_folder="config", scheme=_SCHEME),
        _Certificates(federation, authority),
    ]
    for builder in builders:
        builder.initialize(project, context)
    for builder in builders:
        builder.build(project, context)
    for builder in reversed(builders):
        builder.finalize(project, context)
    return Path(context.get_result_location())


def _participant(federation: Federation, name: str) -> Participant:
    role = federation.entries[name].role
    kind = {"coordinator": "server", "platform": "client"}.get(role, "admin")
    props: dict[str, Any] = {}
    if role == "coordinator":
        props = {PropKey.FED_LEARN_PORT: federation.port, PropKey.ADMIN_PORT: federation.port}
        props |= {PropKey.DEFAULT_HOST: federation.host, PropKey.HOST_NAMES: _OTHER_HOSTS}
    if role in _NVFLARE_ROLES:
        props = {PropKey.ROLE: _NVFLARE_ROLES[role]}
    if role == "keeper":
        props[PropKey.CONNECT_TO] = _BESIDE
    return Participant(kind, certificate_name(name, role), ORGANISATION, props)


def _furnish(federation: Federation, kit: Path, name: str, role: PartyRole, key: bytes) -> None:
    if role == "coordinator":
        hardening.harden_server(kit)
    elif role == "platform":
        hardening.harden_site(kit)
        _write_private(kit / KEY, key)
        policy.install(kit / "local" / "policy.toml")
    else:
        hardening.harden_admin(kit)
    about = {"format": FORMAT, "federation": federation.id, "name": name, "role": _KIT_ROLES.get(role, "admin")}
    about |= {"host": _BESIDE if role == "keeper" else federation.host, "port": federation.port}
    _write_private(kit / KIT, _json(about))
    (kit / "readme.txt").write_text(_readme(federation, name, role))
    _make_private(kit)


def _kit_folder(into: Path, name: str) -> Path:
    return into / COORDINATOR / KEEPER if name == KEEPER else into / name


def _readme(federation: Federation, name: str, role: PartyRole) -> str:
    purpose = {
        "coordinator": "On the coordinator's machine: fedrel coordinator start THIS_FOLDER --data PATH",
        "platform": "On the platform's machine: fedrel platform start THIS_FOLDER --data PATH",
        "admin": "To start and watch training: fedrel submit THIS_FOLDER EXPERIMENT.toml; fedrel status THIS_FOLDER",
        "viewer": "To watch training: fedrel status THIS_FOLDER",
        "keeper": "The coordinator's own identity; leave it where it is.",
    }[role]
    return (
        f"The kit of {name} in the federation {federation.id} (coordinator: {federation.host}:{federation.port}).\n"
        f"{purpose}\n"
        "It holds a private key: keep it to yourself, and send it over a channel that you trust.\n"
    )


def _shared_key(federation: Federation, key_from: Path | None) -> bytes:
    if key_from is not None:
        return open_kit(key_from).blinding_key()
    for name, entry in federation.entries.items():
        if entry.role == "platform" and (federation.folder / name / KEY).exists():
            return open_kit(federation.folder / name).blinding_key()
    raise UserError(
        f"{federation.folder}: no platform's kit lies here any more, and only platforms have the blinding key; "
        "run this where one is, or name it with --key-from KIT"
    )


# ----------------------------------------------------------------------------------------------------- records


def _record(federation: Federation) -> list[Path]:
    """Writes the authority's register, and what the coordinator has to know of it: those files are returned."""
    entries = {
        name: {"role": entry.role, "revoked": entry.revoked.isoformat() if entry.revoked else None}
        for name, entry in federation.entries.items()
    }
    about = {"format": FORMAT, "federation": federation.id, "host": federation.host, "port": federation.port}
    _write_private(federation.folder / CA / _REGISTER, _json({**about, "days": federation.days, "parties": entries}))
    parties = federation.parties()
    out = [party for party in parties if party.revoked]
    kit = federation.folder / COORDINATOR
    content = {
        kit / MEMBERS: {"members": [party.as_json() for party in parties if party.role != "keeper"]},
        kit / "disabled_clients.json": {"disabled_clients": [certificate_name(it.name, it.role) for it in out]},
    }
    for path, value in content.items():
        _write_private(path, _json(value))
    return list(content)


def _check_address(host: str, port: int) -> None:
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise UserError(f"--coordinator {host}: not the name or IPv4 address of a machine, like fed.example.org")
    if not 1 <= port <= 65535:
        raise UserError(f"--port {port}: ports go from 1 to 65535")


def check_name(name: str, role: PartyRole, taken: dict[str, Entry]) -> None:
    if not NAME.fullmatch(name):
        raise UserError(
            f'"{name}": a name has up to 48 letters, digits, _ and -, and begins with a letter or digit '
            "(NVFlare keeps the dot for itself)"
        )
    if name.casefold() in TAKEN - ({"admin"} if role in ("admin", "viewer") else set()):
        raise UserError(f'"{name}": this name has a meaning of its own here; choose another')
    if name.casefold() in {other.casefold() for other in taken}:
        raise UserError(f'"{name}": somebody has this name already; names differ by more than case')


def _json(content: object) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _write_private(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, content)
    path.chmod(0o600)


def _make_private(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
