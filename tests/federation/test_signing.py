"""Signed messages: whose they are, what they are for, and that nothing of them can be changed."""

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
    """Any text at all, with a good signature."""
    mine = signer(made, name)
    certificate = (made / name / "sign/sign.crt").read_text()
    return Envelope(text, certificate, mine.key.sign(f"fedrel {kind} 1\n{text}".encode()).hex())


# ------------------------------------------------------------------------------------------ who signed it


def test_what_the_coordinator_signs_is_read_by_every_party(made, request_, envelope):
    for name in ("a", "b", "admin", "coordinator"):
        assert opened(made / name, Envelope.from_json(json.loads(json.dumps(envelope.as_json())))) == request_


@pytest.mark.parametrize("name", ["a", "b", "admin"])
def test_nobody_else_asks_in_the_coordinators_name(made, request_, name):
    with pytest.raises(ForgedError, match=rf"{name} \(.*\) signed it, where coordinator \(coordinator\) was expected"):
        opened(made / "a", signer(made, name).sign(request_))


def test_a_party_that_calls_itself_coordinator_is_none(federation, request_):
    """Even if somebody was given that name: the role counts too."""
    certify(federation, federation / "coordinator", since=timedelta(days=-1), until=timedelta(days=9), role="platform")
    mine = replace(signer(federation, "a"), folder=federation / "coordinator", name="coordinator")
    with pytest.raises(ForgedError, match=r"coordinator \(platform\) signed it"):
        opened(federation / "a", mine.sign(request_))


def test_one_platform_does_not_answer_for_another(made, request_):
    reply = Reply(request_.federation, "a", "0" * 64, "done", "", 0, NOTHING)
    assert opened(made / "coordinator", signer(made, "a").sign(reply), Reply, "platform", "a") == reply
    with pytest.raises(ForgedError, match=r"b \(platform\) signed it, where a \(platform\) was expected"):
        opened(made / "coordinator", signer(made, "b").sign(reply), Reply, "platform", "a")


@pytest.mark.parametrize("name", ["a", "coordinator", "eve"])
def test_only_an_admin_commands(federation, name, request_):
    provisioning.add(federation, "eve", "viewer")
    command = Command(request_.federation, "c", "submit", "first", "")
    assert opened(federation / "coordinator", signer(federation, "admin").sign(command), Command, "admin", "admin")
    with pytest.raises(ForgedError, match="signed it, where"):
        opened(federation / "coordinator", signer(federation, name).sign(command), Command, "admin", name)


def test_another_federation_is_not_heard(made, other, request_):
    with pytest.raises(ForgedError, match="its certificate is not of this federation"):
        opened(made / "a", signer(other, "coordinator").sign(request_))
    with pytest.raises(ForgedError, match="it was made for another federation"):
        opened(made / "a", signer(made, "coordinator").sign(replace(request_, federation="fedrel-other")))


def test_an_authority_of_the_same_name_is_another(made, request_, tmp_path):
    """Whoever makes an authority that calls itself like ours has another key."""
    twin = replace(provisioning.read(made), folder=tmp_path)
    theirs = authority.Authority.make(twin)
    mine = signer(made, "a")
    certificate = theirs.sign(twin, "coordinator", "coordinator", mine.key.public_key(), "sign")
    (tmp_path / "sign").mkdir()
    (tmp_path / "sign/sign.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    with pytest.raises(ForgedError, match="its certificate is not of this federation"):
        opened(made / "a", replace(mine, folder=tmp_path).sign(request_))


def test_a_key_that_is_not_the_certificates_signs_nothing(made, request_, envelope):
    theirs = signer(made, "a").sign(request_)
    with pytest.raises(ForgedError, match="its signature does not fit its content"):
        opened(made / "a", replace(theirs, certificate=envelope.certificate))


def test_a_key_for_tls_signs_nothing(made, request_, envelope):
    """Whoever takes over the process with the network has that one."""
    key = read_key(made / "coordinator/tls/node.key")
    certificate = (made / "coordinator/tls/node.crt").read_text()
    signature = key.sign(f"fedrel request 1\n{envelope.text}".encode(), ec.ECDSA(hashes.SHA256())).hex()
    for forged in (Envelope(envelope.text, certificate, signature), replace(envelope, certificate=certificate)):
        with pytest.raises(ForgedError, match="its certificate is not one for signatures"):
            opened(made / "a", forged)


def test_a_kit_with_the_wrong_kind_of_key_signs_nothing(federation):
    kit = open_kit(federation / "a")
    shutil.copy(federation / "a/tls/node.key", federation / "a/sign/sign.key")
    with pytest.raises(UserError, match="not an Ed25519 key; copy the kit again"):
        Signer.of(kit)


@pytest.mark.parametrize(("since", "until"), [(-9, -2), (2, 9)])
def test_a_certificate_that_is_not_valid_now(federation, request_, since, until):
    certify(federation, federation / "coordinator", since=timedelta(days=since), until=timedelta(days=until))
    with pytest.raises(ForgedError, match="the certificate of coordinator is not valid now"):
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
def test_a_changed_field_is_noticed(made, envelope, change):
    text = json.dumps({**json.loads(envelope.text), **change})
    with pytest.raises(ForgedError, match="its signature does not fit its content"):
        opened(made / "a", replace(envelope, text=text))


@pytest.mark.parametrize("kind", ["reply", "command"])
def test_a_message_of_one_kind_is_none_of_another(made, envelope, kind):
    with pytest.raises(ForgedError, match="its signature does not fit its content"):
        opened(made / "a", signed(made, envelope.text, kind=kind))


def test_a_reply_is_no_command_and_no_request(made, request_):
    reply = signer(made, "a").sign(Reply(request_.federation, "a", "0" * 64, "done", "", 0, NOTHING))
    for kind in (Request, Command):
        with pytest.raises(ForgedError, match="its signature does not fit its content"):
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
        ({"colour": "red"}, "other fields"),
        ({"KIND": "reply"}, "other fields"),
    ],
)
def test_fields_are_those_of_the_message_and_of_their_types(made, request_, change, why):
    with pytest.raises(ForgedError, match=why):
        opened(made / "a", signed(made, json.dumps({**asdict(request_), **change})))


def test_a_field_that_is_missing(made, request_):
    for name in asdict(request_):
        left = {field: value for field, value in asdict(request_).items() if field != name}
        with pytest.raises(ForgedError, match="it has other fields than such a message"):
            opened(made / "a", signed(made, json.dumps(left)))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"x"', "[" * 100_000, "{}", '{"a": ' * 5000])
def test_a_signed_text_that_is_no_message(made, text):
    with pytest.raises(ForgedError, match=r"it is not JSON|it has other fields"):
        opened(made / "a", signed(made, text))


@pytest.mark.parametrize(
    "found",
    [
        *(None, [], "x", 3, {}, {"text": "", "certificate": ""}, {"text": "", "certificate": "", "signature": 3}),
        {"text": "", "certificate": "", "signature": "", "more": ""},
    ],
)
def test_what_is_no_envelope(found):
    with pytest.raises(ForgedError, match="it is no signed message"):
        Envelope.from_json(found)


def test_a_reason_is_cut(made, request_):
    reply = Reply(request_.federation, "a", "0" * 64, "failed", "x" * 10_000, 0, NOTHING)
    assert opened(made / "coordinator", signer(made, "a").sign(reply), Reply, "platform", "a").why == "x" * 500


def refused_or_the_same(made, envelope, request_):
    """Never another statement, and never another error than the one that everybody expects."""
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
def test_whatever_else_is_changed_the_message_is_refused_or_says_the_same(made, request_, envelope, data, field):
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
def test_bytes_that_are_no_certificate(made, envelope, content):
    with pytest.raises(ForgedError, match="its certificate is not of this federation"):
        opened(made / "a", replace(envelope, certificate=as_pem(content)))


@pytest.mark.parametrize("signature", ["", "zz", "00" * 64, "00" * 63, "\ud800", "é"])
def test_what_is_no_signature(made, envelope, signature):
    with pytest.raises(ForgedError, match="its signature does not fit its content"):
        opened(made / "a", replace(envelope, signature=signature))


def test_letters_that_nobody_can_write_are_refused(made, envelope):
    for field in ("text", "certificate"):
        with pytest.raises(ForgedError):
            opened(made / "a", replace(envelope, **{field: "\ud800"}))


def test_the_certificate_says_its_purpose_once(made):
    """One for signatures is for nothing else, so that no other program takes it for its own."""
    found = certificate_in(made / "coordinator", "sign")
    assert list(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [authority.SIGNATURES]
