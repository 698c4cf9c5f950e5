"""Parties are added, renewed and revoked, and names are unique."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.federation.kits import provisioning
from fedrel.federation.kits.kit import Kit, open_kit
from tests.kits import PLATFORMS, certificate_in, certify, context, files, handshake


def test_a_new_platform_gets_the_key_that_the_others_share(federation):
    kit = open_kit(provisioning.add(federation, "late", "platform"))
    assert kit == Kit(federation / "late", provisioning.read(federation).id, "late", "platform", "localhost", 8999)
    assert kit.blinding_key() == open_kit(federation / "a").blinding_key()
    handshake(context(federation / "coordinator", server=True), context(kit.folder, server=False))
    assert "late" in [party.name for party in open_kit(federation / "coordinator").members()]
    assert not list(federation.glob(".*"))


def test_the_shared_key_comes_only_from_a_platform(federation, tmp_path):
    for name in PLATFORMS:
        (federation / name).rename(tmp_path / name)
    before = files(federation)
    with pytest.raises(UserError, match=r"to copy the blinding key from; .* --key-from KIT"):
        provisioning.add(federation, "late", "platform")
    with pytest.raises(UserError, match="has no blinding key; only platforms share it"):
        provisioning.add(federation, "late", "platform", federation / "admin")
    assert files(federation) == before
    provisioning.add(federation, "late", "platform", tmp_path / "b")
    assert open_kit(federation / "late").blinding_key() == open_kit(tmp_path / "b").blinding_key()


def test_a_viewer_has_no_blinding_key(federation):
    kit = open_kit(provisioning.add(federation, "eve", "viewer"))
    assert kit.role == "viewer" and "viewer" in str(kit.certificate.subject)
    assert not (kit.folder / "local/blinding.key").exists()


def test_names_are_unique(federation):
    for name in ("a", "A", "admin", "ADMIN"):
        with pytest.raises(UserError, match=r"this name is taken|is reserved"):
            provisioning.add(federation, name, "admin")
    (federation / "b2").mkdir()
    with pytest.raises(UserError, match="b2: already exists"):
        provisioning.add(federation, "b2", "platform")


def test_a_renewed_certificate_is_for_the_same_key_and_nothing_else_changes(federation):
    (federation / "a/local/policy.toml").write_text('[methods]\nallow = ["feded"]\n')
    certify(federation, federation / "a", since=timedelta(days=-9), until=timedelta(days=-2))
    files_of_both = [Path("tls/node.crt"), Path("sign/sign.crt")]
    for purpose, path in zip(("tls", "sign"), files_of_both, strict=True):
        shutil.copy(federation / "a" / path, federation / f"ca/issued/a.{purpose}.crt")
    before = files(federation / "a")
    keys = [certificate_in(federation / "a", purpose).public_key() for purpose in ("tls", "sign")]
    assert provisioning.renew(federation, ["a"]) == {"a": [federation / "a" / path for path in files_of_both]}
    after = files(federation / "a")
    assert {path for path in after if after[path] != before.get(path)} == set(files_of_both)
    open_kit(federation / "a")
    for purpose, key in zip(("tls", "sign"), keys, strict=True):
        certificate = certificate_in(federation / "a", purpose)
        assert certificate.public_key() == key
        assert certificate.not_valid_after_utc - datetime.now(UTC) > timedelta(days=364)
    handshake(context(federation / "coordinator", server=True), context(federation / "a", server=False))


def test_a_certificate_is_renewed_without_its_kit(federation, tmp_path):
    shutil.move(federation / "b", tmp_path / "b")
    (paths,) = provisioning.renew(federation, ["b"]).values()
    assert files(federation / "b").keys() == {Path("tls/node.crt"), Path("sign/sign.crt")}
    for path in paths:
        shutil.copy(path, tmp_path / "b" / path.relative_to(federation / "b"))
    assert open_kit(tmp_path / "b").name == "b"


def test_all_but_revoked_parties_are_renewed(federation):
    provisioning.revoke(federation, "b")
    assert list(provisioning.renew(federation)) == ["coordinator", "a", "st-Mary_2", "admin"]
    assert list(provisioning.renew(federation, ["coordinator"])) == ["coordinator"]
    with pytest.raises(UserError, match="b was revoked; add it again under another name"):
        provisioning.renew(federation, ["b"])
    with pytest.raises(UserError, match="there is no party named z; known: coordinator, a, b"):
        provisioning.renew(federation, ["z"])


def test_no_certificate_outlives_the_authority(federation):
    about = json.loads((federation / "ca/federation.json").read_text())
    (federation / "ca/federation.json").write_text(json.dumps({**about, "days": 99_999}))
    provisioning.renew(federation, ["a"])
    root = x509.load_pem_x509_certificate((federation / "ca/ca.pem").read_bytes())
    assert open_kit(federation / "a").certificate.not_valid_after_utc == root.not_valid_after_utc


def test_a_revoked_party_stays_in_the_list_of_members(federation):
    assert provisioning.revoke(federation, "b") == [federation / "coordinator/members.json"]
    provisioning.revoke(federation, "admin")
    gone = [party for party in open_kit(federation / "coordinator").members() if party.revoked]
    assert [(party.name, party.role) for party in gone] == [("b", "platform"), ("admin", "admin")]
    with pytest.raises(UserError, match="b was already revoked on 20"):
        provisioning.revoke(federation, "b")
    with pytest.raises(UserError, match="coordinator cannot be revoked"):
        provisioning.revoke(federation, "coordinator")
    with pytest.raises(UserError, match="this name is taken"):
        provisioning.add(federation, "b", "admin")


def test_without_the_authoritys_key_no_certificate_is_issued(federation):
    (federation / "ca/ca.key").unlink()
    before = files(federation)
    with pytest.raises(UserError, match="without this key no certificate can be issued"):
        provisioning.add(federation, "late", "platform")
    assert files(federation) == before


@given(st.text(max_size=60) | st.from_regex(r"[A-Za-z0-9_.-]{1,50}", fullmatch=True))
def test_an_accepted_name_works_as_a_folder_and_in_a_certificate(name):
    try:
        provisioning.check_name(name, "platform", {})
    except UserError:
        return
    assert Path(name).name == name and name.casefold() not in ("ca", "server", "coordinator", "admin")
    assert name.isascii() and name.isprintable() and len(name) <= 64
