"""Every format with labels: which of its files is which split, and what is told of what was left out."""

from pathlib import Path

import pytest

from fedrel.config import Data
from fedrel.corpus import NA
from fedrel.corpus.splits import find_splits
from fedrel.data import loading
from tests.labelled_examples import WRITERS, chemprot, pgr_row, write_brat
from tests.loading import all_of, load, refusal


@pytest.mark.parametrize("source", WRITERS)
def test_every_format_with_labels_is_loaded_and_kept(tmp_path, source, monkeypatch):
    monkeypatch.setenv("FEDREL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "d"
    folder.mkdir()
    WRITERS[source](folder, 4)
    dataset, told = load(folder, source=source)
    assert told[0] == f"reading {folder} …"
    again, told_again = load(folder, source=source)
    assert (again.folder, told_again) == (dataset.folder, dataset.notes)
    assert dataset.meta["overlap"] == 0
    carved = source == "biobert"  # its dev file is empty, as published
    notes = [it for it in dataset.notes if "taken to mean no relation" not in it]
    assert bool(notes) == carved
    for name, found in all_of(dataset).items():
        assert len(found) == (8 if source == "chemprot" else 4) or (carved and name != "test")
        assert {it.relation for it in found} > {NA}


def test_a_change_in_any_file_of_a_split_is_another_data_set(tmp_path):
    for source in ("chemprot", "brat", "i2b2"):
        (tmp_path / source).mkdir()
        WRITERS[source](tmp_path / source, 4)
        seen = {load(tmp_path / source, source=source)[0].folder}
        relations = next(it for it in sorted((tmp_path / source).rglob("*")) if _holds_relations(it))
        relations.write_text("".join(relations.read_text().splitlines(keepends=True)[:-1]))
        seen.add(load(tmp_path / source, source=source)[0].folder)
        assert len(seen) == 2, source
        assert loading.fingerprint(Data(source=source, path=str(tmp_path / source)))


def _holds_relations(path: Path) -> bool:
    return path.is_file() and any(mark in path.read_text() for mark in ("Arg1:", "r="))


def test_the_same_folders_elsewhere_are_the_same_data_set(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_brat(tmp_path / name, 4)
    assert load(tmp_path / "one", source="brat")[0].folder == load(tmp_path / "other", source="brat")[0].folder


def test_documents_without_splits_are_split_by_document(tmp_path):
    write_brat(tmp_path, 60)
    dataset, told = load(tmp_path / "train", source="brat")
    assert sum("carved from train" in line for line in told) == 2
    assert sum(len(found) for found in all_of(dataset).values()) == 60


@pytest.mark.parametrize(
    "names",
    [
        ("chemprot_training_abstracts.tsv", "chemprot_development_abstracts.tsv", "chemprot_test_gs_abstracts.tsv"),
        ("a/chemprot_training_abstracts.tsv", "b/chemprot_development_abstracts.tsv", "c/x_test_abstracts_gs.tsv"),
    ],
)
def test_the_splits_of_chemprot_lie_side_by_side_or_each_in_a_folder(tmp_path, names):
    for name in names:
        for kind, content in chemprot("x").items():
            file = tmp_path / name.replace("abstracts", kind)
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
    found = find_splits(tmp_path, "chemprot")
    assert [str(found[split].relative_to(tmp_path)) for split in ("train", "dev", "test")] == list(names)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("pubtator", ("CDR_TrainingSet.PubTator.txt", "CDR_DevelopmentSet.PubTator.txt", "CDR_TestSet.PubTator.txt")),
        ("bioc", ("x-train.bioc.xml", "x-dev.bioc.xml", "x-test.bioc.xml")),
        ("brat", ("train", "dev", "test")),
        ("i2b2", ("my_training", "my_validation", "my_test")),
        ("classification", ("20x-train.tab", "20x-val.tab", "20x-test.tab")),
        ("semeval", ("TRAIN_FILE.TXT", "DEV_FILE.TXT", "TEST_FILE_FULL.TXT")),
        ("tacred", ("train_data.json", "dev_data.json", "test_data.json")),
        ("fewrel", ("train_wiki.json", "val_wiki.json", "test_wiki.json")),
    ],
)
def test_a_split_of_other_formats_is_known_by_its_name(tmp_path, source, names):
    for name in (*names, "readme.md"):
        path = tmp_path / name
        if "." in name:
            path.write_text("")
        else:
            path.mkdir()
    found = find_splits(tmp_path, source)
    assert [found[split].name for split in ("train", "dev", "test")] == list(names)


@pytest.mark.parametrize("source", ["bioc", "pubtator", "jsonl"])
def test_a_split_may_be_a_folder_of_files(tmp_path, source):
    (tmp_path / "flat").mkdir()
    WRITERS[source](tmp_path / "flat", 4)
    for file in (tmp_path / "flat").iterdir():
        (tmp_path / "d" / file.stem).mkdir(parents=True)
        file.rename(tmp_path / "d" / file.stem / f"documents{file.suffix}")
    dataset, _ = load(tmp_path / "d", source=source)
    assert [len(found) for found in all_of(dataset).values()] == [4, 4, 4]


def test_a_split_of_brat_may_be_one_text(tmp_path):
    write_brat(tmp_path, 2)
    for split in ("train", "dev", "test"):
        for suffix in (".txt", ".ann"):
            (tmp_path / split / f"{split}1{suffix}").rename(tmp_path / f"{split}{suffix}")
        for file in (tmp_path / split).iterdir():
            file.unlink()
        (tmp_path / split).rmdir()
    dataset, _ = load(tmp_path, source="brat")
    assert [len(found) for found in all_of(dataset).values()] == [1, 1, 1]
    (tmp_path / "more.txt").write_text("It was late.")
    assert "dev.txt is named after a split and more.txt is not; put the documents" in refusal(tmp_path, source="brat")


def test_a_folder_of_folds_is_refused_with_what_to_name(tmp_path):
    for fold in ("10", "2", "1"):
        (tmp_path / fold).mkdir()
        WRITERS["biobert"](tmp_path / fold, 4)
    assert refusal(tmp_path, source="biobert") == (
        f"{tmp_path}: no training file; 3 folders in it have one: name one of them, such as {tmp_path}/1"
    )


def test_what_was_left_out_is_noted_when_built_and_from_the_cache(tmp_path):
    WRITERS["pgr"](tmp_path, 4)
    with (tmp_path / "train.tsv").open("a") as file:
        file.write(pgr_row("Nothing is in gout .", "GHOST", "gout", GENE_START_POSITION=0, GENE_END_POSITION=5))
    for _ in range(2):
        dataset, _ = load(tmp_path, source="pgr")
        assert dataset.notes == ["train: 1 row left out: the gene is not in the sentence"]
    assert len(dataset.train) == 4


def test_a_relation_over_two_sentences_is_noted_once_though_documents_are_read_twice(tmp_path):
    write_brat(tmp_path, 4)
    text = "We gave zinc. It stopped xine."
    (tmp_path / "train" / "far.txt").write_text(text)
    ends = [(text.index(word), text.index(word) + 4) for word in ("zinc", "xine")]
    (tmp_path / "train" / "far.ann").write_text(
        f"T1\tDrug {ends[0][0]} {ends[0][1]}\tzinc\nT2\tGene {ends[1][0]} {ends[1][1]}\txine\n"
        "R1\tStops Arg1:T1 Arg2:T2\n"
    )
    dataset, _ = load(tmp_path, source="brat")
    assert dataset.notes == ["train: 1 relation left out: the two entities stand in different sentences"]


def test_a_split_of_which_nothing_is_left_is_refused_with_the_reason(tmp_path):
    WRITERS["pgr"](tmp_path, 4)
    file = tmp_path / "test.tsv"
    rows = [pgr_row("Nothing here .", "GHOST", "gout", **{f"{k}_POSITION": 1 for k in _ENDS}) for _ in range(3)]
    file.write_text(file.read_text().splitlines(keepends=True)[0] + "".join(rows))
    assert refusal(tmp_path, source="pgr") == (
        f"{file}: no sentences; test needs at least one (3 rows left out: the gene is not in the sentence)"
    )


_ENDS = ("GENE_START", "GENE_END", "PHENOTYPE_START", "PHENOTYPE_END")
