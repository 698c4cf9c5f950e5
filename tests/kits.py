"""Helpers for kits: read them, replace their certificates, and perform TLS handshakes."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fedrel.federation.https.tls import client_context, server_context
from fedrel.federation.kits import authority, provisioning
from fedrel.federation.kits.authority import Authority, Purpose
from fedrel.federation.kits.kit import Role, open_kit, read_certificate

PLATFORMS = ("a", "b", "st-Mary_2")
CERTIFICATES: dict[Purpose, str] = {"tls": "tls/node.crt", "sign": "sign/sign.crt"}


def files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def certify(federation: Path, kit: Path, *, since: timedelta, until: timedelta, role: Role | None = None) -> None:
    """Gives a kit new certificates for its keys, with other dates or another role."""
    opened = open_kit(kit, dates=False)
    made = replace(provisioning.read(federation), days=(until - since - authority._TOLERANCE).days)
    with clock(datetime.now(UTC) + since + authority._TOLERANCE):
        for purpose, file in CERTIFICATES.items():
            key = certificate_in(kit, purpose).public_key()
            found = Authority.read(federation).sign(made, opened.name, role or opened.role, key, purpose)
            (kit / file).write_bytes(found.public_bytes(Encoding.PEM))


@contextmanager
def clock(now: datetime) -> Iterator[None]:
    """Sets the authority's clock."""
    stopped = mock.Mock(wraps=datetime)
    stopped.now.return_value = now
    with mock.patch.object(authority, "datetime", stopped):
        yield


def certificate_in(kit: Path, purpose: Purpose = "tls") -> x509.Certificate:
    return read_certificate(kit / CERTIFICATES[purpose])


def take(source: Path, target: Path, *names: str) -> None:
    """Copies certificates and keys from one kit into another."""
    for name in names or ("tls/node.crt", "tls/node.key", "sign/sign.crt", "sign/sign.key"):
        shutil.copy(source / name, target / name)


def context(kit: Path, *, server: bool, identity: Path | None = None) -> ssl.SSLContext:
    """The transport's TLS context for a kit, with the certificate of the kit `identity` if given."""
    found = server_context(kit / "tls") if server else client_context(kit / "tls")
    if identity is not None:
        found.load_cert_chain(identity / "tls/node.crt", identity / "tls/node.key")
    return found


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """A handshake in memory, without sockets or timing. Returns the server's end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    two = client.wrap_bio(to_client, to_server, server_hostname=name)
    for side in (two, one, two, one, two):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    two.write(b"hello")
    assert one.read() == b"hello"
    return one
