"""What is said about a folder of platforms: who holds what, what is held out, who cannot take part."""

import json
import shutil

import pytest

from fedrel.corpus import NA
from fedrel.data.inspection import inspect
from fedrel.data.partition import one_after_another
from fedrel.errors import UserError
from tests.instances import sentences, write
from tests.labelled_examples import classification, write_brat, write_i2b2
from tests.loading import load, refusal


def test_every_platform_is_counted(tmp_path):
    write(tmp_path / "b" / "train.jsonl", [*sentences(4, prefix="same"), *sentences(2, prefix="b", each=1)])
    write(tmp_path / "a" / "train.jsonl", sentences(4, prefix="same"))
    for split in ("dev", "test"):
        write(tmp_path / "coordinator" / f"{split}.jsonl", sentences(3, prefix=split))
    write(tmp_path / "notes" / "readme.txt", [])
    report = inspect(tmp_path)
    assert (report.kind, report.format, list(report.parts)) == ("platforms", "opennre", ["a", "b", "coordinator"])
    names = ("rows", "left_out", "sentences", "pairs", "facts", "relations")
    assert report.parts["a"].counts == dict(zip(names, (8, 0, 8, 4, 2, 2), strict=True)) | {"dev": 0, "test": 0}
    assert report.parts["b"].counts == dict(zip(names, (10, 0, 10, 6, 3, 2), strict=True)) | {"dev": 0, "test": 0}
    assert report.parts["coordinator"].counts == {"dev": 6, "test": 6}
    assert report.parts["b"].labels == {NA: 5, "r0": 3, "r2": 2}
    assert report.parts["a"].path == f"{tmp_path}/a"
    assert report.notes == ["2 of the 3 facts of train are in more than one folder"]
    assert report.passed_over == ["notes/readme.txt"]
    assert report.shared_pairs == {"train-dev": 0, "train-test": 0, "dev-test": 0}
    assert report.advice == [
        "no pair is in both train and test: it runs, and the warnings say what not to trust.",
        f"fedrel run --set data.source=opennre --set data.path={tmp_path} --set partition.kind=folder",
    ]
    assert json.loads(json.dumps(report.as_json()))["splits"]["a"]["sentences_per_relation"] == {
        NA: 4,
        "r0": 2,
        "r2": 2,
    }


def test_what_is_held_out_at_home_is_counted_by_platform(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name / "train.jsonl", sentences(60, prefix=name))
    write(tmp_path / "coordinator" / "test.jsonl", sentences(4, prefix="test"))
    report = inspect(tmp_path)
    dataset, _ = load(tmp_path)
    for name in ("a", "b"):
        counts = report.parts[name].counts
        assert counts["rows"] == 120
        assert counts["sentences"] == dataset.held[name] == len(one_after_another(dataset.held)[name])
        assert counts["dev"] == dataset.held_out["dev"][name] == 120 - counts["sentences"] > 0
        assert counts["test"] == 0
    assert report.parts["coordinator"].counts == {"dev": 0, "test": 8}


def test_documents_and_texts_of_platforms(tmp_path):
    for name in ("a", "coordinator"):
        (tmp_path / "documents" / name).mkdir(parents=True)
        write_brat(tmp_path / "documents" / name, 4)
    report = inspect(tmp_path / "documents")
    assert (report.format, report.parts["a"].counts["documents"]) == ("brat", 4)
    assert report.parts["coordinator"].counts["test"] == 4
    for name in ("a", "coordinator"):
        (tmp_path / "texts" / name).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            (tmp_path / "texts" / name / f"{split}.tsv").write_text(classification(f"{name} {split}", 6))
    report = inspect(tmp_path / "texts")
    assert (report.format, report.parts["a"].labels) == ("classification", {"0": 3, "1": 3})
    assert report.advice[-1].endswith("partition.kind=folder --set extractor.kind=text --set method.name=fedavg")


def test_the_line_to_run_next_runs(fedrel, tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name / "train.jsonl", sentences(8, prefix=name))
    for split in ("dev", "test"):
        write(tmp_path / "coordinator" / f"{split}.jsonl", sentences(4, prefix=split))
    told = fedrel("data", "check", tmp_path).out.splitlines()
    assert told[2].split() == ["┃", "┃", "a", "┃", "b", "┃", "coordinator", "┃"]
    small = ["training.rounds=1", "extractor.filters=4", "extractor.min_count=1"]
    more = [part for setting in small for part in ("--set", setting)]
    assert fedrel(*told[-1].split()[1:], *more, "--out", tmp_path / "r").code == 0
    assert fedrel("data", "check", tmp_path).code == 0, "the folder of the run is no platform"


def test_many_platforms_have_a_row_each(fedrel, tmp_path):
    for n in range(12):
        write(tmp_path / f"p{n}" / "train.jsonl", sentences(2, prefix=f"p{n}"))
    for split in ("dev", "test"):
        write(tmp_path / "coordinator" / f"{split}.jsonl", sentences(4, prefix=split))
    told = fedrel("data", "check", tmp_path).out.splitlines()
    assert [line.split()[1] for line in told if line.startswith("│ p")] == sorted(f"p{n}" for n in range(12))
    assert any(line.startswith("┃ platform ┃ rows ┃ left out ┃") for line in told[2:4])


# ------------------------------------------------------------------------------- who cannot take part


@pytest.mark.parametrize("name", ["train.csv", "train.parquet", "records.csv", "sub/train.xlsx.csv", "my_train.xml"])
def test_a_platform_whose_file_is_of_another_kind_is_named(tmp_path, name):
    write(tmp_path / "a" / "train.jsonl", sentences(4, prefix="a"))
    write(tmp_path / "coordinator" / "dev.jsonl", sentences(4, prefix="dev"))
    write(tmp_path / "coordinator" / "test.jsonl", sentences(4, prefix="test"))
    write(tmp_path / "c" / name, [])
    if "/" in name:  # no training file, and nothing beside it
        assert load(tmp_path)[0].held == {"a": 8}
        return
    expected = (
        f'{tmp_path}/c: no training file in the format "opennre" in the folder of this platform, which holds {name}; '
        "expected train.jsonl, train.json, train.txt, train.tsv or the like, or move the folder away"
    )
    assert refusal(tmp_path) == expected
    with pytest.raises(UserError) as caught:
        inspect(tmp_path)
    assert str(caught.value) == expected


def test_documents_of_a_platform_may_lie_in_folders_of_their_kind(tmp_path):
    write_i2b2(tmp_path / "coordinator", 4)
    shutil.move(tmp_path / "coordinator" / "train", tmp_path / "a")
    assert load(tmp_path, source="i2b2")[0].held == {"a": 4}
