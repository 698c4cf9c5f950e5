"""From files to a data set: which file is which split, what is carved, what is refused, what is kept."""

import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel import datasets
from fedrel.bags import Dataset, iterate
from fedrel.config import Data
from fedrel.corpus import NA, Instance
from fedrel.encoding import vectors
from fedrel.encoding.vocabulary import Vocabulary
from fedrel.errors import UserError
from fedrel.partition import one_after_another
from tests.instances import sentence, sentences, write
from tests.labelled_examples import WRITERS, chemprot, pgr_row, write_brat


def load(path: Path, source="opennre", **more) -> tuple[Dataset, list[str]]:
    told: list[str] = []
    dataset = datasets.load(Data(source=source, path=str(path), **more), say=told.append)
    return dataset, [*told, *dataset.notes]


def refusal(path: Path, **more) -> str:
    with pytest.raises(UserError) as caught:
        load(path, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def all_of(dataset: Dataset) -> dict[str, list[Instance]]:
    return {name: list(iterate(dataset, getattr(dataset, name))) for name in ("train", "dev", "test")}


def pairs(instances):
    return {(it.head.id, it.tail.id) for it in instances}


def whole(folder: Path, *, mark="") -> Path:
    """A good data set."""
    for name in ("train", "dev", "test"):
        write(folder / f"{name}.jsonl", sentences(8, prefix=f"{mark}{name}"))
    return folder


# ------------------------------------------------------------------------------------------------ splits


def test_every_sentence_of_a_whole_folder_is_in_its_split(tmp_path):
    dataset, notes = load(whole(tmp_path / "d"))
    for name, found in all_of(dataset).items():
        assert found == sentences(8, prefix=name)
    assert notes[1:] == []


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "valid.txt", "test.txt"),
        ("nyt10_train.json", "nyt10_val.json", "nyt10_test.json"),
        ("my-train.jsonl", "my-validation.jsonl", "my-test.jsonl"),
    ],
)
def test_a_split_is_known_by_its_file_name(tmp_path, names):
    for file in (*names, "rel2id.json", "readme.md", "latest.txt"):
        (tmp_path / file).write_text("")
    found = datasets.find_splits(tmp_path)
    assert [found[split].name for split in ("train", "dev", "test")] == list(names)


def test_two_files_for_one_split_are_refused(tmp_path):
    write(whole(tmp_path) / "train.txt", [])
    assert "both train.jsonl and train.txt could be train" in refusal(tmp_path)


@pytest.mark.parametrize("dev", [None, "", "\n \n"])
def test_a_missing_or_empty_dev_is_carved_from_train_by_pair_and_told(tmp_path, dev):
    write(tmp_path / "train.jsonl", sentences(200, prefix=f"carve{dev}"))
    write(tmp_path / "test.jsonl", sentences(8, prefix="t"))
    if dev is not None:
        (tmp_path / "dev.jsonl").write_text(dev)
    for _ in range(2):  # built, and from the cache
        dataset, told = load(tmp_path)
        assert [line for line in told if "carved from train for dev" in line]
    found = all_of(dataset)
    assert not pairs(found["train"]) & pairs(found["dev"])
    assert 5 <= len(pairs(found["dev"])) <= 45
    assert found["test"] == sentences(8, prefix="t")
    both = found["train"] + found["dev"]
    assert sorted(both, key=repr) == sorted(sentences(200, prefix=f"carve{dev}"), key=repr)


def test_a_single_file_is_split_by_pair_and_told(tmp_path):
    made = sentences(300)
    dataset, told = load(write(tmp_path / "everything.jsonl", made))
    assert sum("carved from train" in line for line in told) == 2
    found = all_of(dataset)
    names = ("train", "dev", "test")
    assert sorted((it for name in names for it in found[name]), key=repr) == sorted(made, key=repr)
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not pairs(found[one]) & pairs(found[other])
    assert min(len(pairs(found[name])) for name in names) >= 10
    assert dataset.meta["overlap"] == 0


def test_which_pairs_are_carved_depends_on_the_pair_alone(tmp_path):
    made = sentences(120)
    one, _ = load(write(tmp_path / "one.jsonl", made))
    other, _ = load(write(tmp_path / "other.jsonl", list(reversed(made[:120]))))
    kept = pairs(made[:120])
    assert pairs(all_of(other)["test"]) == pairs(all_of(one)["test"]) & kept


def test_a_missing_test_file_beside_a_dev_file_is_refused(tmp_path):
    (whole(tmp_path) / "test.jsonl").unlink()
    assert refusal(tmp_path) == f"{tmp_path}: no test file; name it test.jsonl"


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_empty_train_or_test_file_is_refused_by_name(tmp_path, split):
    write(whole(tmp_path) / f"{split}.jsonl", [])
    assert refusal(tmp_path) == f"{tmp_path}/{split}.jsonl: no sentences; {split} needs at least one"


def test_too_few_pairs_to_carve_from_are_refused(tmp_path):
    def held_out(pair: int, split: str) -> bool:
        return zlib.crc32(f"{split}\th{pair}\tt{pair}".encode()) % 10 == 0

    never = [it for it in sentences(40) if not held_out(int(it.head.id[1:]), "test")]
    assert "too few entity pairs to carve test from train; add a test file" in refusal(
        write(tmp_path / "a.jsonl", never)
    )
    always = [it for it in sentences(40) if held_out(int(it.head.id[1:]), "test")]
    assert "too few entity pairs to carve test from train" in refusal(write(tmp_path / "b.jsonl", always))


def test_data_that_is_not_there_is_refused(tmp_path):
    assert refusal(tmp_path / "none") == f"{tmp_path}/none: no such file or folder"
    assert "no training file" in refusal(tmp_path)
    with pytest.raises(UserError, match=r'data\.source = "opennre" needs data\.path'):
        datasets.load(Data(source="opennre"))
    with pytest.raises(UserError, match=r'data\.source = "opennr" is unknown; did you mean "opennre"\?'):
        datasets.load(Data(source="opennr"))


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize(
    ("content", "says"),
    [(b'{"text": "Ann', "not a JSON object (is the file cut off?)"), (b"caf\xe9", "not UTF-8 text")],
)
def test_a_bad_line_of_any_split_is_refused_with_its_place_and_nothing_is_kept(tmp_path, cache, split, content, says):
    file = whole(tmp_path, mark=f"{split}{len(content)}") / f"{split}.jsonl"
    file.write_bytes(file.read_bytes() + content)
    before = set(cache.rglob("*"))
    assert refusal(tmp_path).startswith(f"{file}:17: {says}")
    assert set(cache.rglob("*")) == before


def test_overlap_is_counted_and_refused_unless_allowed(tmp_path):
    write(whole(tmp_path) / "test.jsonl", [*sentences(8, prefix="x"), *sentences(3, prefix="train")])
    dataset, _ = load(tmp_path)
    with pytest.raises(UserError, match=r"^3 entity pairs are in both train and test"):
        dataset.require_no_overlap(False)


def test_nyt10_files_are_read_too(tmp_path):
    for name in ("train", "dev", "test"):
        lines = [
            f"h{name}{n}\tt{n}\tann\tbonn\t{'NA' if n % 2 else '/born'}\tann in bonn ###END###\n" for n in range(4)
        ]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    dataset, _ = load(tmp_path, source="nyt10")
    assert dataset.relations == [NA, "/born"]
    assert len(dataset.train) == len(dataset.dev) == len(dataset.test) == 4


# ----------------------------------------------------------------------------------------------- formats


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
    assert bool(dataset.notes) == carved
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
        assert datasets.fingerprint(Data(source=source, path=str(tmp_path / source)))


def _holds_relations(path: Path) -> bool:
    return path.is_file() and any(mark in path.read_text() for mark in ("Arg1:", "r="))


def test_the_same_folders_elsewhere_are_the_same_data_set(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_brat(tmp_path / name, 4)
    assert load(tmp_path / "one", source="brat")[0].folder == load(tmp_path / "other", source="brat")[0].folder


def test_documents_without_splits_are_split_by_pair(tmp_path):
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
    found = datasets.find_splits(tmp_path, "chemprot")
    assert [str(found[split].relative_to(tmp_path)) for split in ("train", "dev", "test")] == list(names)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("pubtator", ("CDR_TrainingSet.PubTator.txt", "CDR_DevelopmentSet.PubTator.txt", "CDR_TestSet.PubTator.txt")),
        ("bioc", ("x-train.bioc.xml", "x-dev.bioc.xml", "x-test.bioc.xml")),
        ("brat", ("train", "dev", "test")),
        ("i2b2", ("my_training", "my_validation", "my_test")),
        ("classification", ("20x-train.tab", "20x-val.tab", "20x-test.tab")),
    ],
)
def test_a_split_of_other_formats_is_known_by_its_name(tmp_path, source, names):
    for name in (*names, "readme.md"):
        path = tmp_path / name
        if "." in name:
            path.write_text("")
        else:
            path.mkdir()
    found = datasets.find_splits(tmp_path, source)
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


# ------------------------------------------------------------------------------------------------- cache


def test_the_same_content_elsewhere_is_the_same_data_set(tmp_path):
    one, told = load(whole(tmp_path / "one", mark="same"))
    other, told_again = load(whole(tmp_path / "other", mark="same"))
    assert one.folder == other.folder
    assert told == [f"reading {tmp_path / 'one'} …"]
    assert told_again == []


def test_other_content_is_another_data_set(tmp_path):
    folder = whole(tmp_path, mark="change")
    seen = {load(folder)[0].folder}
    for name in ("train", "dev", "test"):
        write(folder / f"{name}.jsonl", [*sentences(8, prefix=f"change{name}"), sentence("new", name)])
        seen.add(load(folder)[0].folder)
    (folder / "dev.jsonl").unlink()
    write(folder / "train.jsonl", sentences(60))
    seen.add(load(folder)[0].folder)
    assert len(seen) == 5


def test_a_world_is_kept_by_its_parameters():
    data = Data(size=500, seed=5)
    others = [replace(data, **change) for change in ({"seed": 6}, {"size": 501}, {"noise": 0.5}, {"evidence": 6.0})]
    folders = [datasets.load(it).folder for it in (data, *others)]
    assert len(set(folders)) == 5
    assert datasets.load(replace(data, allow_overlap=True, path="elsewhere")).folder == folders[0]


def test_the_built_in_world_is_stored_as_it_is_made():
    data = Data(size=500, seed=5)
    dataset = datasets.load(data)
    made = datasets.world_of(data)
    for name, found in all_of(dataset).items():
        assert found == [it if isinstance(it.tokens, list) else _listed(it) for it in made.instances(name)]
    assert dataset.relations == made.relations()
    assert dataset.meta["overlap"] == 0


def _listed(it: Instance) -> Instance:
    return Instance(list(it.tokens), it.head, it.tail, it.relation, it.source, it.expressed)


# ------------------------------------------------------------------------------- relations agreed beforehand


def test_agreed_relations_are_numbered_in_their_order_and_others_left_out(tmp_path):
    dataset, _ = load(whole(tmp_path, mark="agreed"), relations=("r2", "new"))
    assert dataset.relations == [NA, "r2", "new"]
    for name, found in all_of(dataset).items():
        assert found == [it for it in sentences(8, prefix=f"agreed{name}") if it.relation in (NA, "r2")]
    assert dataset.notes == [
        f"{split}: 4 sentences left out: relation not in data.relations" for split in ("dev", "test", "train")
    ]


def test_na_may_be_named_among_them_and_is_dropped_where_pairs_without_a_relation_are(tmp_path):
    kept, _ = load(whole(tmp_path, mark="na"), relations=("r2", NA, "r0"))
    assert (kept.relations, kept.notes) == ([NA, "r2", "r0"], [])
    dropped, _ = load(tmp_path, relations=("r2", "r0"), na="drop")
    assert dropped.relations == ["r2", "r0"]
    assert set(dropped.train.labels) == {0, 1}
    assert dropped.notes == [], "nobody asked for them"


def test_the_built_in_world_can_be_asked_for_some_of_its_relations():
    wanted = ("drug/treats", "person/born_in")
    some = datasets.load(Data(size=600, relations=wanted))
    everything = datasets.load(Data(size=600))
    assert some.relations == [NA, *wanted]
    for name, found in all_of(some).items():
        assert found == [it for it in all_of(everything)[name] if it.relation in (NA, *wanted)]
        left_out = len(getattr(everything, name)) - len(found)
        assert f"{name}: {left_out:,} sentences left out: relation not in data.relations" in some.notes


def test_labels_of_texts_can_be_agreed_too(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("".join(f"{split} {n}\t{'abNA'[n:] or 'a'}\n" for n in range(3)))
    dataset, _ = load(tmp_path, source="classification", relations=("NA", "bNA"))
    assert (dataset.relations, dataset.train.labels.tolist()) == (["NA", "bNA"], [1, 0])
    assert "train: 1 text left out: relation not in data.relations" in dataset.notes


def test_agreed_relations_that_leave_nothing_are_refused(tmp_path):
    whole(tmp_path, mark="nothing")
    assert refusal(tmp_path, relations=("r0",), na="drop") != ""
    assert refusal(tmp_path, relations=("other",), na="drop") == (
        f"{tmp_path}/test.jsonl: no sentences; test needs at least one "
        "(8 sentences left out: relation not in data.relations)"
    )
    assert 'no dev sentence has a relation other than "NA"' in refusal(tmp_path, relations=("other",))
    assert refusal(tmp_path, relations=("r0", "r2", "r0")) == 'data.relations names "r0" twice; name it once'


def test_data_with_other_relations_are_other_data(tmp_path):
    whole(tmp_path, mark="kept")
    folders = {load(tmp_path, relations=it)[0].folder for it in ((), ("r0", "r2"), ("r2", "r0"), ("r0",))}
    assert len(folders) == 4


# --------------------------------------------------------------------------------- folders of platforms


def platforms(folder: Path, *, mark="") -> Path:
    for name in ("b", "a", "C"):
        write(folder / name / "train.jsonl", sentences(4, prefix=f"{mark}{name}"))
    for split in ("dev", "test"):
        write(folder / "coordinator" / f"{split}.jsonl", sentences(4, prefix=f"{mark}{split}"))
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("nobody's train")
    (folder / ".hidden").mkdir()
    write(folder / ".hidden" / "train.jsonl", sentences(4))
    return folder


def test_every_folder_with_a_training_file_is_a_platform(tmp_path):
    dataset, _ = load(platforms(tmp_path, mark="each"))
    assert list(dataset.held.items()) == [("C", 8), ("a", 8), ("b", 8)]
    found = all_of(dataset)
    assert found["train"] == [it for name in ("C", "a", "b") for it in sentences(4, prefix=f"each{name}")]
    assert (found["dev"], found["test"]) == (sentences(4, prefix="eachdev"), sentences(4, prefix="eachtest"))
    again, told = load(tmp_path)
    assert (again.folder, again.held, told) == (dataset.folder, dataset.held, [])


def test_the_coordinators_own_train_comes_last(tmp_path):
    write(platforms(tmp_path, mark="own") / "coordinator" / "train.jsonl", sentences(2, prefix="ownserver"))
    dataset, _ = load(tmp_path)
    assert list(dataset.held.items()) == [("C", 8), ("a", 8), ("b", 8), ("coordinator", 4)]
    assert all_of(dataset)["train"][24:] == sentences(2, prefix="ownserver")


def test_what_was_left_out_is_told_by_platform(tmp_path):
    dataset, _ = load(platforms(tmp_path, mark="told"), relations=("r0",))
    assert dataset.held == {"C": 6, "a": 6, "b": 6}
    assert "a/train: 2 sentences left out: relation not in data.relations" in dataset.notes
    assert "coordinator/dev: 2 sentences left out: relation not in data.relations" in dataset.notes


def test_another_name_or_another_sentence_makes_other_data(tmp_path):
    before = load(platforms(tmp_path, mark="other"))[0].folder
    prints = [datasets.fingerprint(Data("opennre", str(tmp_path)))]
    (tmp_path / "a").rename(tmp_path / "d")
    renamed = load(tmp_path)[0].folder
    write(tmp_path / "d" / "train.jsonl", sentences(5, prefix="other"))
    datasets.fingerprint.cache_clear()
    prints.append(datasets.fingerprint(Data("opennre", str(tmp_path))))
    assert len({before, renamed, load(tmp_path)[0].folder}) == 3
    assert len(set(prints)) == 2


def test_a_folder_of_platforms_that_is_not_whole_is_refused(tmp_path):
    assert "data.dev takes a share of train" in refusal(platforms(tmp_path / "dev"), dev=0.1)
    write(platforms(tmp_path / "empty") / "a" / "train.jsonl", [])
    assert refusal(tmp_path / "empty") == f"{tmp_path}/empty/a/train.jsonl: no sentences; train needs at least one"
    write(platforms(tmp_path / "name") / "ward 3" / "train.jsonl", sentences(2))
    assert refusal(tmp_path / "name").startswith(f'{tmp_path}/name: "ward 3" cannot be the name of a platform')
    write(tmp_path / "nobody" / "coordinator" / "dev.jsonl", sentences(2))
    assert refusal(tmp_path / "nobody") == (
        f"{tmp_path}/nobody: no platform: no folder in it but coordinator holds a training file"
    )


def test_documents_can_lie_in_a_folder_of_platforms_too(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_brat(tmp_path / name, 2)
    (tmp_path / "coordinator").mkdir()
    write_brat(tmp_path / "coordinator", 2)
    for folder in ("dev", "test"):
        shutil.rmtree(tmp_path / "a" / folder)
    for file in (tmp_path / "b" / "train").iterdir():
        file.rename(tmp_path / "b" / file.name)
    for folder in ("train", "dev", "test"):
        shutil.rmtree(tmp_path / "b" / folder)
    (tmp_path / "b" / "more").mkdir()
    dataset, _ = load(tmp_path, source="brat")
    assert list(dataset.held.items()) == [("a", 2), ("b", 2), ("coordinator", 2)]


# ------------------------------------------------------------------------------ what platforms hold out at home


def private(folder: Path, *, mark="", pairs=60) -> Path:
    """Platforms with pairs in common, and a coordinator without dev and test."""
    for name in ("b", "a", "C"):
        write(folder / name / "train.jsonl", [*sentences(pairs, prefix=mark), *sentences(pairs, prefix=mark + name)])
    write(folder / "coordinator" / "train.jsonl", sentences(pairs, prefix=mark))
    return folder


def test_a_tenth_of_the_pairs_is_held_out_by_everybody_and_trained_on_by_nobody(tmp_path):
    dataset, told = load(private(tmp_path, mark="tenth"))
    found = {split: pairs(instances) for split, instances in all_of(dataset).items()}
    assert not found["train"] & found["dev"] | found["train"] & found["test"] | found["dev"] & found["test"]
    everything = pairs([*sentences(60, prefix="tenth")]) | {
        pair for name in "abC" for pair in pairs(sentences(60, prefix=f"tenth{name}"))
    }
    assert found["train"] | found["dev"] | found["test"] == everything
    assert 0.04 < len(found["dev"]) / len(everything) < 0.2
    assert "dev is what the platforms hold out, each one pair in 10 of its train" in told
    dataset.require_no_overlap(False)
    assert list(dataset.held_out) == ["dev", "test"]
    for split, sizes in dataset.held_out.items():
        assert list(sizes) == ["C", "a", "b"]
        assert sum(sizes.values()) == len(getattr(dataset, split))
    assert sum(dataset.held.values()) == len(dataset.train)


def test_a_platform_alone_holds_out_what_a_simulation_says_it_does(tmp_path):
    dataset, _ = load(private(tmp_path, mark="alone"), relations=("r2", "r0"))
    for name in ("C", "a", "b"):
        alone = part(tmp_path / name, "r2", "r0", held_out=("dev", "test"))
        for split, held in [("train", dataset.held), *dataset.held_out.items()]:
            rows = one_after_another(held)[name]
            assert all_of(alone)[split] == list(iterate(dataset, getattr(dataset, split), rows))
    own = one_after_another(dataset.held)["coordinator"]
    assert all_of(public(tmp_path / "coordinator", "r2", "r0"))["train"] == list(iterate(dataset, dataset.train, own))


def test_files_of_their_own_come_first_and_only_where_the_coordinator_has_none(tmp_path):
    private(tmp_path, mark="files")
    write(tmp_path / "a" / "dev.jsonl", sentences(4, prefix="filesown"))
    write(tmp_path / "a" / "test.jsonl", sentences(4, prefix="filesnever"))
    write(tmp_path / "coordinator" / "test.jsonl", sentences(4, prefix="filestest"))
    dataset, told = load(tmp_path)
    assert dataset.held_out["dev"]["a"] == 8
    assert dataset.held["a"] == 240  # all of its train
    assert dataset.held["b"] < 240
    assert list(dataset.held_out) == ["dev"]
    assert all_of(dataset)["test"] == sentences(4, prefix="filestest")
    assert (
        "dev is what the platforms hold out: a a file of their own, C, b one pair in 10 of train; what one holds out "
        "another may train on"
    ) in told
    alone = part(tmp_path / "a", "r0", "r2", held_out=("dev",))
    assert all_of(alone)["dev"] == sentences(4, prefix="filesown")
    assert len(alone.test) == 0


def test_platforms_that_are_too_small_to_hold_anything_out(tmp_path):
    write(private(tmp_path / "few", mark="few") / "a" / "train.jsonl", sentences(1, prefix="fewalone"))
    dataset, _ = load(tmp_path / "few")
    assert dataset.held_out["dev"]["a"] == 0
    chosen = (
        it for it in sentences(200, prefix="whole") if zlib.crc32(f"dev\t{it.head.id}\t{it.tail.id}".encode()) % 10 == 0
    )
    write(tmp_path / "few" / "a" / "train.jsonl", [next(chosen)])
    assert refusal(tmp_path / "few") == (
        f"{tmp_path}/few/a: too little to hold out dev and train on the rest; add a dev file"
    )


# ----------------------------------------------------------------------------------------- one party alone


def part(path: Path, *relations: str, held_out=(), **more) -> Dataset:
    return datasets.load_part(Data(source="opennre", **more), path, relations=relations, held_out=held_out)


def public(path: Path, *relations: str) -> Dataset:
    return datasets.load_public(Data(source="opennre"), path, relations=relations)


def test_a_platform_needs_nothing_but_its_train(tmp_path):
    write(tmp_path / "train.jsonl", sentences(4, prefix="alone"))
    alone = part(tmp_path, "r2", "r0", dev=0.3)
    assert alone.relations == [NA, "r2", "r0"]
    assert all_of(alone) == {"train": sentences(4, prefix="alone"), "dev": [], "test": []}
    assert part(tmp_path, "r2", "r0").folder == alone.folder
    assert part(tmp_path, "r0").notes == ["train: 2 sentences left out: relation not in data.relations"]
    assert part(tmp_path / "train.jsonl", "r0", "r2").relations == [NA, "r0", "r2"]


def test_a_platform_may_hold_no_relation_at_all(tmp_path):
    write(tmp_path / "train.jsonl", [sentence(relation=NA)])
    assert part(tmp_path, "r").train.labels.tolist() == [0]


def test_a_coordinator_needs_no_train_and_may_share_pairs_with_anybody(tmp_path):
    for split in ("dev", "test"):
        write(tmp_path / f"{split}.jsonl", sentences(4, prefix="both"))
    alone = public(tmp_path, "r0", "r2")
    assert all_of(alone) == {"train": [], "dev": sentences(4, prefix="both"), "test": sentences(4, prefix="both")}
    write(tmp_path / "train.jsonl", sentences(2, prefix="own"))
    assert all_of(public(tmp_path, "r0", "r2"))["train"] == sentences(2, prefix="own")


def test_a_party_that_cannot_take_part_is_told_why(tmp_path):
    def why(path, *relations, source="opennre"):
        with pytest.raises(UserError) as caught:
            datasets.load_part(Data(source=source), path, relations=relations)
        return str(caught.value)

    assert why(tmp_path, "r").startswith(f"{tmp_path}: no training file; expected train.jsonl")
    assert why(tmp_path / "none", "r") == f"{tmp_path}/none: no such file or folder"
    write(tmp_path / "train.jsonl", sentences(2))
    assert why(tmp_path).startswith("data.relations is empty; a federation agrees on its relations")
    assert why(tmp_path, "r", source="world").startswith('data.source = "world" is no format of files')
    write(tmp_path / "train.jsonl", [sentence(relation="s")])
    assert why(tmp_path, "r") == (
        f"{tmp_path}/train.jsonl: no sentences; train needs at least one "
        "(1 sentence left out: relation not in data.relations)"
    )


# ------------------------------------------------------------------------------------------ word vectors


def vector_file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


VOCABULARY = Vocabulary(("<pad>", "<unk>", "the", "cat", "never"))


def test_a_file_of_word_vectors_fills_the_rows_of_its_words(tmp_path):
    file = vector_file(tmp_path / "v.txt", "3 2\nThe 1 2\nthe 5 6 \n\ncat -0.5 1e-3\nother 7 8\n")
    table = vectors.initial_table(VOCABULARY, 2, vectors.load(str(file)), 1)
    assert table[0].tolist() == [0, 0]
    assert table[2].tolist() == [1, 2], "the first, which is the more frequent"
    assert table[3].tolist() == pytest.approx([-0.5, 1e-3])
    random = vectors.initial_table(VOCABULARY, 2, None, 1)
    assert table[[1, 4]].tolist() == random[[1, 4]].tolist()


def test_vectors_of_one_number_are_not_taken_for_a_headline(tmp_path):
    file = vector_file(tmp_path / "v.txt", "the 0.5\ncat 2\n")
    assert vectors.load(str(file)).words == ["the", "cat"]


def test_vectors_that_share_no_word_leave_the_table_random(tmp_path):
    file = vector_file(tmp_path / "v.txt", "dog 1 2\n")
    table = vectors.initial_table(VOCABULARY, 2, vectors.load(str(file)), 1)
    assert (table == vectors.initial_table(VOCABULARY, 2, None, 1)).all()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("the 1 2\ncat 1\n", ":2: expected a word and 2 numbers"),
        ("the 1 2\ncat 1 2 3\n", ":2: expected a word and 2 numbers"),
        ("the 1 2\ncat\n", ":2: expected a word and 2 numbers"),
        ("the 1 2\n\ncat 1 two\n", ":3: expected a word and 2 numbers"),
        ("the 1 2\ncat 1 nan\n", ":2: expected a word and 2 numbers"),
        ("the 1 1e39\n", ":1: expected a word and its numbers"),
        ("the 1 inf\n", ":1: expected a word and its numbers"),
        ("the\t1\t2\n", ":1: expected a word and its numbers"),
        ("the one two\n", ":1: expected a word and its numbers"),
        (b"the 1 2\ncaf\xe9 1 2\n", ":2: not UTF-8 text"),
        ("", ": holds no word vectors"),
        ("400000 50\n", ": holds no word vectors"),
    ],
)
def test_a_bad_file_of_word_vectors_is_refused_with_its_line(tmp_path, content, says):
    file = vector_file(tmp_path / "v.txt", content)
    with pytest.raises(UserError) as caught:
        vectors.load(str(file))
    assert str(caught.value).startswith(f"{file}{says}")


def test_missing_word_vectors_and_another_dimension_are_refused(tmp_path):
    with pytest.raises(UserError, match=r'glov: no such file; extractor\.vectors is "random", "glove" or a file'):
        vectors.load(str(tmp_path / "glov"))
    pretrained = vectors.load(str(vector_file(tmp_path / "v.txt", "the 1 2 3\n")))
    with pytest.raises(UserError, match=r"3 dimensions; set extractor\.word_dim = 3"):
        vectors.initial_table(VOCABULARY, 50, pretrained, 1)


@given(st.binary(max_size=60) | st.text("a1 .\n-e", max_size=40).map(str.encode))
def test_arbitrary_bytes_are_word_vectors_or_refused(tmp_path_factory, content):
    file = vector_file(tmp_path_factory.getbasetemp() / "arbitrary.txt", content)
    try:
        loaded = vectors.load(str(file))
    except UserError as error:
        assert str(error).startswith(str(file))
    else:
        assert loaded.vectors.shape[0] == len(loaded.words) > 0
