"""Kits: which party has which secret, what is refused as a kit, and whom TLS accepts."""

import json
import shutil
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.federation.https.tls import identity_of
from fedrel.federation.kits import provisioning
from fedrel.federation.kits.kit import Kit, Party, open_kit
from fedrel.privacy.policy import Policy
from tests.kits import PLATFORMS, certificate_in, certify, context, files, handshake, take

# -------------------------------------------------------------------------------- which party has which secret


def test_a_kit_for_every_party(made):
    assert {path.name for path in made.iterdir()} == {"ca", "coordinator", "admin", *PLATFORMS}
    federation = provisioning.read(made).id
    assert open_kit(made / "a") == Kit(made / "a", federation, "a", "platform", "localhost", 8999)
    assert open_kit(made / "coordinator").role == "coordinator"
    assert open_kit(made / "admin").role == "admin"


def test_only_platforms_share_a_blinding_key(made, other):
    (key,) = {open_kit(made / name).blinding_key() for name in PLATFORMS}
    assert len(key) == 32 and key != open_kit(other / "a").blinding_key()
    for party in ("coordinator", "admin", "ca"):
        assert not [path for path, content in files(made / party).items() if key in content]
    for party in ("coordinator", "admin"):
        with pytest.raises(UserError, match="has no blinding key; only platforms share it"):
            open_kit(made / party).blinding_key()


def test_every_private_key_is_in_one_place(made):
    keys = {path: content for path, content in files(made).items() if b"PRIVATE KEY" in content}
    assert {str(path) for path in keys} == {
        *(
            f"{name}/{key}"
            for name in (*PLATFORMS, "admin", "coordinator")
            for key in ("tls/node.key", "sign/sign.key")
        ),
        "ca/ca.key",
    }
    assert len(set(keys.values())) == len(keys)


def test_keys_that_the_network_process_may_read_sign_nothing(made):
    for name in ("a", "coordinator"):
        assert {path.name for path in (made / name / "tls").iterdir()} == {"ca.pem", "node.crt", "node.key"}
        assert certificate_in(made / name, "tls").public_key() != certificate_in(made / name, "sign").public_key()


def test_kits_are_private_and_contain_no_path(made):
    for path in made.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert not [path for path, content in files(made).items() if str(made).encode() in content]


def test_a_kit_contains_nothing_that_can_be_executed(made):
    assert {path.suffix for path in files(made)} <= {".json", ".crt", ".key", ".pem", ".txt", ".toml"}


def test_a_platforms_kit_has_a_policy_to_fill_in(made):
    assert Policy.read(made / "a/local/policy.toml") == Policy.read(made / "b/local/policy.toml")
    assert not list((made / "coordinator").rglob("policy.toml"))


def test_two_federations_have_nothing_in_common(made, other):
    assert provisioning.read(made).id != provisioning.read(other).id
    assert (made / "ca/ca.pem").read_bytes() != (other / "ca/ca.pem").read_bytes()


# ---------------------------------------------------------------------------------------- opening kits


def test_a_folder_that_is_not_a_kit(tmp_path):
    with pytest.raises(UserError, match=r"not a kit \(it has no kit.json\)"):
        open_kit(tmp_path)


def test_a_damaged_kit_or_one_of_another_version(federation):
    about = json.loads((federation / "a/kit.json").read_text())
    changed = [{**about, "format": 3}, {**about, "role": "queen"}, {**about, "port": "x"}, {**about, "port": None}]
    for entry in ["{}", '{"format": 2}', "[]", "{", *map(json.dumps, changed)]:
        (federation / "a/kit.json").write_text(entry)
        with pytest.raises(UserError, match=r"kit\.json: not "):
            open_kit(federation / "a")


def test_a_kit_of_the_previous_version(federation):
    (federation / "a/kit.json").write_text('{"format": 1, "name": "a", "role": "platform"}')
    with pytest.raises(UserError, match=r"kit\.json: a kit of an earlier version; create a new federation"):
        open_kit(federation / "a")


def test_the_clock_and_the_certificate(federation):
    certify(federation, federation / "a", since=timedelta(days=-9), until=timedelta(days=-2))
    day = datetime.now(UTC) - timedelta(days=2)
    with pytest.raises(UserError, match=f"node.crt: expired on {day:%Y-%m-%d} .*federation renew"):
        open_kit(federation / "a")
    assert open_kit(federation / "a", dates=False).name == "a"
    certify(federation, federation / "a", since=timedelta(days=2), until=timedelta(days=9))
    with pytest.raises(UserError, match=r"node.crt: valid from .* UTC, but the clock says"):
        open_kit(federation / "a")


def test_a_slightly_slow_clock_is_accepted(made):
    since = open_kit(made / "a").certificate.not_valid_before_utc
    assert timedelta(minutes=59) < datetime.now(UTC) - since


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["tls/node.crt", "tls/node.key"], r"node.crt: a certificate of b \(platform\) in the kit of a"),
        (["sign/sign.crt", "sign/sign.key"], r"sign.crt: a certificate of b \(platform\) in the kit of a"),
        (["tls/node.key"], "node.key: not the key that node.crt certifies"),
        (["sign/sign.key"], "sign.key: not the key that sign.crt certifies"),
    ],
)
def test_a_kit_mixed_from_two(federation, names, sentence):
    take(federation / "b", federation / "a", *names)
    with pytest.raises(UserError, match=sentence):
        open_kit(federation / "a")


def test_the_certificate_of_another_role(federation):
    certify(federation, federation / "a", since=timedelta(days=-1), until=timedelta(days=9), role="admin")
    with pytest.raises(UserError, match=r"a certificate of a \(admin\) in the kit of a \(platform\)"):
        open_kit(federation / "a")


@pytest.mark.parametrize("part", ["tls/node", "sign/sign"])
def test_a_certificate_of_another_federation(federation, other, part):
    take(other / "a", federation / "a", f"{part}.crt", f"{part}.key")
    with pytest.raises(UserError, match="a certificate of another federation"):
        open_kit(federation / "a")


@pytest.mark.parametrize("name", ["tls/node.crt", "tls/node.key", "tls/ca.pem", "sign/sign.crt", "sign/sign.key"])
def test_an_incomplete_kit(federation, name):
    (federation / "a" / name).write_text("torn")
    with pytest.raises(UserError, match=r": not a (certificate|private key); copy the kit again"):
        open_kit(federation / "a")
    (federation / "a" / name).unlink()
    with pytest.raises(UserError, match=f"{name}: No such file or directory; the kit is incomplete"):
        open_kit(federation / "a")


@pytest.mark.parametrize("name", ["tls/node.key", "sign/sign.key"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_can_read_is_refused(federation, name, mode):
    (federation / "a" / name).chmod(mode)
    with pytest.raises(UserError, match=f"{name}: other users of this machine can read this key; chmod -R go= "):
        open_kit(federation / "a")


def test_a_missing_or_truncated_blinding_key(federation):
    (federation / "a/local/blinding.key").write_bytes(b"short")
    with pytest.raises(UserError, match="5 bytes where 32 were expected"):
        open_kit(federation / "a").blinding_key()
    (federation / "a/local/blinding.key").unlink()
    with pytest.raises(UserError, match="copy the key from another platform's kit, not through the coordinator"):
        open_kit(federation / "a").blinding_key()


@given(st.sampled_from(["coordinator", "platform", "admin", "viewer"]), st.datetimes(), st.none() | st.datetimes())
def test_a_party_round_trips_through_json(role, until, revoked):
    party = Party("x", role, until.replace(tzinfo=UTC), revoked.replace(tzinfo=UTC) if revoked else None)
    assert Party.from_json(json.loads(json.dumps(party.as_json()))) == party


# ------------------------------------------------------------------------------------------ TLS


@pytest.mark.parametrize("name", [*PLATFORMS, "admin"])
def test_the_coordinator_and_its_parties_accept_each_other(made, name):
    seen = handshake(context(made / "coordinator", server=True), context(made / name, server=False))
    who = identity_of(seen)
    assert (who.name, who.role, who.federation) == (name, open_kit(made / name).role, provisioning.read(made).id)
    assert who.until == certificate_in(made / name).not_valid_after_utc.timestamp()
    assert seen.version() == "TLSv1.3"


def test_an_older_tls_is_refused(made):
    old = context(made / "a", server=False)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match=r"(?i)unsupported.protocol|version"):
        handshake(context(made / "coordinator", server=True), old)


def test_a_certificate_of_another_authority_is_refused(made, other):
    stranger = context(made / "a", server=False, identity=other / "a")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed"):
        handshake(context(made / "coordinator", server=True), stranger)


def test_a_coordinator_of_another_federation_is_refused(made, other):
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context(other / "coordinator", server=True), context(made / "a", server=False))


def test_a_coordinator_under_another_name_is_refused(made):
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'elsewhere\.example'"):
        handshake(
            context(made / "coordinator", server=True), context(made / "a", server=False), name="elsewhere.example"
        )


def test_no_certificate_is_refused(made):
    nobody = ssl.create_default_context(cafile=made / "ca/ca.pem")
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        handshake(context(made / "coordinator", server=True), nobody)


def test_an_expired_certificate_is_refused(federation):
    certify(federation, federation / "a", since=timedelta(days=-9), until=timedelta(days=-2))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake(context(federation / "coordinator", server=True), context(federation / "a", server=False))


@pytest.mark.parametrize("name", ["b", "admin"])
def test_a_party_cannot_pose_as_the_coordinator(made, name):
    impostor = context(made / "coordinator", server=True, identity=made / name)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unsuitable certificate purpose|unsupported"):
        handshake(impostor, context(made / "a", server=False))


def test_the_coordinator_cannot_pose_as_a_party(made):
    impostor = context(made / "a", server=False, identity=made / "coordinator")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unsuitable certificate purpose|unsupported"):
        handshake(context(made / "coordinator", server=True), impostor)


def test_a_certificate_for_signatures_opens_no_connection(made, tmp_path):
    signing = shutil.copytree(made / "a", tmp_path / "a")
    shutil.copy(made / "a/sign/sign.crt", signing / "tls/node.crt")
    shutil.copy(made / "a/sign/sign.key", signing / "tls/node.key")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unsuitable certificate purpose|unsupported"):
        handshake(context(made / "coordinator", server=True), context(signing, server=False))


def test_only_this_federation_is_trusted(made):
    for server in (True, False):
        assert context(made / "a", server=server).cert_store_stats()["x509_ca"] == 1
