"""Files that grow while somebody reads them, files that only their user can read, and names that become paths."""

import os
import stat
import subprocess
import sys

import pytest

from fedrel.config import Data
from fedrel.data.loading import load
from fedrel.data.store import Dataset
from fedrel.errors import UserError
from fedrel.feedback.store import Store
from fedrel.kernels import jit
from fedrel.util.files import (
    Tail,
    atomic_folder,
    private_cache,
    private_folder,
    require_own,
    run_folder,
    run_name,
    write_atomic,
)


def test_what_was_there_is_not_new_and_every_whole_line_comes_once(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    new = Tail(path)
    assert list(new.lines()) == []
    with path.open("ab") as file:
        file.write(b"one\ntwo\nthr")
    assert list(new.lines()) == [b"one\n", b"two\n"]
    assert list(new.lines()) == []
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert list(new.lines()) == [b"three\n"]


def test_a_reader_that_stops_in_the_middle_goes_on_after_the_line_it_had(tmp_path):
    path = tmp_path / "log"
    new = Tail(path)
    path.write_bytes(b"one\ntwo\n")
    assert next(new.lines()) == b"one\n"
    assert list(new.lines()) == [b"two\n"]


def test_a_file_that_is_not_there_yet_is_read_from_its_beginning(tmp_path):
    new = Tail(tmp_path / "log")
    assert list(new.lines()) == []
    (tmp_path / "log").write_bytes(b"one\n")
    assert list(new.lines()) == [b"one\n"]


# ---------------------------------------------------------------------------------------------- who may read


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_what_a_person_asked_for_follows_the_umask(tmp_path, umask):
    write_atomic(tmp_path / "file", "x")
    with atomic_folder(tmp_path / "folder") as new:
        write_atomic(new / "file", "x")
    assert mode(tmp_path / "file") == mode(tmp_path / "folder" / "file") == 0o666 & ~umask
    assert mode(tmp_path / "folder") == 0o777 & ~umask


def test_what_is_private_is_the_users_alone_whatever_the_umask(tmp_path, umask):
    write_atomic(tmp_path / "file", "x", private=True)
    with atomic_folder(tmp_path / "folder", private=True) as new:
        assert mode(new) == 0o700  # while it is filled, too
        (new / "inner").mkdir()
        (new / "inner" / "file").write_text("x")
    assert mode(tmp_path / "file") == mode(tmp_path / "folder" / "inner" / "file") == 0o600
    assert mode(tmp_path / "folder") == mode(tmp_path / "folder" / "inner") == 0o700


def test_data_sets_in_the_cache_are_private(tmp_path, umask, monkeypatch):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    dataset = load(Data(size=600))
    assert mode(tmp_path / "cache") == mode(tmp_path / "cache" / "data") == mode(dataset.folder) == 0o700
    assert {mode(path) for path in dataset.folder.iterdir()} == {0o600}


def test_a_cache_that_others_could_enter_is_closed_and_said(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "data").mkdir(parents=True)
    (tmp_path / "cache" / "data").chmod(0o755)
    said = []
    load(Data(size=600), say=said.append)
    assert f"{tmp_path / 'cache' / 'data'}: others could enter this folder; now only you can" in said
    assert mode(tmp_path / "cache" / "data") == 0o700


@pytest.mark.parametrize("part", ["cache", "cache/data"])
def test_a_cache_that_everybody_can_write_in_is_refused(tmp_path, monkeypatch, part):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "data").mkdir(parents=True)
    (tmp_path / part).chmod(0o777)
    with pytest.raises(UserError, match=r"others can write there.*chmod go-w"):
        load(Data(size=600))
    assert mode(tmp_path / part) == 0o777


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    dataset = load(Data(size=600))
    assert isinstance(dataset, Dataset)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    for refusing in (lambda: load(Data(size=600)), lambda: private_folder(tmp_path), lambda: private_cache("numba")):
        with pytest.raises(UserError, match=r"belongs to another user.*FEDREL_CACHE"):
            refusing()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of root's")
def test_a_cache_in_a_folder_like_tmp_is_a_private_folder_there(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path))
    tmp_path.chmod(0o1777)
    assert mode(private_cache("data")) == 0o700
    os.chown(tmp_path / "data", 12345, 12345)
    with pytest.raises(UserError, match="belongs to another user"):
        private_cache("data")
    tmp_path.chmod(0o777)
    with pytest.raises(UserError, match="others can write there"):
        private_cache("numba")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_planted_data_set_and_a_planted_link_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    folder = load(Data(size=600)).folder
    os.chown(folder, 12345, 12345)
    with pytest.raises(UserError, match="belongs to another user"):
        load(Data(size=600))
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    require_own(tmp_path / "link")  # one's own
    os.lchown(tmp_path / "link", 12345, 12345)
    with pytest.raises(UserError, match="belongs to another user"):
        require_own(tmp_path / "link")


def test_a_store_of_verdicts_is_private_with_its_journals(tmp_path, umask):
    with Store.open(tmp_path / "new" / "verdicts.sqlite") as store:
        store.show("key", "born in", 0.5, "model")
        files = list((tmp_path / "new").iterdir())
        assert len(files) == 3  # -wal and -shm
        assert {mode(path) for path in files} == {0o600}
    assert mode(tmp_path / "new") == 0o700


# ---------------------------------------------------------------------------------------------- compiled code


def test_compiled_code_is_never_taken_from_a_folder_that_others_can_write_in(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert jit._place(tmp_path) == str(tmp_path / "numba")
    assert mode(tmp_path / "numba") == 0o700
    for others in (0o775, 0o777):
        (tmp_path / "numba").chmod(others)
        with pytest.raises(UserError, match="others can write there"):
            jit._place(tmp_path)


def test_compiled_code_lies_beside_its_source_only_where_no_more_people_can_write(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "package" / "__pycache__").mkdir(parents=True)
    (tmp_path / "package").chmod(0o755)
    (tmp_path / "package" / "__pycache__").chmod(0o755)
    assert jit._place(tmp_path / "package") == ""
    (tmp_path / "package" / "__pycache__").chmod(0o777)
    assert jit._place(tmp_path / "package") == str(tmp_path / "cache" / "numba")
    assert mode(tmp_path / "cache" / "numba") == 0o700


@pytest.mark.skipif(not jit.AVAILABLE, reason="needs numba")
def test_a_function_is_compiled_without_such_a_folder_and_a_sentence_says_so(tmp_path):
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba").chmod(0o777)
    (tmp_path / "fast.py").write_text(
        "from fedrel.kernels.jit import kept\ndef double(x): return 2 * x\n"
        "def half(x): return x / 2\nprint(kept(double)(21), kept(half)(2.0))\n"
    )
    done = subprocess.run(
        [sys.executable, "fast.py"],
        cwd=tmp_path,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "42 1.0\n"
    assert done.stderr.count("others can write there") == 1
    assert list((tmp_path / "numba").iterdir()) == []


# ---------------------------------------------------------------------------------------------- names and links


@pytest.mark.parametrize("name", ["a", "run-1", "feded_2026.07.30", "0", "1" * 80])
def test_a_run_may_have_such_names(tmp_path, name):
    assert run_name(name) == name
    assert run_folder(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".hidden",
        "-x",
        "_x",
        "a/b",
        "../a",
        "/etc",
        "a\\b",
        "a b",
        "a\n",
        "a\0",
        "é",
        "1" * 81,
        "a\x1b[2J",
        "a:b",
    ],
)
def test_no_name_of_a_run_leaves_its_folder(tmp_path, name):
    with pytest.raises(UserError, match="cannot be the name of a run") as refusal:
        run_folder(tmp_path, name)
    assert str(refusal.value).isprintable()


def test_links_are_replaced_or_refused_never_written_through(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "target").write_text("old")
    (tmp_path / "file").symlink_to(tmp_path / "target")
    write_atomic(tmp_path / "file", "new")
    assert (tmp_path / "target").read_text() == "old"
    assert not (tmp_path / "file").is_symlink()
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="a symbolic link, which may lead anywhere"):
        run_folder(tmp_path, "folder")
    with pytest.raises(NotADirectoryError), atomic_folder(tmp_path / "folder") as new:
        write_atomic(new / "file", "x")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "file", "folder", "target"]
