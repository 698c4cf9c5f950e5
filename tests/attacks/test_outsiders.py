"""An attacker on the network who is not a member of the federation.

| attack | what happens |
|---|---|
| no certificate, a self-signed one, one of another federation, one that has expired or is not valid yet | no TLS |
| a certificate for signatures, the coordinator's own (for a server) | no TLS: each has one purpose |
| TLS 1.2, plain HTTP, garbage | no TLS |
| a revoked party; one that is not in the list of members | 403, and disconnected at once |
| hundreds of connections that never finish their handshake | others are answered within 2 s |
"""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedrel.federation.kits import authority, provisioning
from tests.attacks.place import refused_tls
from tests.attacks.wire import Wire, address, anybody, context, plug, poll, until

pytestmark = pytest.mark.usefixtures("works_after")
slow = pytest.mark.slow


def certify(place, folder: Path, *, since: float = -1, until: float = 1, by: Path | None = None, **other) -> Path:
    """Creates a folder tls/ with a certificate signed by the authority (or by its own key), with these dates and
    other fields.
    """
    of = provisioning.read(place.kits)
    key = ec.generate_private_key(ec.SECP256R1())
    own = other.get("own", False)
    signer = key if own else authority.Authority.read(by or place.kits).key
    issuer = authority.Authority.read(by or place.kits).certificate.subject
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, other.get("name", "p0")),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, other.get("role", "platform")),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, other.get("federation", of.id)),
        ]
    )
    now = datetime.now(UTC)
    made = (
        authority._certificate(name, name if own else issuer, key.public_key(), signer.public_key())
        .not_valid_before(now + timedelta(days=since))
        .not_valid_after(now + timedelta(days=until))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(authority._usage(certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
        .sign(signer, hashes.SHA256())
    )
    folder.mkdir()
    (folder / "node.key").write_bytes(authority.pem(key))
    (folder / "node.crt").write_bytes(made.public_bytes(Encoding.PEM))
    return folder


@slow
def test_without_a_certificate_there_is_no_answer(place):
    source = address()
    refused_tls(place.port, anybody(), source)
    assert "no certificate" in place.named(source)["why"]


def test_a_self_signed_certificate_is_refused(place, tmp_path):
    source = address()
    refused_tls(place.port, context(certify(place, tmp_path / "tls", own=True)), source)
    assert "not from this federation" in place.named(source)["why"]


@slow
def test_a_platform_of_another_federation_is_refused(place, tmp_path):
    provisioning.new(tmp_path / "other", host="localhost", port=place.port, platforms=["p0"])
    source = address()
    refused_tls(place.port, context(tmp_path / "other" / "p0" / "tls"), source)
    assert "not from this federation" in place.named(source)["why"]


@slow
@pytest.mark.parametrize(("since", "until"), [(-3, -1), (1, 3)], ids=["expired", "not valid yet"])
def test_a_certificate_is_accepted_only_while_it_is_valid(place, tmp_path, since, until):
    source = address()
    refused_tls(place.port, context(certify(place, tmp_path / "tls", since=since, until=until)), source)
    assert "not currently valid" in place.named(source)["why"]


@slow
def test_a_certificate_for_signatures_opens_no_connection(place):
    source = address()
    refused_tls(place.port, context(place.kits / "p0" / "sign", "sign.crt", "sign.key"), source)
    place.named(source)


@slow
def test_the_coordinators_tls_certificate_is_not_valid_for_a_client(place):
    source = address()
    refused_tls(place.port, context(place.tls("coordinator")), source)
    place.named(source)


@slow
@pytest.mark.parametrize(
    "other",
    [{"name": "nobody"}, {"role": "admin"}, {"role": ""}, {"name": "p0\0"}, {"federation": "fedrel-elsewhere"}],
    ids=lambda other: "-".join(f"{key} {value!r}" for key, value in other.items()),
)
def test_a_certificate_alone_does_not_make_a_member(place, tmp_path, other):
    """With a valid certificate for a party that is not in the list of members."""
    tls = certify(place, tmp_path / "tls", **other)
    with Wire(place.port, context(tls)) as wire:
        assert wire.ask("POST", "/v1/poll", poll()).status == 403
        place.named(wire.source)


@slow
def test_old_tls_is_refused(place):
    old = context(place.tls("p0"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    source = address()
    refused_tls(place.port, old, source)
    assert "old version" in place.named(source)["why"]


@slow
@pytest.mark.parametrize(
    "said",
    [
        b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + b"\x00" * 4096,
        b"\x16\x03\x03\x00\x05\x01\x00\x00\x01\x00",
        os.urandom(4096),
        b"\x80" * 70_000,
    ],
    ids=["plain HTTP", "HTTP/2 by hand", "a record too long", "half a hello", "noise", "a lot of noise"],
)
def test_bytes_that_are_not_tls_get_no_answer(place, said):
    source = address()
    with plug(place.port, source, timeout=15.0) as plain:
        with contextlib.suppress(OSError):
            plain.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            got = plain.recv(4096)
            assert not got or got[0] == 0x15, "something else than a TLS alert"
    place.named(source)


@slow
def test_a_revoked_party_is_disconnected_within_a_second(place):
    provisioning.add(place.kits, "gone", "platform")
    with place.wire("p2") as other:
        assert until(lambda: place.ask("gone", "POST", "/v1/leave", b"{}").status == 200)
        with place.wire("gone") as wire:
            assert wire.ask("POST", "/v1/leave", b"{}").status == 200
            provisioning.revoke(place.kits, "gone")
            time.sleep(1.5)
            wire.send(b"POST /v1/leave HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
            assert wire.answer().status == 0, "its connection should be gone"
        refusal = place.ask("gone", "POST", "/v1/poll", poll())
        assert (refusal.status, b'"final": true' in refusal.content) == (403, True)
        place.named(place.last_source, "revoked")
        assert other.ask("POST", "/v1/leave", b"{}").status == 200, "another party was disconnected"


@slow
def test_half_open_connections_do_not_block_others(place):
    """From one address, without sending anything."""
    source = address()
    opened = [plug(place.port, source) for _ in range(300)]
    try:
        for _ in range(5):
            place.still_works(2.0)
            assert place.ask("p0", "POST", "/v1/leave", b"{}").status == 200
    finally:
        for it in opened:
            it.close()
    place.named(source)


def test_a_thousand_half_open_connections_from_one_address_do_not_block_others(place):
    source = address()
    opened = [plug(place.port, source) for _ in range(1000)]
    try:
        time.sleep(0.5)
        place.still_works(2.0)
        assert place.ask("p0", "POST", "/v1/leave", b"{}").status == 200
    finally:
        for it in opened:
            it.close()
    place.named(source, "connections")


@slow
def test_a_platform_sends_nothing_to_a_coordinator_of_another_federation(place, tmp_path):
    """The client's side: a platform sends nothing to a server with a certificate of another federation."""
    provisioning.new(tmp_path / "other", host="localhost", port=place.port, platforms=["p0"])
    kit = tmp_path / "kit"
    shutil.copytree(tmp_path / "other" / "p0", kit)
    done = place.cli("platform", "start", kit, "--data", place.world / "p0", "--check")
    assert done.returncode != 0
    assert "is not the coordinator of this federation" in done.stderr
    assert "Traceback" not in done.stderr
