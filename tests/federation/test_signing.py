"""Signed messages: who signed them, what for, and that no part of them can be changed."""

import base64
import json
import shutil
from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.federation.kits import authority, provisioning
from fedrel.federation.kits.kit import open_kit, read_key
from fedrel.federation.signing import Command, Envelope, ForgedError, Reply, Request, Signer, Verifier, sha256
from tests.kits import certificate_in, certify

NOTHING = sha256(b"")


@pytest.fixture(scope="session")
def request_(made):
    return Request(
        federation=provisioning.read(made).id,
        run="first",
        run_id="0123456789abcdef" * 2,
        to="a",
        task="train",
        round=3,
        attempt=1,
        number=7,
        seconds=60.0,
        bytes=0,
        sha256=NOTHING,
    )


@pytest.fixture(scope="session")
def envelope(made, request_):
    return signer(made, "coordinator").sign(request_)


def signer(made, name):
    return Signer.of(open_kit(made / name, dates=False))


def opened(kit, envelope, kind=Request, role="coordinator", name="coordinator"):
    return Verifier.of(open_kit(kit, dates=False)).open(envelope, kind, role=role, name=name)


def signed(made, text, name="coordinator", kind="request"):
    """An envelope with any text and a valid signature."""
    mine = signer(made, name)
    certificate = (made / name / "sign/sign.crt").read_text()
    return Envelope(text, certificate, mine.key.sign(f"fedrel {kind} 1\n{text}".encode()).hex())


# ------------------------------------------------------------------------------------------ who signed it


def test_every_party_verifies_the_coordinators_signature(made, request_, envelope):
    for name in ("a", "b", "admin", "coordinator"):
        assert opened(made / name, Envelope.from_json(json.loads(json.dumps(envelope.as_json())))) == request_


@pytest.mark.parametrize("name", ["a", "b", "admin"])
def test_no_other_party_can_sign_for_the_coordinator(made, request_, name):
    with pytest.raises(ForgedError, match=rf"{name} \(.*\) signed it instead of coordinator \(coordinator\)"):
        opened(made / "a", signer(made, name).sign(request_))


def test_a_party_named_coordinator_is_refused(federation, request_):
    """Even a party with that name is refused: the role counts too."""
    certify(federation, federation / "coordinator", since=timedelta(days=-1), until=timedelta(days=9), role="platform")
    mine = replace(signer(federation, "a"), folder=federation / "coordinator", name="coordinator")
    with pytest.raises(ForgedError, match=r"coordinator \(platform\) signed it"):
        opened(federation / "a", mine.sign(request_))


def test_one_platform_cannot_sign_for_another(made, request_):
    reply = Reply(request_.federation, "a", "0" * 64, "done", "", 0, NOTHING)
    assert opened(made / "coordinator", signer(made, "a").sign(reply), Reply, "platform", "a") == reply
    with pytest.raises(ForgedError, match=r"b \(platform\) signed it instead of a \(platform\)"):
        opened(made / "coordinator", signer(made, "b").sign(reply), Reply, "platform", "a")


@pytest.mark.parametrize("name", ["a", "coordinator", "eve"])
def test_only_an_admin_can_sign_commands(federation, name, request_):
    provisioning.add(federation, "eve", "viewer")
    command = Command(request_.federation, "c", "submit", "first", "")
    assert opened(federation / "coordinator", signer(federation, "admin").sign(command), Command, "admin", "admin")
    with pytest.raises(ForgedError, match="signed it instead of"):
        opened(federation / "coordinator", signer(federation, name).sign(command), Command, "admin", name)


def test_signatures_of_another_federation_are_refused(made, other, request_):
    with pytest.raises(ForgedError, match="its certificate is not from this federation"):
        opened(made / "a", signer(other, "coordinator").sign(request_))
    with pytest.raises(ForgedError, match="it was made for another federation"):
        opened(made / "a", signer(made, "coordinator").sign(replace(request_, federation="fedrel-other")))


def test_an_authority_with_the_same_name_is_refused(made, request_, tmp_path):
    """An authority with the same name as ours has another key."""
    twin = replace(provisioning.read(made), folder=tmp_path)
    theirs = authority.Authority.make(twin)
    mine = signer(made, "a")
    certificate = theirs.sign(twin, "coordinator", "coordinator", mine.key.public_key(), "sign")
    (tmp_path / "sign").mkdir()
    (tmp_path / "sign/sign.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    with pytest.raises(ForgedError, match="its certificate is not from this federation"):
        opened(made / "a", replace(mine, folder=tmp_path).sign(request_))


def test_a_key_that_does_not_match_the_certificate_is_refused(made, request_, envelope):
    theirs = signer(made, "a").sign(request_)
    with pytest.raises(ForgedError, match="its signature does not match its content"):
        opened(made / "a", replace(theirs, certificate=envelope.certificate))


def test_a_tls_key_cannot_sign(made, request_, envelope):
    """A compromised network process has this key."""
    key = read_key(made / "coordinator/tls/node.key")
    certificate = (made / "coordinator/tls/node.crt").read_text()
    signature = key.sign(f"fedrel request 1\n{envelope.text}".encode(), ec.ECDSA(hashes.SHA256())).hex()
    for forged in (Envelope(envelope.text, certificate, signature), replace(envelope, certificate=certificate)):
        with pytest.raises(ForgedError, match="its certificate is not for signatures"):
            opened(made / "a", forged)


def test_a_kit_with_the_wrong_kind_of_key_cannot_sign(federation):
    kit = open_kit(federation / "a")
    shutil.copy(federation / "a/tls/node.key", federation / "a/sign/sign.key")
    with pytest.raises(UserError, match="not an Ed25519 key; copy the kit again"):
        Signer.of(kit)


@pytest.mark.parametrize(("since", "until"), [(-9, -2), (2, 9)])
def test_a_certificate_that_is_not_currently_valid(federation, request_, since, until):
    certify(federation, federation / "coordinator", since=timedelta(days=since), until=timedelta(days=until))
    with pytest.raises(ForgedError, match="the certificate of coordinator is not currently valid"):
        opened(federation / "a", signer(federation, "coordinator").sign(request_))


def test_a_renewed_certificate_is_used_from_the_next_message_on(federation, request_):
    certify(federation, federation / "coordinator", since=timedelta(days=-9), until=timedelta(days=-2))
    mine = signer(federation, "coordinator")
    with pytest.raises(ForgedError):
        opened(federation / "a", mine.sign(request_))
    provisioning.renew(federation, ["coordinator"])
    assert opened(federation / "a", mine.sign(request_)) == request_


# ---------------------------------------------------------------------------------------- what was signed


@pytest.mark.parametrize(
    "change",
    [
        {"run": "second"},
        {"run_id": "f" * 32},
        {"to": "b"},
        {"task": "begin"},
        {"round": 4},
        {"attempt": 2},
        {"number": 8},
        {"seconds": 1e6},
        {"bytes": 1},
        {"sha256": "0" * 64},
    ],
)
def test_a_changed_field_is_detected(made, envelope, change):
    text = json.dumps({**json.loads(envelope.text), **change})
    with pytest.raises(ForgedError, match="its signature does not match its content"):
        opened(made / "a", replace(envelope, text=text))


@pytest.mark.parametrize("kind", ["reply", "command"])
def test_a_message_of_one_kind_is_not_accepted_as_another(made, envelope, kind):
    with pytest.raises(ForgedError, match="its signature does not match its content"):
        opened(made / "a", signed(made, envelope.text, kind=kind))


def test_a_reply_is_not_accepted_as_command_or_request(made, request_):
    reply = signer(made, "a").sign(Reply(request_.federation, "a", "0" * 64, "done", "", 0, NOTHING))
    for kind in (Request, Command):
        with pytest.raises(ForgedError, match="its signature does not match its content"):
            opened(made / "a", reply, kind, "platform", "a")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"round": "3"}, "wrong type"),
        ({"round": 3.0}, "wrong type"),
        ({"round": True}, "wrong type"),
        ({"seconds": 60}, "wrong type"),
        ({"seconds": None}, "wrong type"),
        ({"run": ["first"]}, "wrong type"),
        ({"federation": {}}, "wrong type"),
        ({"colour": "red"}, "not have the fields"),
        ({"KIND": "reply"}, "not have the fields"),
    ],
)
def test_fields_and_their_types_are_checked(made, request_, change, why):
    with pytest.raises(ForgedError, match=why):
        opened(made / "a", signed(made, json.dumps({**asdict(request_), **change})))


def test_a_missing_field(made, request_):
    for name in asdict(request_):
        left = {field: value for field, value in asdict(request_).items() if field != name}
        with pytest.raises(ForgedError, match="it does not have the fields of such a message"):
            opened(made / "a", signed(made, json.dumps(left)))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"x"', "[" * 100_000, "{}", '{"a": ' * 5000])
def test_a_signed_text_that_is_not_a_message(made, text):
    with pytest.raises(ForgedError, match=r"it is not JSON|it does not have the fields"):
        opened(made / "a", signed(made, text))


@pytest.mark.parametrize(
    "found",
    [
        *(None, [], "x", 3, {}, {"text": "", "certificate": ""}, {"text": "", "certificate": "", "signature": 3}),
        {"text": "", "certificate": "", "signature": "", "more": ""},
    ],
)
def test_invalid_envelopes(found):
    with pytest.raises(ForgedError, match="it is not a signed message"):
        Envelope.from_json(found)


def test_a_long_reason_is_truncated(made, request_):
    reply = Reply(request_.federation, "a", "0" * 64, "failed", "x" * 10_000, 0, NOTHING)
    assert opened(made / "coordinator", signer(made, "a").sign(reply), Reply, "platform", "a").why == "x" * 500


def refused_or_the_same(made, envelope, request_):
    """Opening it gives the same statement or raises ForgedError, and nothing else."""
    try:
        assert opened(made / "a", envelope) == request_
    except ForgedError:
        return True
    return False


@given(data=st.data())
def test_no_character_of_the_text_can_be_changed(made, envelope, data):
    place = data.draw(st.integers(0, len(envelope.text) - 1))
    other = data.draw(st.characters().filter(lambda it: it != envelope.text[place]))
    for text in (
        envelope.text[:place] + other + envelope.text[place + 1 :],
        envelope.text[:place] + envelope.text[place + 1 :],
        envelope.text[:place] + other + envelope.text[place:],
    ):
        if text != envelope.text:
            with pytest.raises(ForgedError):
                opened(made / "a", replace(envelope, text=text))


@given(st.data(), st.sampled_from(["certificate", "signature"]))
def test_a_changed_envelope_is_refused_or_means_the_same(made, request_, envelope, data, field):
    before = getattr(envelope, field)
    place, other = data.draw(st.integers(0, len(before) - 1)), data.draw(st.characters())
    changed = before[:place] + other + before[place + 1 :]
    refused_or_the_same(made, replace(envelope, **{field: changed}), request_)


@given(st.data())
def test_no_byte_of_the_certificate_can_be_changed(made, request_, envelope, data):
    whole = bytearray(certificate_in(made / "coordinator", "sign").public_bytes(Encoding.DER))
    place, other = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 255))
    whole[place] ^= other
    assert refused_or_the_same(made, replace(envelope, certificate=as_pem(bytes(whole))), request_)


@pytest.mark.parametrize("version", [0, 1, 3, 200])
def test_a_certificate_of_an_unknown_version(made, request_, envelope, version):
    whole = certificate_in(made / "coordinator", "sign").public_bytes(Encoding.DER)
    changed = whole.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01" + bytes([version]), 1)
    assert changed != whole
    assert refused_or_the_same(made, replace(envelope, certificate=as_pem(changed)), request_)


def as_pem(der):
    return f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(der).decode()}-----END CERTIFICATE-----\n"


@given(st.binary(max_size=300))
def test_bytes_that_are_not_a_certificate(made, envelope, content):
    with pytest.raises(ForgedError, match="its certificate is not from this federation"):
        opened(made / "a", replace(envelope, certificate=as_pem(content)))


@pytest.mark.parametrize("signature", ["", "zz", "00" * 64, "00" * 63, "\ud800", "é"])
def test_invalid_signatures(made, envelope, signature):
    with pytest.raises(ForgedError, match="its signature does not match its content"):
        opened(made / "a", replace(envelope, signature=signature))


def test_characters_that_cannot_be_encoded_are_refused(made, envelope):
    for field in ("text", "certificate"):
        with pytest.raises(ForgedError):
            opened(made / "a", replace(envelope, **{field: "\ud800"}))


def test_a_certificate_for_signatures_has_one_purpose(made):
    """A certificate for signatures is valid for nothing else, so that no other program accepts it."""
    found = certificate_in(made / "coordinator", "sign")
    assert list(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [authority.SIGNATURES]
