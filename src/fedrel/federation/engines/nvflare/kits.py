"""A party's kit: a folder with its certificate, its rights and, on a platform, the blinding key.

A kit can be copied anywhere; nothing in it names the place where it was made.

    kit.json               who this is, and where the coordinator listens
    startup/               certificate, private key, and the federation's own authority (rootCA.pem)
    local/                 what this party allows; on a platform also blinding.key
    members.json           coordinator only: who belongs to the federation, and who no longer does
    disabled_clients.json  coordinator only: who is refused
    keeper/                coordinator only: the identity with which it submits jobs by itself
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from fedrel.errors import UserError
from fedrel.federation.engines.nvflare.hardening import pin_settings, trusted

FORMAT = 1
KIT, MEMBERS, KEY = "kit.json", "members.json", "local/blinding.key"
AUTHORITY = "startup/rootCA.pem"
KEY_BYTES = 32
ORGANISATION = "fedrel"
Role = Literal["coordinator", "platform", "admin"]
PartyRole = Literal["coordinator", "keeper", "platform", "admin", "viewer"]


@dataclass(frozen=True)
class Party:
    """Somebody with a certificate of the federation."""

    name: str
    role: PartyRole
    until: datetime  # the end of the certificate
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
    folder: Path
    name: str
    role: Role
    host: str
    port: int

    @property
    def user(self) -> str:
        """The name in the certificate, as the server knows it; an admin logs in with it."""
        return certificate_name(self.name, self.role)

    @property
    def certificate(self) -> x509.Certificate:
        return read_certificate(self.folder / certificate_file(self.role))

    def party(self) -> Party:
        return Party(self.name, self.role, self.certificate.not_valid_after_utc)

    def blinding_key(self) -> bytes:
        if self.role != "platform":
            raise UserError(f"{self.folder}: the kit of {self.name} has no blinding key; only platforms share it")
        path = self.folder / KEY
        try:
            key = path.read_bytes()
        except OSError as error:
            raise UserError(
                f"{path}: {error.strerror}; copy the key from another platform's kit, not by way of the coordinator"
            ) from None
        if len(key) != KEY_BYTES:
            raise UserError(f"{path}: {len(key)} bytes where {KEY_BYTES} were expected; copy it from another platform")
        return key

    def members(self) -> list[Party]:
        """All parties as of the last change; only the coordinator's kit knows them."""
        path = self.folder / MEMBERS
        return [Party.from_json(entry) for entry in read_json(path)["members"]] if path.exists() else []

    def keeper(self) -> Kit:
        """The identity with which the coordinator's own process talks to its server."""
        return open_kit(self.folder / "keeper")

    def command(self) -> list[str]:
        """Starts this party's NVFlare process; to be run with `environment()`."""
        kind, module, more = {
            "coordinator": ("server", "fedrel.federation.engines.nvflare.server_train", []),
            "platform": ("client", "nvflare.private.fed.app.client.client_train", [f"uid={self.name}"]),
        }[self.role]
        where = ["-m", str(self.folder.absolute()), "-s", f"fed_{kind}.json"]
        settings = ["secure_train=true", *more, f"org={ORGANISATION}", "config_folder=config"]
        return [sys.executable, "-u", "-m", module, *where, "--set", *settings]

    def environment(self) -> dict[str, str]:
        """For `command()`. What NVFlare uploads or unpacks stays in the kit, too, where nobody else can read it."""
        pin_settings(self.folder)
        temporary = self.folder.absolute() / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        return {**os.environ, **trusted(self.folder), "TMPDIR": str(temporary)}

    def greet(self, *, timeout: float = 10.0) -> str:
        """The version of TLS on which the coordinator and this party agree, or a sentence that says why they do not.
        NVFlare itself tries for ever, and in silence.
        """
        where = f"{self.host}:{self.port}"
        context = ssl.create_default_context(cafile=self.folder / AUTHORITY)
        context.load_cert_chain(self.folder / "startup/client.crt", self.folder / "startup/client.key")
        try:
            plain = socket.create_connection((self.host, self.port), timeout=timeout)
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"{where}: {why}; is the coordinator running, and is the port open from here?") from None
        version = "TLS"
        try:
            with plain, context.wrap_socket(plain, server_hostname=self.host) as secure:
                version = secure.version() or version
                secure.settimeout(1.0)
                secure.recv(1)  # the coordinator waits for a word; who is refused hears of it only now
        except TimeoutError:
            return version
        except ssl.SSLCertVerificationError as error:
            raise UserError(f"{where} is not the coordinator of this federation: {error.verify_message}") from None
        except (ssl.SSLError, OSError) as error:
            why = getattr(error, "reason", None) or error
            raise UserError(f"the coordinator at {where} refuses the certificate of {self.name}: {why}") from None
        raise UserError(f"{where} closed the connection; is it the coordinator's port?")


def open_kit(path: Path, *, dates: bool = True) -> Kit:
    """Checks that the kit is complete and of one piece and, with `dates`, that its certificate is valid now."""
    about = path / KIT
    if not about.is_file():
        raise UserError(f"{path}: no kit of a federation (no {KIT} in it); `fedrel federation new` makes kits")
    entry = read_json(about)
    try:
        kit = Kit(path, str(entry["name"]), cast(Role, entry["role"]), str(entry["host"]), int(entry["port"]))
        if entry["format"] != FORMAT or kit.role not in ("coordinator", "platform", "admin"):
            raise ValueError
    except (KeyError, ValueError, TypeError):
        raise UserError(f"{about}: not written by this version of fedrel; make the kit again") from None
    _check_identity(kit)
    if dates:
        for file in (certificate_file(kit.role), AUTHORITY):
            _check_dates(path / file)
    return kit


def certificate_file(role: str) -> str:
    return "startup/server.crt" if role == "coordinator" else "startup/client.crt"


def certificate_name(name: str, role: PartyRole) -> str:
    """NVFlare wants people to have a name like a mail address; nothing is ever sent there."""
    return name if role in ("coordinator", "platform") else f"{name}@fedrel.local"


def read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; the kit is not complete, copy it again") from None
    except ValueError:
        raise UserError(f"{path}: not a certificate; copy the kit again") from None


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path}: not JSON; copy the kit again") from None


def _check_identity(kit: Kit) -> None:
    path = kit.folder / certificate_file(kit.role)
    certificate, authority = kit.certificate, read_certificate(kit.folder / AUTHORITY)
    owner = str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    if owner != kit.user:
        raise UserError(f"{path}: the certificate of {owner}, and this is the kit of {kit.user}; copy the kit again")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise UserError(f"{path}: a certificate of another federation; copy the kit again") from None
    secret = path.with_suffix(".key")
    try:
        key = load_pem_private_key(secret.read_bytes(), None, unsafe_skip_rsa_key_validation=True)  # our own, and slow
    except OSError as error:
        raise UserError(f"{secret}: {error.strerror}; the kit is not complete, copy it again") from None
    except (ValueError, TypeError):
        raise UserError(f"{secret}: not a private key; copy the kit again") from None
    if key.public_key() != certificate.public_key():
        raise UserError(f"{secret}: not the key of {path.name}; copy the kit again")


def _check_dates(path: Path) -> None:
    certificate, now = read_certificate(path), datetime.now(UTC)
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < since:
        raise UserError(f"{path}: valid from {since:%Y-%m-%d %H:%M} UTC on, and the clock says {now:%Y-%m-%d %H:%M}")
    if now > until:
        raise UserError(f"{path}: expired on {until:%Y-%m-%d %H:%M} UTC; ask for a new one (`fedrel federation renew`)")
