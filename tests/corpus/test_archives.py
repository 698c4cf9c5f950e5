"""Packed data: read as if it were unpacked, and refused in one sentence where it is damaged or not safe."""

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.config import Data
from fedrel.corpus import unpacking
from fedrel.corpus.archives import unpacked
from fedrel.corpus.detection import detect
from fedrel.corpus.documents import Documents
from fedrel.data.inspection import inspect
from fedrel.data.loading import fingerprint, load, load_part, load_public
from fedrel.errors import UserError
from tests.documents import place
from tests.instances import sentences, write
from tests.labelled_examples import WRITERS

Files = dict[str, bytes]
SPLITS = {f"{split}.jsonl": split for split in ("train", "dev", "test")}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def zipped(path: Path, files: Files, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, files: Files, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in members:
            archive.addfile(member)
    return path


def packed(path: Path, files: Files) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".zip"):
        return zipped(path, files)
    if path.name.endswith((".tar.gz", ".tgz")):
        return tarred(path, files)
    [content] = files.values()
    path.write_bytes(gzip.compress(content))
    return path


def content(path: Path) -> Files:
    return {str(it.relative_to(path)): it.read_bytes() for it in sorted(path.rglob("*")) if it.is_file()}


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        unpacked(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    assert len(said) < 600
    return said.removeprefix(f"{path}: ")


archive_names = pytest.mark.parametrize("name", ["corpus.zip", "corpus.tar.gz", "corpus.tgz", "Corpus.ZIP"])


@archive_names
def test_an_archive_is_unpacked_once_into_a_private_folder(tmp_path, cache, name):
    files = {"a.txt": b"one", "b/c.txt": b"two"}
    path = packed(tmp_path / name.lower(), files).rename(tmp_path / name)
    found = unpacked(path)
    assert content(found) == files
    assert name in found.parts
    assert cache in found.parents
    assert {stat.S_IMODE(it.stat().st_mode) for it in cache.rglob("*")} == {0o700, 0o600}
    before = (found / "a.txt").stat()
    assert unpacked(path) == found
    assert (found / "a.txt").stat() == before
    assert unpacked(found) == found
    assert not list(cache.rglob(".*")), "no temporary folder is left"


@archive_names
def test_the_one_folder_or_the_one_file_is_what_is_wanted(tmp_path, name):
    one = packed(tmp_path / "1" / name.lower(), {"top/a.txt": b"one", "top/b/c.txt": b"two"})
    assert content(unpacked(one)) == {"a.txt": b"one", "b/c.txt": b"two"}
    assert unpacked(one).name == "top"
    other = packed(tmp_path / "2" / name.lower(), {"top/a.txt": b"one"})
    assert unpacked(other).read_bytes() == b"one"
    assert unpacked(other).name == "a.txt"
    deep = packed(tmp_path / "3" / name.lower(), {"top/next/a.txt": b"one", "top/next/b.txt": b"two"})
    assert unpacked(deep).name == "top"


def test_a_single_file_goes_by_the_name_of_the_archive(tmp_path):
    path = tmp_path / "train.jsonl.gz"
    with path.open("wb") as raw, gzip.GzipFile("../../evil", "wb", fileobj=raw) as file:
        file.write(b"one")  # the name in it is not used
    found = unpacked(path)
    assert (found.name, found.read_bytes()) == ("train.jsonl", b"one")
    assert found.parent.name == "train.jsonl.gz"


def test_a_changed_archive_is_unpacked_anew(tmp_path):
    path = packed(tmp_path / "a.txt.gz", {"": b"one"})
    first = unpacked(path)
    packed(path, {"": b"three"})
    assert unpacked(path).read_bytes() == b"three"
    assert first.read_bytes() == b"one"


@archive_names
def test_what_systems_leave_behind_is_left_out(tmp_path, name):
    junk = {"__MACOSX/top/._a.txt": b"x" * 5_000_000, "top/._a.txt": b"x", "top/.DS_Store": b"x", "top/Thumbs.db": b"x"}
    path = packed(tmp_path / name.lower(), {**junk, "top/a.txt": b"one", "top/b.txt": b"two"})
    assert content(unpacked(path)) == {"a.txt": b"one", "b.txt": b"two"}


@archive_names
def test_archives_within_archives_stay_packed(tmp_path, name):
    inner = zipped(tmp_path / "inner.zip", {"a.txt": b"one"}).read_bytes()
    path = packed(tmp_path / name.lower(), {"inner.zip": inner, "b.txt.gz": gzip.compress(b"two")})
    found = unpacked(path)
    assert set(content(found)) == {"inner.zip", "b.txt.gz"}
    assert unpacked(found) == found


def test_what_is_not_packed_is_the_path_itself(tmp_path, cache):
    place(tmp_path / "data", {"a.txt": "one", "b.bin.gz": gzip.compress(b"x"), "README.gz": gzip.compress(b"x")})
    for path in (tmp_path / "data", tmp_path / "data" / "a.txt", tmp_path / "none", tmp_path / "none.zip"):
        assert unpacked(path) == path
    assert not cache.exists()


# ---------------------------------------------------------------------------------------------------- folders


def test_packed_files_in_a_folder_lie_beside_links_to_the_others(tmp_path):
    folder = place(tmp_path / "data", {"dev.jsonl": "dev", "sub/x.txt": "x", ".git/config": "no"})
    packed(folder / "train.jsonl.gz", {"": b"train"})
    packed(folder / "test.zip", {"whatever.jsonl": b"test"})
    packed(folder / "sub" / "y.txt.gz", {"": b"y"})
    found = unpacked(folder)
    assert found.name == "data"
    expected = {"dev.jsonl": b"dev", "train.jsonl": b"train", "test.jsonl": b"test", "sub/x.txt": b"x"}
    assert content(found) == {**expected, "sub/y.txt": b"y"}
    assert (found / "dev.jsonl").is_symlink()
    assert not (found / "sub").is_symlink()
    assert unpacked(folder) == unpacked(found) == found
    (folder / "dev.jsonl").write_text("changed")
    assert unpacked(folder) == found
    assert (found / "dev.jsonl").read_text() == "changed"
    (folder / "new.txt").write_text("new")
    assert (unpacked(folder) / "new.txt").read_text() == "new"


def test_what_is_there_unpacked_already_is_not_unpacked_again(tmp_path):
    folder = place(tmp_path / "data", {"train.jsonl": "plain", "corpus/a.txt": "a"})
    packed(folder / "train.jsonl.gz", {"": b"packed"})
    packed(folder / "corpus.zip", {"a.txt": b"packed"})
    packed(folder / "all.tar.gz", {"a.txt": b"the same data once more", "b.txt": b""})
    assert unpacked(folder) == folder
    packed(folder / "dev.jsonl.gz", {"": b"dev"})
    packed(folder / "dev.zip", {"x.jsonl": b"another"})
    found = content(unpacked(folder))
    assert found.pop("dev.jsonl") in (b"dev", b"another")
    assert len({"dev.jsonl.gz", "dev.zip"} & set(found)) == 1
    assert found["train.jsonl"] == b"plain"
    assert {"train.jsonl.gz", "corpus.zip", "all.tar.gz", "corpus/a.txt"} <= set(found)


def test_an_archive_alone_with_its_readme_is_a_folder(tmp_path):
    folder = place(tmp_path / "data", {"README.md": "read me", "LICENSE": "mine"})
    packed(folder / "corpus.zip", {"corpus-1.0/train/a.txt": b"a", "corpus-1.0/test/b.txt": b"b"})
    found = unpacked(folder)
    assert content(found) == {"README.md": b"read me", "LICENSE": b"mine", "corpus/train/a.txt": b"a"} | {
        "corpus/test/b.txt": b"b"
    }


def test_packed_files_are_looked_for_near_the_top_alone(tmp_path):
    folder = place(tmp_path / "data", {"a.txt": "a"})
    packed(folder / "x" / "y" / "z" / "b.txt.gz", {"": b"deep"})
    packed(folder / "x" / "old.zip", {"a.txt": b"a", "b.txt": b"b"})
    assert unpacked(folder) == folder
    packed(folder / "x" / "y" / "c.txt.gz", {"": b"c"})
    packed(folder / "x" / "train.zip", {"a.txt": b"a", "b.txt": b"b"})
    assert set(content(unpacked(folder))) == {
        *("a.txt", "x/old.zip", "x/train/a.txt", "x/train/b.txt", "x/y/c.txt", "x/y/z/b.txt.gz"),
    }


# -------------------------------------------------------------------------------------------- the way through


@pytest.mark.parametrize("source", WRITERS)
@archive_names
def test_every_format_is_read_packed_as_it_is_unpacked(tmp_path, source, name):
    (tmp_path / "plain").mkdir()
    WRITERS[source](tmp_path / "plain", 4)
    path = packed(tmp_path / name.lower(), {f"top/{it}": text for it, text in content(tmp_path / "plain").items()})
    plain, report = inspect(tmp_path / "plain"), inspect(path)
    assert (report.path, report.format, report.kind) == (str(path), source, "labelled sentences")
    assert [it.counts for it in report.parts.values()] == [it.counts for it in plain.parts.values()]
    assert [it.labels for it in report.parts.values()] == [it.labels for it in plain.parts.values()]
    assert report.advice[-1].endswith(f"data.path={path}")
    assert [Path(it).name for it in report.passed_over] == [Path(it).name for it in plain.passed_over]


def test_splits_that_are_packed_one_by_one(tmp_path):
    for split in ("train", "dev", "test"):
        file = write(tmp_path / f"{split}.jsonl", sentences(4, prefix=split))
        packed(tmp_path / "data" / f"{split}.jsonl.gz", {"": file.read_bytes()})
    data = Data(source="opennre", path=str(tmp_path / "data"))
    told: list[str] = []
    found = load(data, say=told.append)
    assert (len(found.train), len(found.dev), len(found.test)) == (8, 8, 8)
    assert told[-1] == f"reading {tmp_path}/data …"
    assert fingerprint(data) == fingerprint(Data(source="opennre", path=str(tmp_path / "data")))
    assert detect(tmp_path / "data").source == "opennre"
    alone = tmp_path / "data" / "train.jsonl.gz"
    assert len(load_part(data, alone, relations=("r0", "r2")).train) == 8
    assert len(load_public(data, tmp_path / "data", relations=("r0", "r2")).train) == 8


@pytest.mark.parametrize("whole", [False, True])
def test_platforms_that_are_packed(tmp_path, whole):
    folder = tmp_path / "data"
    for name in ("a", "b"):
        write(folder / name / "train.jsonl", sentences(4, prefix=name))
    for split in ("dev", "test"):
        write(folder / "coordinator" / f"{split}.jsonl", sentences(2, prefix=split))
    plain = load(Data(source="opennre", path=str(folder)))
    if whole:
        path = packed(tmp_path / "data.zip", content(folder))
    else:
        path = folder
        for file in (folder / "a" / "train.jsonl", folder / "coordinator" / "test.jsonl"):
            packed(Path(f"{file}.gz"), {"": file.read_bytes()})
            file.unlink()
    found = load(Data(source="opennre", path=str(path)))
    assert [len(it) for it in (found.train, found.dev, found.test)] == [16, 4, 4]
    assert found.meta == plain.meta


def test_documents_that_are_packed(tmp_path):
    path = packed(tmp_path / "letters.tgz", {"letters/1931.txt": b"We met.", "letters/b/1932.txt": b"It was late."})
    found = Documents(path)
    assert (found.source, [it.id for it in found]) == ("text", ["1931.txt", "b/1932.txt"])
    assert found.bytes == 19
    assert [it.text for it in Documents(path, "text")] == ["We met.", "It was late."]
    report = inspect(path)
    assert report.parts["all"].counts["documents"] == 2
    assert report.advice[-1] == f"fedrel label --kb KB --text {path} --out FOLDER"


def test_a_message_names_the_archive_and_the_file_in_it(tmp_path):
    path = packed(tmp_path / "corpus.zip", {"train.jsonl": b'{"h": 1, "t": 2, "relation": "r"}\n', "a.md": b""})
    with pytest.raises(UserError, match=r"/corpus\.zip/train\.jsonl:1: "):
        load(Data(source="opennre", path=str(path)))


# ------------------------------------------------------------------------------------- what strangers may send


def link(name: str, kind: bytes, to: str = "/etc/passwd") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member


@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt", "..", "..\\evil.txt"])
@pytest.mark.parametrize("archive", ["a.zip", "a.tar.gz"])
def test_no_member_leads_out(tmp_path, cache, name, archive):
    if archive == "a.tar.gz" and "\\" in name:
        return  # there, it is a character like others
    path = packed(tmp_path / "in" / archive, {"good.txt": b"x", name: b"evil"})
    assert "leads out of its folder; it is refused" in refusal(path)
    assert not list(tmp_path.rglob("evil*"))
    assert not list(cache.rglob("*.txt")), "nothing is left half-unpacked"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_no_links_or_devices(tmp_path, kind):
    path = tarred(tmp_path / "a.tgz", {"good.txt": b"x"}, link("bad", kind))
    assert refusal(path) == "bad in it is a link or a device; pack it again without such"


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_no_links_or_devices_in_a_zip(tmp_path, kind):
    member = zipfile.ZipInfo("bad")
    member.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, "/etc/passwd")
    assert refusal(tmp_path / "a.zip") == "bad in it is a link or a device; pack it again without such"


def test_encrypted_members_are_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.txt": b"one"})
    raw = bytearray(path.read_bytes())
    for signature, place_ in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + place_] |= 1
    path.write_bytes(raw)
    assert refusal(path) == "a.txt in it is encrypted; unpack it yourself, with its password"


def test_rare_methods_are_refused_and_old_ones_read(tmp_path):
    assert "packed by a rare method" in refusal(zipped(tmp_path / "a.zip", {"a.txt": b"one"}, zipfile.ZIP_LZMA))
    for number, method in enumerate((zipfile.ZIP_STORED, zipfile.ZIP_BZIP2)):
        assert unpacked(zipped(tmp_path / f"{number}.zip", {"a.txt": b"one"}, method)).read_bytes() == b"one"
    for name in ("a.tar", "a.txt.bz2", "a.tar.xz", "a.7z", "a.rar"):
        (tmp_path / name).write_bytes(b"x")
        assert refusal(tmp_path / name) == (
            "packed in a way that is not read here; unpack it, or pack it as .gz, .zip or .tar.gz"
        )


@pytest.mark.parametrize("name", ["a.txt.gz", "a.zip", "a.tar.gz"])
def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path, cache, monkeypatch, name):
    zeros = b"\0" * 3_000_000
    monkeypatch.setattr(unpacking, "SMALL", 1_000_000)
    monkeypatch.setattr(unpacking, "GROWTH", 100)
    assert "more than 100 times as large when unpacked" in refusal(packed(tmp_path / name, {"a.txt": zeros}))
    monkeypatch.setattr(unpacking, "GROWTH", 10_000)
    assert unpacked(tmp_path / name).stat().st_size == 3_000_000
    monkeypatch.setattr(unpacking, "LARGEST", 2 * 2**20)
    other = packed(tmp_path / f"2{name}", {"a.txt": zeros})
    assert "GB when unpacked; unpack it yourself" in refusal(other)
    assert not list(cache.glob("unpacked/.*"))


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_too_many_members_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(unpacking, "MEMBERS", 10)
    assert len(content(unpacked(packed(tmp_path / "few" / name, {f"{n}": b"x" for n in range(10)})))) == 10
    assert refusal(packed(tmp_path / name, {f"{n}": b"x" for n in range(11)})) == (
        "more than 10 files and folders are in it; unpack it yourself"
    )
    assert "more than 10 files" in refusal(packed(tmp_path / f"deep-{name}", {"/".join("abcdefghijkl"): b"x"}))


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
@pytest.mark.parametrize("member", ["a/" * 40 + "b", "a\nb", "\x1b[2J", "x" * 300])
def test_odd_names_are_refused(tmp_path, name, member):
    assert refusal(packed(tmp_path / name, {"good": b"x", member: b"x"}))


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_file_that_is_a_folder_too_is_refused(tmp_path, name):
    assert "damaged" in refusal(packed(tmp_path / "1" / name, {"a": b"x", "a/b": b"x"}))
    assert "damaged" in refusal(packed(tmp_path / "2" / name, {"a/b": b"x", "a": b"x"}))


def test_of_two_members_of_one_name_the_later_one_counts(tmp_path):
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        for text in (b"one, and longer", b"two"):
            member = tarfile.TarInfo("a.txt")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    assert unpacked(tmp_path / "a.tgz").read_bytes() == b"two"


def test_a_name_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "_HEADERS", 200_000)
    path = tarred(tmp_path / "a.tgz", {"x" * 1_000_000: b"x"})
    assert refusal(path) == "the name of a file in it has no end; it is refused"
    raw = io.BytesIO()
    for _ in range(5_000):  # one header that announces the next, and so on
        raw.write(tarfile.TarInfo._create_pax_generic_header({"a": "b"}, tarfile.XHDTYPE, "utf-8"))
    (tmp_path / "b.tgz").write_bytes(gzip.compress(raw.getvalue()))
    assert refusal(tmp_path / "b.tgz")


def test_a_list_of_members_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "_LIST", 70_000)
    assert "too long" in refusal(zipped(tmp_path / "a.zip", {f"{n}": b"" for n in range(2_000)}))


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_an_empty_archive_is_refused(tmp_path, name):
    assert refusal(packed(tmp_path / name, {})) == "there is no file in this archive"
    assert refusal(packed(tmp_path / f"2{name}", {".DS_Store": b"x"})) == "there is no file in this archive"


@pytest.mark.parametrize("name", ["a.txt.gz", "a.zip", "a.tar.gz"])
def test_cut_off_anywhere_it_is_refused(tmp_path, name):
    raw = packed(tmp_path / "whole" / name, {"a.txt": os.urandom(300) + b"x" * 2_000}).read_bytes()
    kind = name.removeprefix("a").removeprefix(".txt")
    for end in range(0, len(raw), 1 + len(raw) // 60):
        (tmp_path / name).write_bytes(raw[:end])
        assert refusal(tmp_path / name) == f"not a whole {kind} file; it is damaged or cut off: get it again"


@pytest.mark.parametrize("name", ["a.txt.gz", "a.zip", "a.tar.gz"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_anyhow_it_is_read_or_refused(tmp_path_factory, name, data):
    folder = tmp_path_factory.mktemp("damaged")
    files = {"a.txt": b"one " * 50, **({} if name == "a.txt.gz" else {"b/" + "long" * 40 + ".txt": b"two"})}
    raw = packed(folder / name, files).read_bytes()
    if name == "a.tar.gz" and data.draw(st.booleans()):
        inner = _hurt(data, gzip.decompress(raw))
        raw = gzip.compress(inner)
    else:
        raw = _hurt(data, raw)
    (folder / name).write_bytes(raw)
    try:
        found = unpacked(folder / name)
    except UserError as error:
        assert str(error).startswith(f"{folder / name}: ")
        assert "\n" not in str(error)
    else:
        assert found.exists()
    assert sorted(it.name for it in folder.iterdir()) == [name]


def _hurt(data: st.DataObject, raw: bytes) -> bytes:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw)))
        gone = data.draw(st.integers(0, 4))
        new = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"../", b"\xff" * 8, b"9" * 11, b"S", b"x", b"L", b"2"])
        )
        raw = raw[:start] + new + raw[start + gone :]
    return raw


def test_zeros_after_the_end_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "SMALL", 1_000_000)
    monkeypatch.setattr(unpacking, "GROWTH", 100)
    tar = gzip.decompress(tarred(tmp_path / "a.tgz", {"a.txt": b"x"}).read_bytes())
    (tmp_path / "a.tgz").write_bytes(gzip.compress(tar + b"\0" * 20_000_000))
    assert "100 times as large" in refusal(tmp_path / "a.tgz")


def test_a_zip_that_lies_about_sizes_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.txt": b"one" * 1_000})
    raw = bytearray(path.read_bytes())
    for signature, place_ in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", raw, raw.index(signature) + place_, 10)
    path.write_bytes(raw)
    assert "damaged" in refusal(path)
