"""Splits that are missing, or have no labels: they are passed over, which is told, and carved from train."""

import json
from pathlib import Path

import pytest

from fedrel.corpus.splits import unlabelled_splits
from fedrel.data.inspection import inspect
from tests.instances import row, sentences, write
from tests.labelled_examples import (
    bere,
    chemprot,
    classification,
    fewrel,
    json_documents,
    semeval,
    tacred,
    write_bionlp,
    write_i2b2,
)
from tests.loading import all_of, load, part, public, refusal

CARVED = "no test sentences given: one {} in 10 was carved from train for test"


def docred(mark: str, count: int, *, labels: bool = True) -> str:
    rows = []
    for n in range(count):
        mentions = [("Ann", 0, "PER"), ("Bonn", 2, "LOC")]
        vertices = [[{"name": name, "sent_id": 0, "pos": [at, at + 1], "type": it}] for name, at, it in mentions]
        found = {"title": f"{mark}{n}", "sents": [["Ann", "left", "Bonn", mark, str(n)]], "vertexSet": vertices}
        stated = [{"h": 0, "t": 1, "r": "P19", "evidence": [0]}] if n % 2 else []
        rows.append(found | ({"labels": stated} if labels else {}))
    return json.dumps(rows)


def tell_apart(folder: Path) -> None:
    """Texts that differ, as documents go by their text."""
    for number, file in enumerate(sorted(folder.rglob("*.txt"))):
        file.write_text(f"{file.read_text()}\nThat was on day {number} .\n")


def sizes(dataset) -> dict[str, int]:
    return {name: len(found) for name, found in all_of(dataset).items()}


def test_docred_as_published_has_a_test_without_labels(tmp_path):
    (tmp_path / "train_annotated.json").write_text(docred("train", 80))
    (tmp_path / "train_distant.json").write_text(docred("far", 2))
    (tmp_path / "dev.json").write_text(docred("dev", 6))
    (tmp_path / "test.json").write_text(docred("test", 6, labels=False))
    dataset, _ = load(tmp_path, source="docred")
    assert dataset.notes == ["test.json was passed over for test: it has no labels", CARVED.format("document")]
    found = sizes(dataset)
    assert found["dev"] == 6
    assert found["train"] + found["test"] == 80
    assert 2 <= found["test"] <= 20
    report = inspect(tmp_path)
    assert report.notes == dataset.notes
    assert report.passed_over == ["test.json", "train_distant.json"]
    assert report.parts["test"].path is None
    assert report.parts["test"].counts["sentences"] == found["test"]
    assert "rows" not in report.parts["test"].counts


def test_another_name_of_what_was_passed_over_makes_other_notes(tmp_path):
    (tmp_path / "train.json").write_text(docred("other", 60))
    (tmp_path / "dev.json").write_text(docred("other dev", 6))
    (tmp_path / "test.json").write_text(docred("other test", 6, labels=False))
    load(tmp_path, source="docred")
    (tmp_path / "test.json").rename(tmp_path / "my_test.json")
    assert load(tmp_path, source="docred")[0].notes[0] == "my_test.json was passed over for test: it has no labels"
    (tmp_path / "my_test.json").unlink()
    assert load(tmp_path, source="docred")[0].notes == [CARVED.format("document")]


def test_train_and_val_alone_as_wiki80_comes(tmp_path):
    write(tmp_path / "wiki80_train.txt", sentences(100, prefix="a"))
    write(tmp_path / "wiki80_val.txt", sentences(6, prefix="b"))
    dataset, _ = load(tmp_path)
    assert dataset.notes == [CARVED.format("pair")]
    assert all_of(dataset)["dev"] == sentences(6, prefix="b")
    assert sizes(dataset)["train"] + sizes(dataset)["test"] == 200
    assert inspect(tmp_path).advice[0].startswith("no pair is in both train and test: it runs, and the warnings say")


def test_a_dev_of_other_relations_as_fewrel_has_it_is_passed_over(tmp_path):
    (tmp_path / "train_wiki.json").write_text(fewrel("a", 100))
    (tmp_path / "val_wiki.json").write_text(fewrel("b", 10).replace("P19", "P99"))
    dataset, _ = load(tmp_path, source="fewrel")
    strange = "none of the relations of dev is in train: no model can find them"
    assert dataset.notes[:2] == [strange, "dev was passed over for that"]
    assert dataset.relations == ["NA", "P19"]
    assert sum(sizes(dataset).values()) == 100
    report = inspect(tmp_path)
    assert report.passed_over == ["val_wiki.json"]
    assert report.parts["dev"].path is None
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "train_wiki.json").write_text(fewrel("small", 2))
    for split in ("val", "test"):
        (tmp_path / "few" / f"{split}_wiki.json").write_text(fewrel(split, 4).replace("P19", f"P{len(split)}"))
    small, _ = load(tmp_path / "few", source="fewrel")
    assert (sizes(small)["dev"], small.passed_over) == (4, []), "too little to carve it from"
    (tmp_path / "test_wiki.json").write_text(fewrel("c", 4).replace("P19", "P98"))
    assert "none of the relations of test is in train: no model can find them" in load(tmp_path, source="fewrel")[1]


def test_a_relation_of_dev_may_come_late_in_train(tmp_path):
    write(tmp_path / "train.jsonl", sentences(700, prefix="late"))
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write(row(relation="rare") + "\n")
    (tmp_path / "dev.jsonl").write_text(row(relation="rare") + "\n")
    write(tmp_path / "test.jsonl", sentences(6, prefix="latetest"))
    dataset, _ = load(tmp_path)
    assert (dataset.notes, sizes(dataset)["dev"]) == ([], 1)


def test_bionlp_test_data_come_without_answers(tmp_path):
    write_bionlp(tmp_path, 60)
    tell_apart(tmp_path)
    for file in (tmp_path / "test").glob("*.a2"):
        file.unlink()
    dataset, _ = load(tmp_path, source="bionlp")
    assert dataset.notes[:2] == ["test was passed over for test: it has no labels", CARVED.format("document")]
    assert sizes(dataset)["dev"] == 60
    assert sizes(dataset)["train"] + sizes(dataset)["test"] == 60
    assert len(inspect(tmp_path).passed_over) == 120


def test_i2b2_test_data_come_without_relations(tmp_path):
    write_i2b2(tmp_path, 60)
    tell_apart(tmp_path)
    for file in (tmp_path / "test" / "rel").iterdir():
        file.unlink()
    assert load(tmp_path, source="i2b2")[0].notes[0] == "test was passed over for test: it has no labels"


@pytest.mark.parametrize(("source", "make"), [("tacred", tacred), ("bere", bere)])
def test_rows_without_a_relation_are_passed_over_as_a_whole(tmp_path, source, make):
    for split, count in (("train", 100), ("dev", 6)):
        (tmp_path / f"{split}.json").write_text(make(split, count))
    bare = [{key: value for key, value in it.items() if key != "relation"} for it in json.loads(make("test", 6))]
    (tmp_path / "test.json").write_text(json.dumps(bare))
    assert "test.json was passed over for test: it has no labels" in load(tmp_path, source=source)[0].notes
    (tmp_path / "test.json").write_text(json.dumps([*bare, *json.loads(make("test", 1))]))
    assert '"relation" is missing' in refusal(tmp_path, source=source)


def test_of_two_files_for_test_the_one_with_labels_is_it(tmp_path):
    for name, mark in (("training", "train"), ("dev", "dev"), ("test_gs", "test"), ("test", "test")):
        for kind, content in chemprot(mark, 40).items():
            if (name, kind) != ("test", "gold_standard"):
                (tmp_path / f"chemprot_{name}_{kind}.tsv").write_text(content)
    report = inspect(tmp_path)
    assert report.parts["test"].path == f"{tmp_path}/chemprot_test_gs_abstracts.tsv"
    assert report.passed_over == ["chemprot_test_abstracts.tsv", "chemprot_test_entities.tsv"]
    for file in tmp_path.glob("*_gs_*"):
        file.unlink()
    assert unlabelled_splits(tmp_path, "chemprot") == {"test": tmp_path / "chemprot_test_abstracts.tsv"}


def test_semeval_without_the_key_to_its_test(tmp_path):
    (tmp_path / "TRAIN_FILE.TXT").write_text(semeval("train", 100))
    bare = "".join(line + "\n" for line in semeval("test", 4).split("\n") if "<e1>" in line)
    (tmp_path / "TEST_FILE.TXT").write_text(bare)
    assert inspect(tmp_path).notes[0] == "TEST_FILE.TXT was passed over for test: it has no labels"


def test_texts_to_be_predicted_as_glue_has_them(tmp_path):
    (tmp_path / "train.tsv").write_text(classification("train", 100))
    (tmp_path / "dev.tsv").write_text(classification("dev", 10))
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\ta fine film\n")
    report = inspect(tmp_path)
    assert list(report.parts) == ["train", "dev"]
    assert report.passed_over == ["test.tsv"]
    assert report.notes[0] == "test.tsv was passed over for test: it has no labels"
    assert "it runs, and the warnings say what not to trust" in report.advice[0]


def test_documents_that_nobody_labelled_are_all_read(tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text('{"text": "We met."}\n')
    report = inspect(tmp_path)
    assert (report.kind, report.parts["all"].counts["documents"], report.passed_over) == ("documents", 2, [])


def test_a_damaged_split_is_not_taken_for_one_without_labels(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text(json_documents(split, 60))
    (tmp_path / "test.jsonl").write_text("{\n")
    assert refusal(tmp_path, source="jsonl").startswith(f"{tmp_path}/test.jsonl:1: not a JSON object")


def test_parties_of_a_federation_hold_out_instead(tmp_path):
    for place in ("a", "coordinator"):
        write(tmp_path / place / "train.jsonl", sentences(60, prefix=place))
        (tmp_path / place / "test.jsonl").write_text(row(relation=None) + "\n")
    dataset, _ = load(tmp_path)
    assert [it for it in dataset.notes if "passed over" in it] == [
        f"{place}/test.jsonl was passed over for test: it has no labels" for place in ("a", "coordinator")
    ]
    assert dataset.held_out["test"]["a"] == len(dataset.test) > 0
    alone = part(tmp_path / "a", "r0", "r2", held_out=("test",))
    assert len(alone.test) == len(dataset.test)
    assert alone.notes[0] == "test.jsonl was passed over for test: it has no labels"
    assert public(tmp_path / "coordinator", "r0", "r2").notes == alone.notes[:1]
