"""TLS contexts of the transport: version 1.3, certificates on both sides, no authority but the federation's own."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import NamedTuple, cast


class Identity(NamedTuple):
    """The subject and expiry of the peer's certificate."""

    name: str
    role: str
    federation: str
    until: float  # seconds since 1970


def server_context(folder: Path) -> ssl.SSLContext:
    """For a server with the keys in a kit's folder tls/. Clients must present a certificate."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, folder)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(folder: Path) -> ssl.SSLContext:
    """For a client with the keys in a kit's folder tls/. PROTOCOL_TLS_CLIENT checks the server's host name."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, folder)


def identity(transport: asyncio.BaseTransport) -> Identity:
    """The peer of an asyncio TLS transport."""
    return identity_of(transport.get_extra_info("ssl_object"))


def identity_of(connection: ssl.SSLObject | ssl.SSLSocket) -> Identity:
    """The peer of a TLS connection. A field is empty unless the certificate has exactly one such entry."""
    shown = connection.getpeercert() or {}
    subject = cast(tuple[tuple[tuple[str, str], ...], ...], shown.get("subject", ()))

    def only(kind: str) -> str:
        found = [value for part in subject for name, value in part if name == kind]
        return found[0] if len(found) == 1 else ""

    until = ssl.cert_time_to_seconds(str(shown["notAfter"])) if "notAfter" in shown else 0.0
    return Identity(only("commonName"), only("organizationalUnitName"), only("organizationName"), float(until))


def _context(protocol: int, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cafile=folder / "ca.pem")  # no other authority is loaded
    context.load_cert_chain(folder / "node.crt", folder / "node.key")
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context
