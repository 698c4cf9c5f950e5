"""Splits some folders down, in archives too, and what is said where they cannot be found."""

import bz2
import gzip
import io
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from fedrel.config import Data
from fedrel.corpus.archives import unpacked
from fedrel.corpus.detection import detect
from fedrel.corpus.documents import Documents
from fedrel.corpus.splits import find_splits, passed_over
from fedrel.data.inspection import inspect
from fedrel.data.loading import load
from fedrel.errors import UserError
from tests.documents import place
from tests.labelled_examples import WRITERS, dygie, tacred, write_brat, write_i2b2

SPLITS = ("train", "dev", "test")


def tacred_release(folder: Path) -> Path:
    """As the LDC ships it: three formats side by side, and what belongs to them."""
    for split in SPLITS:
        conll = "# id=e1\n1\tAnn\tSUBJECT\tPERSON\n"
        place(folder, {f"data/json/{split}.json": tacred(split, 4), f"data/conll/{split}.conll": conll})
        place(folder, {f"data/gold/{split}.gold": "no_relation\n"})
    return place(folder, {"tools/score.py": "print()", "docs/README": "Read me.", "index.html": "<p>"})


def zipped(path: Path, folder: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(it for it in folder.rglob("*") if it.is_file()):
            archive.write(file, file.relative_to(folder))
    return path


def tarred(path: Path, folder: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted(it for it in folder.rglob("*") if it.is_file()):
            info = tarfile.TarInfo(str(file.relative_to(folder)))
            info.size = file.stat().st_size
            archive.addfile(info, io.BytesIO(file.read_bytes()))
    return path


def refusal(path: Path, source: str | None = None) -> str:
    with pytest.raises(UserError) as caught:
        inspect(path, source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------------------------------ folders


@pytest.mark.parametrize("pack", [None, zipped, tarred])
def test_the_release_of_tacred_is_found_from_its_root(tmp_path, pack):
    root = tacred_release(tmp_path / "tacred")
    path = pack(tmp_path / {zipped: "t.zip", tarred: "t.tar.gz"}[pack], tmp_path / "tacred") if pack else root
    report = inspect(path)
    assert (report.format, report.kind) == ("tacred", "labelled sentences")
    assert [part.counts["rows"] for part in report.parts.values()] == [4, 4, 4]
    assert report.parts["dev"].path == f"{path}/data/json/dev.json"
    assert {"data/conll/dev.conll", "data/gold/test.gold", "index.html"} <= set(report.passed_over)
    assert report.advice[-1] == f"fedrel run --set data.source=tacred --set data.path={path}"
    assert len(load(Data(source="tacred", path=str(path))).test) == 4


def test_the_archive_of_scierc_is_found_two_folders_down(tmp_path):
    for split in SPLITS:
        place(tmp_path / "s", {f"processed_data/json/{split}.json": dygie(split, 4)})
        place(tmp_path / "s", {f"processed_data/elmo/{split}.hdf5": b"\x00\x01"})
    path = tarred(tmp_path / "sciERC_processed.tar.gz", tmp_path / "s")
    report = inspect(path)
    assert report.format == "dygie"
    assert report.parts["test"].path == f"{path}/processed_data/json/test.json"
    assert inspect(tmp_path / "s").parts["test"].counts == report.parts["test"].counts


def test_of_two_folders_with_splits_the_one_that_is_in_the_format_counts(tmp_path):
    for split in SPLITS:
        place(tmp_path, {f"a/json/{split}.json": dygie(split, 4), f"b/{split}.json": tacred(split, 4)})
    assert find_splits(tmp_path, "tacred")["train"] == tmp_path / "b" / "train.json"
    assert find_splits(tmp_path, "dygie")["train"] == tmp_path / "a" / "json" / "train.json"
    assert "several data sets are in this folder; name one of them: a (dygie), b (tacred)" in refusal(tmp_path)


def test_several_folders_with_splits_are_named(tmp_path):
    for name in ("one", "other"):
        (tmp_path / "x" / name).mkdir(parents=True)
        write_brat(tmp_path / "x" / name, 2)
    (tmp_path / "y.txt").write_text("")
    expected = f"{tmp_path}: 2 folders in it hold splits; name one of them: {tmp_path}/x/one, {tmp_path}/x/other"
    assert refusal(tmp_path, "brat") == expected
    shutil.rmtree(tmp_path / "x" / "other" / "train")
    assert find_splits(tmp_path, "brat")["dev"] == tmp_path / "x" / "one" / "dev"


def test_a_single_training_file_further_down_is_not_enough(tmp_path):
    place(tmp_path, {"a/train.json": tacred("x", 4), "b/x.txt": "We met."})
    with pytest.raises(UserError, match=r"no training file; a folder in it has one: name .*/a$"):
        find_splits(tmp_path, "tacred")


# ------------------------------------------------------------------------------- folders in archives


@pytest.mark.parametrize("inner", ["top/two", "two", "two/train.json"])
def test_a_folder_or_file_in_an_archive_can_be_named(tmp_path, inner):
    for split in SPLITS:
        place(tmp_path / "d", {f"top/one/{split}.json": tacred(split, 4), f"top/two/{split}.json": tacred(split, 60)})
    path = zipped(tmp_path / "d.zip", tmp_path / "d")
    report = inspect(path / inner)
    assert (report.path, report.format) == (str(path / inner), "tacred")
    assert report.parts["train"].counts["rows"] == 60
    assert report.advice[-1].endswith(f"data.path={path / inner}")
    assert load(Data(source="tacred", path=str(path / inner))).folder
    assert inspect(path).advice[-1] == f"fedrel data check {path}/top/one"
    with pytest.raises(UserError, match=rf"have one: name one of them, such as {path}/top/one$"):
        load(Data(source="tacred", path=str(path)))


def test_documents_in_an_archive_can_be_named_too(tmp_path):
    place(tmp_path / "d", {"a/1.txt": "We met.", "b/2.txt": "It was late."})
    path = zipped(tmp_path / "d.zip", tmp_path / "d")
    assert [it.text for it in Documents(path / "b")] == ["It was late."]


def test_what_is_not_in_an_archive_is_told_with_what_is(tmp_path):
    place(tmp_path / "d", {"a/1.txt": "We met.", "2.txt": "It was late."})
    path = zipped(tmp_path / "d.zip", tmp_path / "d")
    assert refusal(path / "c" / "d") == f"{path}: there is no c/d in this archive; it holds 2.txt, a/"
    with pytest.raises(UserError, match=r"there is no a/\.\./\.\./x in this archive"):
        unpacked(Path(f"{path}/a/../../x"))
    assert refusal(tmp_path / "none.zip" / "a") == f"{tmp_path}/none.zip/a: no such file or folder"


# ----------------------------------------------------------------------------------- what stays packed


@pytest.mark.parametrize("source", [None, "tacred"])
def test_archives_within_an_archive_are_named(tmp_path, source):
    for split in SPLITS:
        place(tmp_path / split, {f"{split}.json": tacred(split, 4)})
        (tmp_path / "all").mkdir(exist_ok=True)
        zipped(tmp_path / "all" / f"{split}.zip", tmp_path / split)
    path = zipped(tmp_path / "all.zip", tmp_path / "all")
    assert refusal(path, source) == (
        f"{path}/dev.zip: packed within an archive, where nothing is unpacked again; unpack {path} yourself, and name "
        "the folder"
    )
    assert refusal(path / "train.zip", source).startswith(f"{path}/train.zip: packed within an archive")


@pytest.mark.parametrize("source", [None, "tacred"])
def test_a_split_that_cannot_be_unpacked_is_named(tmp_path, source):
    place(tmp_path, {"train.json.bz2": bz2.compress(tacred("x", 4).encode())})
    why = "packed in a way that is not read here; unpack it, or pack it as .gz, .zip or .tar.gz"
    assert refusal(tmp_path, source) == f"{tmp_path}/train.json.bz2: {why}"
    place(tmp_path, {"train.json": tacred("x", 60), "test.tar.bz2": b"x", "notes.json.xz": b"x"})
    assert refusal(tmp_path, source) == f"{tmp_path}/test.tar.bz2: {why}"
    (tmp_path / "test.tar.bz2").unlink()
    assert inspect(tmp_path, source).passed_over == ["notes.json.xz", "train.json.bz2"]


def test_splits_that_are_packed_far_down_are_named(tmp_path):
    for split in SPLITS:
        place(tmp_path, {f"a/b/c/{split}.json.gz": gzip.compress(tacred(split, 4).encode())})
    assert refusal(tmp_path) == (
        f"{tmp_path}/a/b/c/dev.json.gz: packed, and too far down to be unpacked; unpack it, or name its folder"
    )
    assert inspect(tmp_path / "a").format == "tacred"


def test_packed_splits_are_named_as_the_user_does(tmp_path):
    for name in ("one", "other"):
        for split in SPLITS:
            place(tmp_path / "d", {f"{name}/{split}.json.gz": gzip.compress(tacred(name + split, 4).encode())})
    place(tmp_path / "d", {"notes.json": "{}"})
    with pytest.raises(UserError) as caught:
        load(Data(source="tacred", path=str(tmp_path / "d")))
    assert str(caught.value) == (
        f"{tmp_path}/d: no training file; 2 folders in it have one: name one of them, such as {tmp_path}/d/one"
    )
    shutil.rmtree(tmp_path / "d" / "other")
    report = inspect(tmp_path / "d")
    assert report.parts["train"].path == f"{tmp_path}/d/one/train.json.gz"


# ----------------------------------------------------------------------------------------------- i2b2


def i2b2_release(folder: Path) -> Path:
    """As published: train of two hospitals, the records of test in one folder and what is marked in them in another."""
    write_i2b2(folder / "x", 4)
    for hospital in ("beth", "partners"):
        train = folder / "concept_assertion_relation_training_data" / hospital
        shutil.copytree(folder / "x" / "train", train)
        for file in sorted(it for it in train.rglob("*") if it.is_file()):
            file.rename(file.with_name(f"{hospital}-{file.name}"))
    place(folder, {"concept_assertion_relation_training_data/partners/unannotated/9.txt": "Nothing is marked .\n"})
    (folder / "test_data").mkdir()
    for file in (folder / "x" / "test" / "txt").iterdir():
        file.rename(folder / "test_data" / file.name)
    (folder / "x" / "test" / "txt").rmdir()
    (folder / "x" / "test").rename(folder / "reference_standard_for_test_data")
    shutil.copytree(folder / "x" / "dev", folder / "dev")
    shutil.rmtree(folder / "x")
    return folder


@pytest.mark.parametrize("below", ["", "2010/data"])
def test_the_release_of_i2b2(tmp_path, below):
    i2b2_release(tmp_path / below)
    place(tmp_path, {"docs/guide.pdf": "x"})
    assert detect(tmp_path).source == "i2b2"
    report = inspect(tmp_path)
    assert {name: part.counts["documents"] for name, part in report.parts.items()} == {"train": 9, "dev": 4, "test": 4}
    assert report.parts["test"].counts["gold_relations"] == 2
    assert report.passed_over == ["docs/guide.pdf"]


def test_a_record_of_test_belongs_to_the_data(tmp_path):
    i2b2_release(tmp_path)
    data = Data(source="i2b2", path=str(tmp_path))
    before = load(data)
    assert len(before.test) == 4
    file = tmp_path / "test_data" / "test0.txt"
    file.write_text(f"{file.read_text()}It was late .\n")
    assert load(data).folder != before.folder


def test_records_without_a_reference_have_no_labels(tmp_path):
    shutil.rmtree(i2b2_release(tmp_path) / "reference_standard_for_test_data")
    assert sorted(find_splits(tmp_path, "i2b2")) == ["dev", "train"]
    assert set(passed_over(tmp_path, "i2b2", read=find_splits(tmp_path, "i2b2").values())) == {
        f"test_data/test{n}.txt" for n in range(4)
    }


# --------------------------------------------------------------------------- which format a file is in

I2B2_LINE, STANDOFF_LINE = 'c="aspirin" 1:0 1:0||r="TrAP"||c="gout" 1:2 1:2\n', "R1\tPart-Of Arg1:T1 Arg2:T2\n"


@pytest.mark.parametrize(
    ("content", "source"), [(I2B2_LINE, "i2b2"), (f"\n{STANDOFF_LINE}", "bionlp"), ("*\tEquiv T1 T2\n", "bionlp")]
)
def test_a_file_of_relations_is_known_by_its_first_line(tmp_path, content, source):
    place(tmp_path, {"a.rel": content})
    assert detect(tmp_path / "a.rel").source == source
    place(tmp_path, {"a.txt": "Aspirin against gout .\n"})
    assert detect(tmp_path).source == source
    place(tmp_path, {"a.rel": "Ann met Bo\n"})
    assert detect(tmp_path).source == "text"


def test_two_files_of_one_kind_are_told_so(tmp_path):
    place(tmp_path, {"a.json": tacred("a", 4), "b.json": tacred("b", 4)})
    assert refusal(tmp_path) == (
        f"{tmp_path}: 2 files in the format tacred (a.json, b.json), none of them named after a split; name one of "
        "them, or call them train, dev and test"
    )
    place(tmp_path, {"b.json": dygie("b", 4)})
    assert "files of different kinds (a.json, b.json); name one of them" in refusal(tmp_path)


def test_documents_of_one_kind_may_have_two_extensions(tmp_path):
    place(tmp_path, {"a.csv": "id,text\n1,We met.\n", "b.tsv": "id\ttext\n2\tIt was late.\n"})
    report = inspect(tmp_path)
    assert (report.format, report.parts["all"].counts["documents"]) == ("table", 2)
    assert report.why == '2 .csv and .tsv files; a.csv: a table between commas with the column "text"'


@pytest.mark.parametrize("source", WRITERS)
def test_every_format_is_found_two_folders_down(tmp_path, source):
    (tmp_path / "release" / "data").mkdir(parents=True)
    WRITERS[source](tmp_path / "release" / "data", 4)
    place(tmp_path, {"release/doc/notes.md": "x", "release/README": "x"})
    plain, report = inspect(tmp_path / "release" / "data"), inspect(tmp_path)
    assert report.format == source
    assert {name: part.counts for name, part in report.parts.items()} == {
        name: part.counts for name, part in plain.parts.items()
    }


def test_dev_or_test_in_a_folder_of_its_name_beside_train_is_the_split(tmp_path):
    """TPLinker's release: the whole of test, and parts of it, in a folder."""
    row = '[{"text": "Ann saw Bonn .", "triple_list": [["Ann", "saw", "Bonn"]]}]'
    names = ("train_data.json", "valid_data.json", "test_data/test_triples.json", "test_data/test_triples_1.json")
    place(tmp_path, {**dict.fromkeys(names, row), "rel2id.json": '{"saw": 0}'})
    assert find_splits(tmp_path, "triples") == {
        "train": tmp_path / "train_data.json",
        "dev": tmp_path / "valid_data.json",
        "test": tmp_path / "test_data/test_triples.json",
    }
    assert passed_over(tmp_path, "triples") == ("rel2id.json", "test_data/test_triples_1.json")


def test_several_archives_in_a_folder_are_named_as_they_are(tmp_path):
    (tmp_path / "both").mkdir()
    for name, source in (("one", "tacred"), ("two", "dygie")):
        (tmp_path / name).mkdir()
        WRITERS[source](tmp_path / name, 4)
        zipped(tmp_path / "both" / f"{name}.zip", tmp_path / name)
    assert refusal(tmp_path / "both").endswith("name one of them: one.zip (tacred), two.zip (dygie)")
