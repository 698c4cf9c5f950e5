"""Certificates and kits of a federation, made with NVFlare's own provisioning.

DIR/coordinator/  DIR/<platform>/  DIR/<admin>/   one kit for each party (kits.py says what is in one)
DIR/ca/                                           the authority (authority.py says what it keeps)
"""

from __future__ import annotations

import logging
import re
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from nvflare.lighter.constants import PropKey, ProvisionMode
from nvflare.lighter.ctx import ProvisionContext
from nvflare.lighter.entity import Participant, Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.spec import Builder
from nvflare.lighter.utils import generate_keys, serialize_cert

from fedrel.errors import UserError
from fedrel.federation.engines.nvflare import hardening
from fedrel.federation.engines.nvflare.authority import (
    BESIDE,
    CA,
    COORDINATOR,
    KEEPER,
    LONGEST_DAYS,
    NVFLARE_ROLES,
    OTHER_HOSTS,
    Authority,
    Entry,
    Federation,
    make_private,
    read,
    record,
    to_json,
    write_private,
)
from fedrel.federation.engines.nvflare.kits import (
    FORMAT,
    KEY,
    KEY_BYTES,
    KIT,
    ORGANISATION,
    PartyRole,
    certificate_file,
    certificate_name,
    open_kit,
)
from fedrel.files import folder_whole
from fedrel.partition import NAME, TAKEN
from fedrel.privacy import policy

__all__ = ["Federation", "add", "check_name", "new", "read", "renew", "revoke"]

_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
_SCHEME = "tcp"
_KIT_ROLES = {"coordinator": "coordinator", "platform": "platform"}


def new(
    folder: Path, *, host: str, port: int, platforms: Sequence[str], admin: str = "admin", days: int = 365
) -> Federation:
    """Kits for a coordinator, its platforms and one admin, in a folder that is there whole or not at all."""
    if folder.exists():
        raise UserError(f"{folder}: already there; choose another name, or add to it with `fedrel federation add`")
    _check_address(host, port)
    if not 1 <= days <= LONGEST_DAYS:
        raise UserError(f"--days {days}: certificates last between 1 and {LONGEST_DAYS} days")
    entries = {COORDINATOR: Entry("coordinator"), KEEPER: Entry("keeper")}
    wanted: list[tuple[str, PartyRole]] = [*((name, "platform") for name in platforms), (admin, "admin")]
    for name, role in wanted:
        check_name(name, role, entries)
        entries[name] = Entry(role)
    with folder_whole(folder) as whole:
        federation = Federation(whole, f"fedrel-{secrets.token_hex(4)}", host, port, days, entries)
        authority = Authority.make(federation)
        _make_kits(federation, authority, whole, list(entries), secrets.token_bytes(KEY_BYTES))
        record(federation)
        make_private(whole / CA)
    return replace(federation, folder=folder)


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
        _make_kits(grown, Authority.read(folder), Path(work), [name], key)
        record(grown)
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
    return record(replace(federation, entries={**federation.entries, name: revoked}))


def renew(folder: Path, names: Sequence[str] = ()) -> dict[str, Path]:
    """New certificates for the keys that their owners have; by name, the one file that each of them has to replace."""
    federation = read(folder)
    for name in names:
        if federation.known(name).revoked:
            raise UserError(f"{name} was shut out; add it again under another name")
    authority = Authority.read(folder)
    chosen = [name for name, entry in federation.entries.items() if not entry.revoked and (name in names or not names)]
    if COORDINATOR in chosen and KEEPER not in chosen:
        chosen.append(KEEPER)
    renewed = {}
    for name in chosen:
        role = federation.entries[name].role
        certificate = authority.sign(federation, name, role, federation.certificate(name).public_key())
        path = _kit_folder(folder, name) / certificate_file(role)
        for place in (federation.issued(name), path):
            write_private(place, serialize_cert(certificate))
        renewed[name] = path
    record(federation)
    return renewed


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


# -------------------------------------------------------------------------------------------------------- kits


class _Certificates(CertBuilder):  # type: ignore[misc]  # nvflare has no types
    """NVFlare's builder, with certificates that last as long as asked for and serve one purpose."""

    def __init__(self, federation: Federation, authority: Authority) -> None:
        super().__init__()
        self._federation, self._authority = federation, authority
        self.names = {certificate_name(name, entry.role): name for name, entry in federation.entries.items()}

    def get_pri_key_cert(self, participant: Participant) -> tuple[Any, x509.Certificate]:
        key, public_key = generate_keys()
        name = self.names[participant.subject]
        return key, self._authority.sign(self._federation, name, self._federation.entries[name].role, public_key)


def _make_kits(federation: Federation, authority: Authority, into: Path, names: list[str], key: bytes) -> None:
    """A kit for each name, as `into/NAME`, and a copy of its certificate for the authority."""
    with tempfile.TemporaryDirectory(dir=into, prefix=".work.") as work:
        made = _provision(federation, authority, Path(work), names)
        for name in names:
            role = federation.entries[name].role
            kit = _kit_folder(into, name)
            (made / certificate_name(name, role)).replace(kit)
            _furnish(federation, kit, name, role, key)
            write_private(federation.issued(name), (kit / certificate_file(role)).read_bytes())


def _provision(federation: Federation, authority: Authority, work: Path, names: list[str]) -> Path:
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
        props |= {PropKey.DEFAULT_HOST: federation.host, PropKey.HOST_NAMES: OTHER_HOSTS}
    if role in NVFLARE_ROLES:
        props = {PropKey.ROLE: NVFLARE_ROLES[role]}
    if role == "keeper":
        props[PropKey.CONNECT_TO] = BESIDE
    return Participant(kind, certificate_name(name, role), ORGANISATION, props)


def _furnish(federation: Federation, kit: Path, name: str, role: PartyRole, key: bytes) -> None:
    if role == "coordinator":
        hardening.harden_server(kit)
    elif role == "platform":
        hardening.harden_site(kit)
        write_private(kit / KEY, key)
        policy.install(kit / "local" / "policy.toml")
    else:
        hardening.harden_admin(kit)
    about = {"format": FORMAT, "federation": federation.id, "name": name, "role": _KIT_ROLES.get(role, "admin")}
    about |= {"host": BESIDE if role == "keeper" else federation.host, "port": federation.port}
    write_private(kit / KIT, to_json(about))
    (kit / "readme.txt").write_text(_readme(federation, name, role))
    make_private(kit)


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
