"""`fedrel data check`: what a person reads, what a machine reads, and one sentence for every mistake."""

import json
import shutil

import pytest

from tests.instances import sentences, write
from tests.labelled_examples import WRITERS, classification, pgr_row


def lines(outcome):
    assert outcome.code == 0, outcome
    return outcome.out.splitlines()


def test_the_format_is_detected_and_told_with_the_reason(fedrel, tmp_path):
    WRITERS["nyt10"](tmp_path, 4)
    told = lines(fedrel("data", "check", tmp_path))
    assert told[0] == f"{tmp_path}: nyt10 (train.txt: 7 columns between tabs, ###END###)"
    assert told[-1] == f"fedrel run --set data.source=nyt10 --set data.path={tmp_path}"
    named = lines(fedrel("data", "check", tmp_path, "--source", "nyt10"))
    assert named[0] == f"{tmp_path}: nyt10 (as told with --source)"
    assert named[1:] == told[1:]


def test_the_line_to_run_next_runs(fedrel, tmp_path):
    WRITERS["chemprot"](tmp_path, 6)
    command = lines(fedrel("data", "check", tmp_path))[-1].split()
    small = ["training.rounds=1", "partition.platforms=2", "extractor.filters=4", "extractor.min_count=1"]
    more = [part for setting in small for part in ("--set", setting)]
    assert fedrel(*command[1:], *more, "--out", tmp_path / "r").code == 0


@pytest.mark.parametrize("source", WRITERS)
def test_json_has_all_of_it(fedrel, tmp_path, source):
    WRITERS[source](tmp_path, 4)
    found = json.loads(fedrel("data", "check", tmp_path, "--json").out)
    assert set(found) == {
        *("path", "format", "why", "kind", "splits", "shared_pairs", "shared_rows", "overlap", "suspicious"),
        *("shared_rows_first", "shared_sentences", "skipped", "passed_over", "files", "notes", "too_little", "next"),
    }
    assert found["format"] == source
    assert set(found["splits"]) == {"train", "dev", "test"}
    test = found["splits"]["test"]
    assert test["sentences"] == sum(test["sentences_per_relation"].values())
    assert test["pairs"] == sum(test["bag_sizes"].values())


def test_odd_rows_and_rows_left_out_are_shown(fedrel, tmp_path):
    WRITERS["pgr"](tmp_path, 4)
    with (tmp_path / "train.tsv").open("a") as file:
        row = pgr_row("A [b] is in gout .", "[b]", "gout")
        file.write(row * 7 + pgr_row("It is in gout .", "GHOST", "gout", GENE_START_POSITION=0))
    told = lines(fedrel("data", "check", tmp_path))
    file = tmp_path / "train.tsv"
    assert "train: 1 row left out: the gene is not in the sentence" in told
    assert f"  {file}:13: the gene is not in the sentence" in told
    place = told.index("duplicate rows: 6")
    assert told[place + 1] == f"  {file}:7: the same as {file}:6"
    assert told[place + 6] == "  and 1 more"


def test_overlap_is_told_and_is_no_failure(fedrel, tmp_path):
    for name in ("train", "dev", "test"):
        write(tmp_path / f"{name}.jsonl", sentences(4, prefix="" if name != "dev" else name))
    told = lines(fedrel("data", "check", tmp_path))
    assert "pairs in both of two splits: train-dev 0, train-test 4, dev-test 0" in told
    assert any(line.startswith("4 pairs are in both train and test: `fedrel run` wants data.allow_ov") for line in told)
    assert told[-1].endswith("--set data.allow_overlap=true")


def test_texts_and_documents_and_folds(fedrel, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("We met. It was late.")
    assert lines(fedrel("data", "check", tmp_path / "texts"))[-1] == (
        f"fedrel label --kb KB --text {tmp_path}/texts --out FOLDER"
    )
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "train.tsv").write_text(classification("x"))
    assert "extractor.kind=text" in lines(fedrel("data", "check", tmp_path / "labels"))[-1]
    for fold in ("1", "2"):
        (tmp_path / "folds" / fold).mkdir(parents=True)
        WRITERS["biobert"](tmp_path / "folds" / fold, 4)
    told = lines(fedrel("data", "check", tmp_path / "folds"))
    assert told[-2:] == [
        "a folder of 2 folds; each is a data set of its own. Name one:",
        f"fedrel data check {tmp_path}/folds/1",
    ]


def test_files_that_were_passed_over_are_named(fedrel, tmp_path):
    WRITERS["opennre"](tmp_path, 4)
    (tmp_path / "notes.md").write_text("We met.")
    assert "1 file was passed over: notes.md" in lines(fedrel("data", "check", tmp_path))
    for number in range(30):
        (tmp_path / f"{number:02}.md").write_text("x")
    told = next(line for line in lines(fedrel("data", "check", tmp_path)) if "passed over" in line)
    assert told.startswith("31 files were passed over: 00.md, 01.md, ")
    assert told.endswith("19.md, …")


def test_every_file_of_a_folder_of_text_is_in_a_table(fedrel, tmp_path):
    for name in ("b.txt", "a.pdf", "c.csv", "d.md", "README.md"):
        (tmp_path / name).write_text("We met. It was late.")
    told = fedrel("data", "check", tmp_path).out
    for line in ("5 files", "│ read          │     2 │", "│ skipped: .csv │     1 │ c.csv ", "1 │ a.pdf: not a PDF"):
        assert line in told
    assert "passed over" not in told
    assert "left out:" not in told


def test_mistakes_are_one_sentence_and_exit_code_2(refused, tmp_path):
    (tmp_path / "odd.bin").write_bytes(b"\x00\xff")
    (tmp_path / "odd.tsv").write_text("x\ty\tz\n")
    (tmp_path / "empty").mkdir()
    assert refused("data", "check", "odd.bin") == "odd.bin:1: not UTF-8 text; convert the file to UTF-8"
    assert refused("data", "check", "odd.tsv").startswith(
        "odd.tsv: in no format that is known here; its first record is x y z; nearest is table, which needs"
    )
    assert refused("data", "check", "empty") == "empty: no file in this folder"
    assert "File name too long" in refused("data", "check", "x" * 5000)
    for source in WRITERS:
        assert refused("data", "check", "odd.tsv", "--source", source)


def test_rows_in_two_splits_are_named(fedrel, tmp_path):
    WRITERS["tacred"](tmp_path, 7)
    train, test = tmp_path / "train.json", tmp_path / "test.json"
    test.write_text(train.read_text())
    told = lines(fedrel("data", "check", tmp_path))
    place = told.index("rows in both of two splits: train-dev 0, train-test 7, dev-test 0")
    assert told[place + 1] == f"  {test}:1, row 1: also in {train}:1, row 1"
    assert told[place + 6] == "  and 2 more"
    assert "duplicate rows: 7" in told
    found = json.loads(fedrel("data", "check", tmp_path, "--json").out)
    assert [len(it) for it in found["shared_rows_first"].values()] == [5]


def test_places_in_an_archive_are_named_as_the_user_would(fedrel, tmp_path):
    """Of what was left out, of duplicates, and in a refusal; not by where it was unpacked."""
    (tmp_path / "data").mkdir()
    WRITERS["nyt10"](tmp_path / "data", 200)
    train = (tmp_path / "data/train.txt").read_text().splitlines(keepends=True)
    (tmp_path / "data/train.txt").write_text("".join([*train, train[0], "broken\n"]))
    archive = shutil.make_archive(str(tmp_path / "corpus"), "zip", tmp_path / "data")
    found = json.loads(fedrel("data", "check", archive, "--json").out)
    assert found["skipped"]["first"][0].startswith(f"{archive}/train.txt:202: ")
    assert found["suspicious"]["duplicate rows"]["first"] == [
        f"{archive}/train.txt:201: the same as {archive}/train.txt:1"
    ]
    assert (
        fedrel("data", "check", archive, "--strict")
        .err.splitlines()[-1]
        .startswith(f"fedrel: {archive}/train.txt:202: ")
    )


def test_an_empty_train_beside_labelled_splits_is_a_mistake_and_no_plain_text(refused, tmp_path):
    WRITERS["spert"](tmp_path, 4)
    (tmp_path / "made_train.json").write_text("")
    assert refused("data", "check", tmp_path).endswith("train.json: no sentences; train needs at least one")


def test_a_line_that_is_not_utf8_is_a_broken_row_wherever_it_stands(fedrel, tmp_path):
    WRITERS["nyt10"](tmp_path, 200)
    rows = (tmp_path / "train.txt").read_bytes().splitlines(keepends=True)
    for place in (0, 150):
        broken = [*rows]
        broken[place] = broken[place].replace(b" ", b" \xe9", 1)
        (tmp_path / "train.txt").write_bytes(b"".join(broken))
        found = json.loads(fedrel("data", "check", tmp_path, "--json").out)
        assert found["skipped"]["reasons"] == {"not UTF-8 text; convert the file to UTF-8": 1}


def test_triples_in_an_unknown_layout_are_not_taken_for_plain_text(refused, fedrel, tmp_path):
    row = {"text": "Ann Lee wrote a book on Bonn .", "spo_list": [{"subject": "Ann Lee", "object": {"@value": "Bonn"}}]}
    (tmp_path / "train.json").write_text(json.dumps(row) + "\n")
    assert 'which would leave out "spo_list" (--source jsonl reads it so)' in refused("data", "check", tmp_path)
    words = {"text": row["text"], "keywords": ["Ann Lee", "Bonn"]}
    (tmp_path / "train.json").write_text(json.dumps(words) + "\n")
    assert fedrel("data", "check", tmp_path).code == 0
