"""Encrypted backups of kits."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.errors import UserError
from fedrel.federation.kits.backup import backup, restore
from fedrel.federation.kits.kit import open_kit
from tests.kits import files

PASSPHRASE = "correct horse battery"


@pytest.fixture(scope="module")
def saved(made, tmp_path_factory):
    file = tmp_path_factory.mktemp("safe") / "a.kit"
    backup(open_kit(made / "a"), file, PASSPHRASE)
    return file


def test_a_restored_kit_is_the_same_kit_and_private(made, saved, tmp_path):
    kit = restore(saved, tmp_path / "again", PASSPHRASE)
    assert (kit.name, kit.role) == ("a", "platform")
    assert files(tmp_path / "again") == files(made / "a")
    assert not any(path.stat().st_mode & 0o077 for path in [tmp_path / "again", *(tmp_path / "again").rglob("*")])
    assert open_kit(tmp_path / "again").blinding_key() == open_kit(made / "a").blinding_key()


def test_files_that_a_node_creates_itself_are_left_out(federation, tmp_path):
    kit = federation / "a"
    for name in ("spool/worker/x", "node.log", "node.log.1", ".node.lock", "ledger/ledger.jsonl"):
        (kit / name).parent.mkdir(parents=True, exist_ok=True)
        (kit / name).write_text("x")
    backup(open_kit(kit), tmp_path / "a.kit", PASSPHRASE)
    restore(tmp_path / "a.kit", tmp_path / "again", PASSPHRASE)
    kept = {str(path) for path in files(tmp_path / "again")}
    assert "ledger/ledger.jsonl" in kept
    assert not any(name.startswith(("spool", "node.log", ".node")) for name in kept)


def test_the_file_is_private_and_contains_no_readable_key(made, saved):
    assert saved.stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE KEY" not in saved.read_bytes()
    assert open_kit(made / "a").blinding_key() not in saved.read_bytes()


@pytest.mark.parametrize("passphrase", ["correct horse batterz", "12345678", "short"])
def test_a_wrong_passphrase_is_refused(passphrase, saved, tmp_path):
    with pytest.raises(UserError, match="passphrase"):
        restore(saved, tmp_path / "again", passphrase)
    assert not (tmp_path / "again").exists()


@settings(max_examples=15)  # deriving a key from a passphrase is deliberately slow
@given(place=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_any_changed_byte_is_detected(place, flip, saved, tmp_path_factory):
    folder = tmp_path_factory.mktemp("changed")
    content = bytearray(saved.read_bytes())
    content[place % len(content)] ^= flip
    (folder / "a.kit").write_bytes(content)
    with pytest.raises(UserError):
        restore(folder / "a.kit", folder / "again", PASSPHRASE)
    assert os.listdir(folder) == ["a.kit"]  # noqa: PTH208 - hidden files too


def test_nothing_is_overwritten(made, saved, tmp_path):
    with pytest.raises(UserError, match="already exists"):
        backup(open_kit(made / "a"), saved, PASSPHRASE)
    with pytest.raises(UserError, match="already exists"):
        restore(saved, tmp_path, PASSPHRASE)


def test_the_commands(federation, fedrel, tmp_path):
    secret = tmp_path / "passphrase"
    secret.write_text(f"{PASSPHRASE}\n")
    one = fedrel("federation", "backup", federation / "a", tmp_path / "a.kit", "--passphrase-file", secret)
    two = fedrel("federation", "restore", tmp_path / "a.kit", tmp_path / "again", "--passphrase-file", secret)
    assert (one.code, two.code) == (0, 0), (one.err, two.err)
    assert "is the kit of a (platform)" in two.out
